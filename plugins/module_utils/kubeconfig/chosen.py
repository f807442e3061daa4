# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Cluster and user that a context chooses, which have to be usable together, as kubectl has it (client-go, clientcmd/validation.go)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from ..base.redact import one_line
from .document import Kubeconfig, entry_subject
from .fields import Entry
from .invalid import KubeconfigInvalid

EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PROXY_SCHEMES: Final = ("http", "https", "socks5")
REMOVED_PROVIDERS: Final = {"azure": "kubelogin", "gcp": "gke-gcloud-auth-plugin"}
"""Auth providers that Kubernetes 1.26 removed, and the exec plugins in their place."""
OIDC: Final = "oidc"
"""The auth provider that client-go still has (plugin/pkg/client/auth)."""
_MODES: Final = ("Never", "IfAvailable", "Always")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Chosen:
    """What a context chooses. Entries are those of the kubeconfig."""

    context: str
    cluster: Entry = field(repr=False)
    user: Entry = field(repr=False)  # it holds secrets
    namespace: str = ""
    cluster_name: str = ""
    user_name: str = ""


def choose(kubeconfig: Kubeconfig, context: str | None = None) -> Chosen:
    """Return what a context chooses, which kubectl would use.

    :param context: its name; None for the current context.
    :raises KubeconfigInvalid: when kubectl would not use it: something is not there, or fields contradict each other.
    """
    chosen = find(kubeconfig, context)
    check(chosen)
    return chosen


def find(kubeconfig: Kubeconfig, context: str | None = None) -> Chosen:
    """Return what a context chooses, whether it can be used or not.

    :param context: its name; None for the current context.
    :raises KubeconfigInvalid: when something is not there.
    """
    name = kubeconfig.current_context if context is None else context
    entry = kubeconfig.contexts.get(name) if name else None
    if entry is None:
        lacks = f'has no context "{one_line(context, 80)}"' if context else "lacks the context that its current-context names"
        raise KubeconfigInvalid(lacks if name else "has no current-context", remedy=_known(kubeconfig))
    subject = entry_subject("context", name)
    cluster, user = entry.get("cluster", ""), entry.get("user", "")
    if not cluster:
        raise KubeconfigInvalid("names no cluster", subject=subject)
    for kind, wanted, entries in (("cluster", cluster, kubeconfig.clusters), ("user", user, kubeconfig.users)):
        if wanted and wanted not in entries:
            raise KubeconfigInvalid(f"names a {kind} that is not there", subject=subject)
    # Without a user, requests name no user: "kubectl proxy" wants it so.
    return Chosen(name, kubeconfig.clusters[cluster], kubeconfig.users.get(user, {}), entry.get("namespace", ""), cluster, user)


def check(chosen: Chosen) -> None:
    """Hold what a context chooses to what kubectl demands of it.

    :raises KubeconfigInvalid: when fields contradict each other, or one is missing.
    """
    if chosen.namespace and not _LABEL.fullmatch(chosen.namespace):
        raise KubeconfigInvalid("has a namespace that cannot be one", subject=entry_subject("context", chosen.context))
    tls = not chosen.cluster.get("server", "").startswith("http://")
    for subject, problems in (
        (entry_subject("cluster", chosen.cluster_name), _wrong_in_cluster(chosen.cluster, tls=tls)),
        (entry_subject("user", chosen.user_name), _wrong_in_user(chosen.user, tls=tls)),
    ):
        for what, remedy in problems:
            raise KubeconfigInvalid(what, subject=subject, remedy=remedy)


def _known(kubeconfig: Kubeconfig) -> str:
    names = [one_line(name, 80) for name in kubeconfig.contexts]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"It has the contexts {', '.join(names[:10])}{more}." if names else "It has no contexts."


def _wrong_in_cluster(cluster: Entry, *, tls: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong, and what to do."""
    if not cluster.get("server"):
        yield "has no server", ""
    yield from _wrong_in_server(cluster.get("server", ""))
    yield from _both(cluster, "certificate-authority", "certificate-authority-data")
    if tls and cluster.get("insecure-skip-tls-verify") and {"certificate-authority", "certificate-authority-data"} & cluster.keys():
        # client-go, transport/transport.go: "specifying a root certificates file with the insecure flag is not allowed"; without TLS it is
        yield "has a certificate authority and insecure-skip-tls-verify, which exclude each other", "Remove one of them."
    if proxy := cluster.get("proxy-url"):
        try:
            parts = urlsplit(proxy)
            usable = parts.scheme in PROXY_SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            yield f"has a proxy-url that is no URL with one of the schemes {', '.join(PROXY_SCHEMES)}", ""


def _wrong_in_server(server: str) -> Iterator[tuple[str, str]]:
    try:
        url = urlsplit(server)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        yield "has a server that is no URL", "Write one such as https://10.0.0.1:6443."
        return
    if not usable:
        yield "has a server that is no URL with http or https", "Write one such as https://10.0.0.1:6443."
    if "@" in url.netloc:
        yield "has a server with a user in its URL", "Write username and password into the user of the kubeconfig."


def _wrong_in_user(user: Entry, *, tls: bool) -> Iterator[tuple[str, str]]:
    """Yield what is wrong, and what to do. Without TLS no way to authenticate is used: client-go, tools/clientcmd/client_config.go."""
    yield from _both(user, "client-certificate", "client-certificate-data")
    if {"client-certificate", "client-certificate-data"} & user.keys():
        yield from _both(user, "client-key", "client-key-data")
        if not {"client-key", "client-key-data"} & user.keys():
            yield "has a client certificate and no client-key or client-key-data", ""
    # Beside a file for the token a password without a username is nothing: tools/clientcmd/validation.go, transport/round_trippers.go.
    if user.keys() & ({"username", "password"} if "token" in user else {"username"} if "tokenFile" in user else set()):
        yield "has a token and a username or password, which exclude each other", "Remove one of them."
    if (named := [key for key in ("as-uid", "as-groups", "as-user-extra") if user.get(key)]) and not user.get("as"):
        yield f"has {named[0]} without as, the user to impersonate", ""
    if "exec" in user and "auth-provider" in user:
        yield "has exec and auth-provider, which exclude each other", "Remove one of them."
    if "exec" in user:
        # Beside any of these no plugin is run: client-go, plugin/pkg/client/auth/exec/exec.go, UpdateTransportConfig.
        others = {"token", "tokenFile", "username", "client-certificate", "client-certificate-data"} & user.keys()
        yield from _wrong_in_plugin(user["exec"], tls=tls, runs=tls and not others)
    if tls and "auth-provider" in user:
        yield from _wrong_in_provider(user["auth-provider"].get("name", ""))


def _wrong_in_plugin(plugin: Entry, *, tls: bool, runs: bool) -> Iterator[tuple[str, str]]:
    version, mode = plugin.get("apiVersion", ""), plugin.get("interactiveMode", "")
    if not plugin.get("command"):
        yield "has an exec without command", ""
    if version not in EXEC_VERSIONS and (tls or not version):
        yield f"has an exec whose apiVersion is none that Kubernetes knows: {' and '.join(EXEC_VERSIONS)}", ""
    if not mode and version == EXEC_VERSIONS[0]:
        yield f"has an exec without interactiveMode, which {version} wants", f"Write one of {', '.join(_MODES)}."
    if mode and mode not in _MODES:
        yield f"has an exec whose interactiveMode is none of {', '.join(_MODES)}", ""
    if runs and mode == "Always":
        yield "has an exec whose interactiveMode is Always, and no person can be asked here", "Use a user that needs no terminal."
    if any(not variable.get("name") for variable in plugin.get("env", ())):
        yield "has an exec whose env has a variable without a name", ""


def _wrong_in_provider(name: str) -> Iterator[tuple[str, str]]:
    if instead := REMOVED_PROVIDERS.get(name):
        yield f"has the auth-provider {name}, which Kubernetes does not support any more", f"Use the exec plugin {instead}."
    elif name != OIDC:
        yield f"has an auth-provider that Kubernetes does not have; it has {OIDC}", ""


def _both(entry: Entry, path: str, content: str) -> Iterator[tuple[str, str]]:
    if path in entry and content in entry:
        yield f"has both {path} and {content}", "Remove one of them."
