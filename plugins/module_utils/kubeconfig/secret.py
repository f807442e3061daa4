# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig that a Secret of a management cluster holds, or that it describes in the way of Argo CD. Pure.

Who may write such a Secret is not who runs this. So a kubeconfig of one names no file of this machine, which would be sent to its server,
and no program, unless the user permits programs. Messages name keys and entries, and repeat no value.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ..base.json_fields import labels_of, mapping
from ..base.json_reader import NotJson, load_json
from ..base.redact import one_line
from ..base.yaml_reader import NotYaml, load_yaml
from .chosen import choose
from .document import Kubeconfig, entry_subject, parse_kubeconfig
from .fields import FILES
from .invalid import KubeconfigInvalid, RefusedSubject
from .whole import kubeconfig_of

ARGO_LABEL: Final = "argocd.argoproj.io/secret-type"
"""Label that Argo CD gives to its Secrets; ``cluster`` for those of clusters (Argo CD, Declarative Setup, Clusters)."""
KEYS: Final = ("kubeconfig", "value")
"""Keys under which a Secret has a kubeconfig: of the management plane, and of Cluster API."""
_IN_CLUSTER: Final = "kubernetes.default.svc"


def kubeconfig_of_secret(secret: Mapping[str, Any], key: str = "", *, programs: bool = False) -> dict[str, Any]:
    """Return the kubeconfig of a Secret as a document whose current-context is the one to use.

    :param key: of the Secret; "" for the first of KEYS that is there, or for what a Secret of Argo CD describes.
    :param programs: whether it may name a program (``exec``) that is run on this machine for credentials.
    :raises KubeconfigInvalid: when there is none, or it cannot be used.
    """
    data = mapping(secret, "data")
    if not key and is_of_argo(secret):
        document = _document_of_argo(data)
    else:
        found = key or next((name for name in KEYS if data.get(name)), KEYS[0])
        document = _document(data, found if key or data.get(found) else "")
    kubeconfig = parse_kubeconfig(document, None)
    only = next(iter(kubeconfig.contexts)) if len(kubeconfig.contexts) == 1 and not kubeconfig.current_context else None
    chosen = choose(kubeconfig, only)
    _refuse_what_acts_here(kubeconfig, programs=programs)
    return {**document, "current-context": chosen.context}


def is_of_argo(secret: Mapping[str, Any]) -> bool:
    """Return whether a Secret is one of Argo CD that describes a cluster."""
    return labels_of(secret).get(ARGO_LABEL) == "cluster"


def argo_text(secret: Mapping[str, Any], key: str) -> str:
    """Return what a Secret of Argo CD has as ``name`` or ``server``; "" if it is no text.

    :raises KubeconfigInvalid: when it is not base64.
    """
    return _decoded(mapping(secret, "data"), key).decode("utf-8", "replace").strip() if mapping(secret, "data").get(key) else ""


def _document(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    if not key:
        raise KubeconfigInvalid(f"has neither a key {' nor a key '.join(KEYS)}")
    try:
        document = load_yaml(_decoded(data, key))
    except NotYaml as not_yaml:
        raise KubeconfigInvalid(f"has a key {one_line(key, 80)} that is no kubeconfig: {not_yaml}") from None
    if not isinstance(document, dict) or not document:
        raise KubeconfigInvalid(f"has a key {one_line(key, 80)} that is no kubeconfig: it is no mapping")
    return document


def _document_of_argo(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kubeconfig that says what a Secret of Argo CD says.

    Argo CD itself builds a client from the same fields (argo-cd, pkg/apis/application/v1alpha1, ``Cluster.RawRestConfig``).
    """
    server = _decoded(data, "server").decode("utf-8", "replace").strip()
    try:
        config = load_json(_decoded(data, "config")) if data.get("config") else {}
    except NotJson as not_json:
        raise KubeconfigInvalid(f"has a key config that Argo CD does not know: {not_json}") from None
    if not isinstance(config, dict) or not isinstance(config.get("tlsClientConfig") or {}, dict):
        raise KubeconfigInvalid("has a key config that Argo CD does not know: it, or its tlsClientConfig, is no mapping")
    if config.get("awsAuthConfig"):
        raise KubeconfigInvalid(
            "has an awsAuthConfig, for which Argo CD runs a program of its own image",
            remedy="Give the host a kubeconfig of its own, such as one of the AWS CLI.",
        )
    tls = config.get("tlsClientConfig") or {}
    cluster = {
        "server": server,
        "certificate-authority-data": tls.get("caData"),
        "tls-server-name": tls.get("serverName"),
        "insecure-skip-tls-verify": tls.get("insecure"),
        "proxy-url": config.get("proxyUrl"),
    }
    user = {
        "token": config.get("bearerToken"),
        "username": config.get("username"),
        "password": config.get("password"),
        "client-certificate-data": tls.get("certData"),
        "client-key-data": tls.get("keyData"),
        "exec": _plugin_of_argo(config.get("execProviderConfig")),
    }
    said = {key: value for key, value in user.items() if value}
    if not said and _host_of(server) == _IN_CLUSTER:
        raise KubeconfigInvalid(
            f"is the cluster in which Argo CD itself runs ({_IN_CLUSTER}), and has no credentials",
            remedy="Give the host a kubeconfig of its own.",
        )
    return kubeconfig_of({key: value for key, value in cluster.items() if value}, said)


def _plugin_of_argo(config: Any) -> Any:
    """Return an exec plugin in the form of a kubeconfig: Argo CD has its variables as a mapping, and never asks on a terminal."""
    if not isinstance(config, dict) or not isinstance(config.get("env") or {}, dict):
        return config  # the reader of kubeconfigs says what is wrong with it
    env = [{"name": name, "value": value} for name, value in (config.get("env") or {}).items()]
    return {**config, "env": env, "interactiveMode": "Never"} if config else None


def _host_of(server: str) -> str:
    try:
        return urlsplit(server).hostname or ""
    except ValueError:
        return ""


def _refuse_what_acts_here(kubeconfig: Kubeconfig, *, programs: bool) -> None:
    """Refuse an entry, of any context, that reads a file or runs a program here: a host variable may name another context."""
    for kind, entries in (("cluster", kubeconfig.clusters), ("user", kubeconfig.users)):
        refused = (*FILES[kind], "auth-provider", *(() if programs else ("exec",)))
        for name, entry in entries.items():
            for field in refused:
                if field in entry:
                    raise KubeconfigInvalid(
                        f"has {field}, which is not taken from a Secret: it acts on this machine",
                        subject=entry_subject(kind, name),
                        remedy="Permit programs, or give the host a kubeconfig of its own."
                        if field == "exec"
                        else "Write the content into the kubeconfig, or give the host a kubeconfig of its own.",
                    )


def _decoded(data: Mapping[str, Any], key: str) -> bytes:
    subject = RefusedSubject("it", "it")
    if not data.get(key):
        raise KubeconfigInvalid(f"has no key {one_line(key, 80)}", subject=subject)
    try:
        return base64.b64decode(str(data[key]), validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigInvalid(f"has a key {one_line(key, 80)} that is not base64", subject=subject) from None
