# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs read a second time, from Kubernetes' documentation, and by nothing of the reader under test.

Pages: "Organizing Cluster Access Using kubeconfig Files", "kubeconfig (v1)", "Authenticating" and "User impersonation". Where they say
nothing, what kubectl answers: tests/unit/kube/test_like_kubectl.py holds this reading to it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from tests.testing.generated_kubeconfigs import FOLDERS, Wanted

TEXTS: Final = {
    "cluster": ("server", "tls-server-name", "certificate-authority", "certificate-authority-data", "proxy-url"),
    "user": (
        *("token", "tokenFile", "username", "password", "as", "as-uid"),
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
    ),
    "context": ("cluster", "user", "namespace"),
}
FLAGS: Final = ("insecure-skip-tls-verify", "disable-compression")
Entries = dict[str, tuple[str, dict[str, Any]]]
"""By name: the folder of the file, and the fields that are there and not empty."""


class Refused(Exception):
    """kubectl would not send a request."""


@dataclass(frozen=True)
class Meant:
    """What requests are like. ``headers`` are sorted; ``authority`` and ``certificate`` are PEM, b"" for none."""

    server: str
    server_name: str
    authority: bytes
    verifies: bool
    proxy: tuple[str | None, ...]
    headers: tuple[tuple[str, str], ...]
    certificate: bytes


def read(wanted: Wanted, folder: Path) -> Meant:
    """Return what the files mean.

    :param folder: in which `generated_kubeconfigs.write` wrote them.
    :raises Refused: when they mean nothing.
    """
    lists: dict[str, Entries] = {"cluster": {}, "user": {}, "context": {}}
    current = ""
    for name, document in zip(FOLDERS, wanted.documents, strict=False):
        for kind, found in lists.items():
            listed = [(entry.get("name") or "", entry.get(kind)) for entry in document.get(f"{kind}s") or ()]
            _demand(len({one for one, _ in listed}) == len(listed), "a name twice")
            for one, content in listed:
                checked = _checked(kind, {} if content is None else content)
                found.setdefault(one, (str(folder / name), checked))
        current = current or document.get("current-context") or ""
    context = lists["context"].get(wanted.context or current)
    _demand(context is not None and (wanted.context or current) != "", "no context")
    assert context is not None
    cluster, user = (lists[kind].get(context[1].get(kind, "")) for kind in ("cluster", "user"))
    if user is None and "user" not in context[1]:
        user = "", {}
    _demand(cluster is not None and "cluster" in context[1] and user is not None, "no cluster or user")
    assert cluster is not None and user is not None
    return _meant(*cluster, *user)


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(what)


def _checked(kind: str, content: Any) -> dict[str, Any]:
    _demand(isinstance(content, dict), "type of an entry")
    for key in TEXTS[kind]:
        _demand(isinstance(content.get(key), (str, type(None))), f"type of {key}")
    if kind == "cluster":
        for key in FLAGS:
            _demand(isinstance(content.get(key), (bool, type(None))), f"type of {key}")
    if kind == "user":
        groups, extra = content.get("as-groups"), content.get("as-user-extra")
        _demand(groups is None or (isinstance(groups, list) and all(isinstance(one, str) for one in groups)), "type of as-groups")
        _demand(extra is None or isinstance(extra, dict), "type of as-user-extra")
        for values in (extra or {}).values():
            _demand(values is None or (isinstance(values, list) and all(isinstance(one, str) for one in values)), "type of an extra")
        for key in ("exec", "auth-provider"):
            _demand(isinstance(content.get(key), (dict, type(None))), f"type of {key}")
        for variable in (content.get("exec") or {}).get("env") or ():
            _demand(isinstance(variable["value"], str), "type of a variable")
    for key in content:
        if key.endswith("-data") and content[key]:
            try:
                base64.b64decode(content[key], validate=True)
            except ValueError:
                raise Refused(f"base64 of {key}") from None
    return {key: value for key, value in content.items() if value or isinstance(value, dict)}


def _meant(cluster_folder: str, cluster: Mapping[str, Any], user_folder: str, user: Mapping[str, Any]) -> Meant:
    server = cluster.get("server", "")
    _demand(server.startswith(("http://", "https://")), "no server")
    insecure = cluster.get("insecure-skip-tls-verify", False)
    authority = _one_of(cluster_folder, cluster, "certificate-authority")
    _demand(not (insecure and authority and server.startswith("https://")), "an authority that is not asked")
    certificate = _one_of(user_folder, user, "client-certificate")
    key = _one_of(user_folder, user, "client-key") if certificate else b""  # without a certificate a key is nothing
    _demand(bool(key) or not certificate, "no key")
    _demand(not ("token" in user and ("username" in user or "password" in user)), "two ways")
    _demand(not ("tokenFile" in user and "username" in user), "two ways")
    _demand("as" in user or (not {"as-uid", "as-groups"} & user.keys() and not user.get("as-user-extra")), "no user to be")
    secret = server.startswith("https://")  # else no credentials are sent, and no plugin is asked
    _demand("auth-provider" not in user or not (secret or "exec" in user), "no such provider")
    plugin = _plugin(user, asked=secret, alone=not (certificate or {"token", "tokenFile", "username"} & user.keys()))
    headers: list[tuple[str, str]] = []
    if not server.startswith("https://"):
        pass  # credentials are not sent where all can read them, and not read either
    elif token := _token(user_folder, user):
        headers.append(("authorization", f"Bearer {token}"))
    elif "username" in user:
        both = f"{user['username']}:{user.get('password', '')}"
        headers.append(("authorization", f"Basic {base64.b64encode(both.encode()).decode()}"))
    elif plugin and not certificate:
        headers.append(("authorization", f"Bearer {_run(user_folder, plugin)}"))
    headers += [("impersonate-user", user["as"])] if "as" in user else []
    headers += [("impersonate-uid", user["as-uid"])] if "as-uid" in user else []
    headers += [("impersonate-group", group) for group in user.get("as-groups", ())]
    for name, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"impersonate-extra-{quote(name).replace('/', '%2F')}".lower(), value) for value in values or ()]
    shown = certificate if key and server.startswith("https://") else b""
    name = cluster.get("tls-server-name", "")
    return Meant(server, name, authority, not insecure, _proxy(cluster.get("proxy-url")), tuple(sorted(headers)), shown)


def _proxy(url: str | None) -> tuple[str | None, ...]:
    """Return the URL without the user, the user, and the password."""
    if not url:
        return ()
    scheme, _, rest = url.partition("://")
    who, _, place = rest.rpartition("@")
    user, _, password = who.partition(":")
    return f"{scheme}://{place}", unquote(user) if who else None, unquote(password) if ":" in who else None


def _one_of(folder: str, entry: Mapping[str, Any], key: str) -> bytes:
    """Return the content of a file or what stands in its place."""
    _demand(not (key in entry and f"{key}-data" in entry), f"two of {key}")
    if f"{key}-data" in entry:
        return base64.b64decode(entry[f"{key}-data"])
    return _file(folder, entry[key]) if key in entry else b""


def _file(folder: str, name: str) -> bytes:
    path = Path(folder, name)
    _demand(path.exists(), f"no {name}")
    return path.read_bytes()


def _token(folder: str, user: Mapping[str, Any]) -> str:
    """Return the token: that of the file, which is the newer one, where it can be read; b"" for none."""
    if "tokenFile" not in user:
        return str(user.get("token", ""))
    path = Path(folder, user["tokenFile"])
    content = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    _demand(bool(content) or "token" in user, "no token")
    return content or str(user["token"])


def _plugin(user: Mapping[str, Any], *, asked: bool, alone: bool) -> Mapping[str, Any] | None:
    if "exec" not in user:
        return None
    plugin: Mapping[str, Any] = user["exec"]
    version, mode = plugin.get("apiVersion") or "", plugin.get("interactiveMode") or ""
    _demand(bool(plugin.get("command")), "no command")
    _demand(version.endswith(("/v1", "/v1beta1")) or (bool(version) and not asked), "no such version of plugins")
    _demand(bool(mode) or not version.endswith("/v1"), "no mode")
    _demand(mode in ("", "Never", "IfAvailable") or (mode == "Always" and not (asked and alone)), "no user to ask")
    return plugin


def _run(folder: str, plugin: Mapping[str, Any]) -> str:
    """Return the token of the plugin, by its own word: it says its folder, version, argument and variable."""
    version = plugin["apiVersion"]
    own = "".join(variable["value"] for variable in plugin.get("env") or ())
    return f"of-plugin-{Path(folder).name}-{version}-{' '.join(plugin.get('args') or ())}-{own}"
