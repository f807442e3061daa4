# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who a connection says it is: the headers of its requests and its client certificate, as the user of a kubeconfig has them.

What counts beside what, and when it is read or asked for again, is as in client-go (transport/round_trippers.go, transport/token_source.go,
plugin/pkg/client/auth): a token file before a token, both and a client certificate before a plugin; impersonation beside any of them.
Tokens of OIDC are renewed by the ``kubernetes`` package.
"""

from __future__ import annotations

import base64
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ..base.errors import CredentialsInvalid
from ..base.json_reader import NotJson, load_json
from ..base.optional_imports import deferred
from ..kubeconfig.chosen import Chosen
from ..kubeconfig.fields import Entry
from .exec_plugin import ExecPlugin, PluginCredentials, PluginFailed

if TYPE_CHECKING:
    from kubernetes.config import kube_config
else:
    kube_config = deferred("kubernetes.config.kube_config")  # 0.2 s, for the renewal of tokens of OIDC alone

Headers = list[tuple[str, str]]
"""A name may stand there several times: Impersonate-Group does."""

TOKEN_FILE_SECONDS: Final = 50  # client-go reads a token file anew after 60 s, 10 s before that
RENEWAL_SECONDS: Final = 20.0  # for an identity provider: its configuration, and the tokens
EARLIER: Final = timedelta(seconds=10)  # before its end a token is renewed; oauth2's expiryDelta
_TRIMMED: Final = " \t\n\v\f\r\x85\xa0"  # white space of Go's strings.TrimSpace as far as UTF-8 text of tokens has it


@dataclass(frozen=True)
class Certificate:
    """Client certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "<Certificate>"


class Authorization:
    """User of a kubeconfig. Thread-safe.

    :param chosen: what the kubeconfig says.
    :param cluster: inventory name, for messages.
    :param secretly: the server has TLS. Without it client-go sends the names to impersonate and nothing else of the user, and still opens
        the files of a client certificate (tools/clientcmd/client_config.go and validation.go).
    """

    def __init__(self, chosen: Chosen, cluster: str, *, secretly: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._user, self._cluster, self._clock = chosen.user, cluster, clock
        self._lock = threading.Lock()
        self._impersonation = [(name, _sendable(value, "user to impersonate", cluster)) for name, value in impersonation(chosen.user)]
        own = _own_certificate(chosen.user, cluster)
        self._own = own if secretly else None
        self._source = self._chosen_source(chosen) if secretly else None

    @property
    def is_anonymous(self) -> bool:
        """Whether requests carry nothing that says who sends them."""
        return self._source is None and self._own is None

    def certificate(self) -> Certificate | None:
        """Return the client certificate, which a plugin may give; None if there is none.

        :raises CredentialsInvalid: when the plugin gives none.
        """
        if isinstance(self._source, _PluginSource):
            with self._lock:
                return self._source.certificate()
        return self._own

    def headers(self) -> Headers:
        """Return the headers that say who sends a request.

        :raises CredentialsInvalid: when a token cannot be read or renewed.
        """
        if self._source is None:
            return [*self._impersonation]
        with self._lock:
            authorization = self._source.header()
        return ([("authorization", authorization)] if authorization else []) + self._impersonation

    def _chosen_source(self, chosen: Chosen) -> _Source | None:
        user = self._user
        if "tokenFile" in user:
            return _TokenFile(user["tokenFile"], user.get("token", ""), self._cluster, self._clock)
        if "token" in user:
            return _Fixed(f"Bearer {_sendable(user['token'], 'token', self._cluster)}")
        if "username" in user:  # a password alone is none for client-go
            both = f"{user['username']}:{user.get('password', '')}"
            return _Fixed(f"Basic {base64.b64encode(both.encode()).decode()}")
        if self._own is not None:
            return None
        if "exec" in user:
            return _PluginSource(ExecPlugin(user["exec"], chosen.cluster), self._cluster)
        if "auth-provider" in user:
            return _Oidc(user["auth-provider"].get("config", {}), self._cluster)
        return None


def impersonation(user: Entry) -> Headers:
    """Return the headers that have a request done in the name of another user (Kubernetes, "User impersonation")."""
    found: Headers = [("impersonate-user", user["as"])] if user.get("as") else []
    found += [("impersonate-uid", user["as-uid"])] if user.get("as-uid") else []
    found += [("impersonate-group", group) for group in user.get("as-groups", ())]
    for key, values in user.get("as-user-extra", {}).items():
        found += [(f"impersonate-extra-{_header_key(key)}", value) for value in values]
    return found


def _header_key(key: str) -> str:
    """Return a key as a part of a header's name: what a token of RFC 9110 cannot have, and "%", is percent-encoded."""
    return quote(key, safe="!#$&'*+^`|").lower() if key.islower() else quote(key, safe="!#$&'*+^`|")


def _sendable(value: str, what: str, cluster: str) -> str:
    """Return a value that a header can have.

    :raises CredentialsInvalid: when it has a control character; Go's client refuses it too, and Python's would quote it.
    """
    if any(character != "\t" and (character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff") for character in value):
        why = f"The {what} of the kubeconfig has a line break or another character that cannot be sent."
        raise CredentialsInvalid(why, remedy=f"Write the {what} on one line.", cluster=cluster)
    return value


def _own_certificate(user: Entry, cluster: str) -> Certificate | None:
    """Return the client certificate of the kubeconfig; None if it has none."""
    found = []
    for key in ("client-certificate", "client-key"):
        if f"{key}-data" in user:
            found.append(user[f"{key}-data"])
        elif key in user:
            found.append(_content(key, user[key], cluster))
    return Certificate(*found) if len(found) == 2 else None


def _content(what: str, path: str, cluster: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        why = f"The file that {what} of the kubeconfig names cannot be read: {error.strerror}."
        raise CredentialsInvalid(why, remedy="Check that the file is there and readable.", cluster=cluster) from None


class _Source:
    """Where the Authorization header comes from."""

    def header(self) -> str:
        """Return the value of the header; "" for none.

        :raises CredentialsInvalid: when there is no value any more.
        """
        raise NotImplementedError


class _Fixed(_Source):
    def __init__(self, value: str) -> None:
        self._value = value

    def header(self) -> str:
        return self._value


class _TokenFile(_Source):
    """Token in a file, which is read anew every minute. Where it cannot be read any more, the last one counts on."""

    def __init__(self, path: str, first: str, cluster: str, clock: Callable[[], float]) -> None:
        self._path, self._token, self._cluster, self._clock = path, first, cluster, clock
        self._until = -1.0
        self._fixed = bool(first)
        self.header()

    def header(self) -> str:
        if self._clock() >= self._until:
            try:
                token = _content("tokenFile", self._path, self._cluster).decode("utf-8", "replace").strip(_TRIMMED)
                if not token:
                    raise CredentialsInvalid("The tokenFile of the kubeconfig is empty.", remedy="Renew the token.", cluster=self._cluster)
                self._token, self._until = _sendable(token, "tokenFile", self._cluster), self._clock() + TOKEN_FILE_SECONDS
            except CredentialsInvalid:
                if not self._token:
                    raise
        return f"Bearer {_sendable(self._token, 'token', self._cluster)}"


class _PluginSource(_Source):
    """Exec plugin. Its credentials count until the end that it gave them, and are then asked for again."""

    def __init__(self, plugin: ExecPlugin, cluster: str) -> None:
        self._plugin, self._cluster = plugin, cluster
        self._given: PluginCredentials | None = None

    def header(self) -> str:
        token = _sendable(self._credentials().token, "token of the exec plugin", self._cluster)
        return f"Bearer {token}" if token else ""

    def certificate(self) -> Certificate | None:
        given = self._given or self._credentials()  # `header` renews them
        return Certificate(given.certificate, given.key) if given.certificate else None

    def _credentials(self) -> PluginCredentials:
        if self._given is None or datetime.now(UTC) > self._given.ends:
            try:
                self._given = self._plugin.run()
            except PluginFailed as failed:
                raise CredentialsInvalid(str(failed), remedy=failed.remedy, cluster=self._cluster) from None
        return self._given


class _Oidc(_Source):
    """ID token of OpenID Connect, renewed by its refresh token.

    The package asks the provider without any timeout, so it does that on a thread of its own, one at a time.
    """

    def __init__(self, config: Mapping[str, str], cluster: str) -> None:
        self._config, self._cluster = dict(config), cluster
        self._renewal: tuple[threading.Thread, dict[str, str], float] | None = None  # with the tokens it renews, and when it began
        for key in ("idp-issuer-url", "client-id"):
            if not config.get(key):
                raise self._failed(f"has no {key}", "Correct the auth-provider of the kubeconfig.")

    def header(self) -> str:
        token = self._config.get("id-token", "")
        if not token or datetime.now(UTC) + EARLIER >= self._end(token):
            if not self._config.get("refresh-token"):
                why = "has an id-token that has expired, and no refresh-token" if token else "has neither an id-token nor a refresh-token"
                raise self._failed(why, "Log in again.")
            self._renew()
        return f"Bearer {_sendable(self._config['id-token'], 'id-token', self._cluster)}"

    def _end(self, token: str) -> datetime:
        try:
            claims = load_json(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
            return datetime.fromtimestamp(float(claims["exp"]), UTC)
        except (NotJson, LookupError, TypeError, ValueError, OverflowError, OSError):
            raise self._failed("has an id-token that is no JSON Web Token with an end", "Log in again.") from None

    def _renew(self) -> None:
        """Have the package ask the provider, and wait until RENEWAL_SECONDS after the beginning. After three times that, ask anew."""
        now = time.monotonic()
        if self._renewal is None or now > self._renewal[2] + 3 * RENEWAL_SECONDS:
            renewed = {"client-secret": "", **self._config}
            asking = threading.Thread(target=_ask_provider, args=(renewed,), name="renewal of an id-token", daemon=True)
            asking.start()
            self._renewal = asking, renewed, now
        thread, config, began = self._renewal
        thread.join(max(0.0, began + RENEWAL_SECONDS - now))
        if thread.is_alive():
            why = f"has an id-token that was not renewed within {RENEWAL_SECONDS:g} s"
            raise self._failed(why, "Check that the identity provider answers.")
        self._renewal = None
        if config.get("id-token") == self._config.get("id-token"):
            raise self._failed("has an id-token that cannot be renewed", "Log in again.")
        self._config |= {key: config[key] for key in ("id-token", "refresh-token")}

    def _failed(self, what: str, remedy: str) -> CredentialsInvalid:
        return CredentialsInvalid(f"The auth-provider oidc of the kubeconfig {what}.", remedy=remedy, cluster=self._cluster)


def _ask_provider(config: dict[str, str]) -> None:
    """Have the package renew the tokens in a config; it stays as it is when that fails.

    The package verifies no provider whose authority is not given; here the system's authorities do.
    """
    with suppress(Exception):  # of ssl, requests, oauthlib or the package, which may quote tokens
        if not {"idp-certificate-authority", "idp-certificate-authority-data"} & config.keys():
            config["idp-certificate-authority"] = ssl.get_default_verify_paths().cafile or ""
        node = kube_config.ConfigNode("auth-provider", {"name": "oidc", "config": config})
        loader = kube_config.KubeConfigLoader
        loader._refresh_oidc(object.__new__(loader), node)
