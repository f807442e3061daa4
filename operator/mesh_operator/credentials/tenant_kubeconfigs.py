# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A tenant's kubeconfig, reduced to fields that cannot run or read anything here: server, CA, token or client certificate.

It is read in a confined process (dry_run_job.py); the operator itself calls ``is_rebuilt`` only.
Other fields of kubeconfigs, exec plugins, auth providers, paths of files, proxies, insecure-skip-tls-verify, are refused by name.
No exception is chained: those of the libraries quote their input.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import CredentialsInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_reader import NotJson, load_json
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import NotYaml, load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.credentials import load_credentials
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.chosen import check, find
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.document import parse_kubeconfig
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.invalid import KubeconfigInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.secret import ARGO_LABEL, kubeconfig_of_secret
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.whole import kubeconfig_of

from .tenant_addresses import may_be_named

LIMIT: Final = 64 * 1024  # bytes; kubeconfigs have some 10 KiB, and the worst text of this length takes 0.2 s with libyaml, 2 s without
TOO_LONG: Final = f"The kubeconfig is not one YAML mapping of at most {LIMIT // 1024} KiB without aliases and merge keys."
CA, CERTIFICATE, KEY = "certificate-authority-data", "client-certificate-data", "client-key-data"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]+={0,2}")
_SERVER: Final = re.compile(r"https://([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/:-]*)?")
_TAKEN: Final = {
    "cluster": {"server": _SERVER, "tls-server-name": re.compile(r"[A-Za-z0-9.-]{1,253}"), CA: _BASE64},
    # http.client refuses other characters in a header with an error that quotes it.
    "user": {"token": re.compile(r"[!-~]+"), CERTIFICATE: _BASE64, KEY: _BASE64},
}
_NEVER: Final = (
    *("certificate-authority", "proxy-url", "insecure-skip-tls-verify", "exec", "auth-provider", "tokenFile", "client-certificate"),
    *("client-key", "username", "password", "as", "as-uid", "as-groups", "as-user-extra"),
)


class KubeconfigRefused(Exception):
    """Kubeconfig that is not accepted. The sentence names the refused key, never a value."""


def open_kubeconfig(text: str, *, allowed: Sequence[str] = ()) -> dict[str, Any]:
    """Return ``rebuild_kubeconfig`` of a kubeconfig in base64, as a Secret has it, or of a cluster Secret of Argo CD.

    :param text: base64, or a JSON mapping of ``server`` and ``config`` of a Secret of Argo CD, both in base64.
    :raises KubeconfigRefused: as there, and when it is not base64.
    """
    if text.startswith("{"):
        return rebuild_kubeconfig(_kubeconfig_of_argo(text), allowed=allowed)
    try:
        content = base64.b64decode(text)
    except (binascii.Error, ValueError):
        raise KubeconfigRefused("The kubeconfig in the Secret is not in base64.") from None
    return rebuild_kubeconfig(content, allowed=allowed)


def _kubeconfig_of_argo(text: str) -> bytes:
    """Return the kubeconfig that a cluster Secret of Argo CD describes. What would run something is in it, to be refused by its name."""
    problem = ""
    try:
        secret = {"metadata": {"labels": {ARGO_LABEL: "cluster"}}, "data": load_json(text)}
        return json.dumps(kubeconfig_of_secret(secret, programs=True)).encode()
    except NotJson as not_json:
        problem = str(not_json)
    except KubeconfigInvalid as invalid:
        problem = invalid.plain
    raise KubeconfigRefused(f"The Secret of Argo CD cannot be used: {problem}.")


def rebuild_kubeconfig(
    text: bytes,
    *,
    allowed: Sequence[str] = (),  # CIDRs that are reachable although they would be refused
) -> dict[str, Any]:
    """Return a kubeconfig with one cluster, user and context, as a mapping. For addresses see tenant_addresses.py.

    :raises KubeconfigRefused: when it is not valid, or has a field or an address that is not accepted from a tenant.
    """
    document: Any = None
    with suppress(NotYaml):
        document = load_yaml(text) if len(text) <= LIMIT else None
    if not isinstance(document, dict):
        raise KubeconfigRefused(TOO_LONG)
    problem = ""
    try:
        found = parse_kubeconfig(document, "/")
        only = next(iter(found.contexts)) if len(found.contexts) == 1 and not found.current_context else None
        chosen = find(found, only)
        cluster, user = (_accepted_fields(kind, entry) for kind, entry in (("cluster", chosen.cluster), ("user", chosen.user)))
        check(chosen)
    except KubeconfigInvalid as invalid:
        problem = invalid.plain
    if problem:
        raise KubeconfigRefused(f"The kubeconfig cannot be used: {problem}.")
    server = _SERVER.fullmatch(cluster["server"])
    if server is None or not may_be_named(server[1], allowed):
        raise KubeconfigRefused("The kubeconfig has no server, or one whose address the operator does not contact for tenants.")
    made = kubeconfig_of(cluster, user)
    if _identifies(user):
        with suppress(CredentialsInvalid):  # the engine decides, because it will use the credentials
            load_credentials("", made, None)
            return made
    raise KubeconfigRefused(
        f"The kubeconfig needs a server, and a token or {CERTIFICATE} with its {KEY}; these and {CA} have to be PEM without a password."
    )


def is_rebuilt(document: Any) -> bool:
    """Return whether a value has exactly the form that ``rebuild_kubeconfig`` returns, with texts of a valid form. It decodes nothing."""
    try:
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        fields = all(value == _accepted_fields(kind, value) for kind, value in (("cluster", cluster), ("user", user)))
    except (LookupError, TypeError, AttributeError, KubeconfigRefused):
        return False
    short = fields and sum(len(value) for entry in (cluster, user) for value in entry.values()) <= LIMIT
    return short and "server" in cluster and _identifies(user) and bool(document == kubeconfig_of(cluster, user))


def _identifies(user: Mapping[str, Any]) -> bool:
    return "token" in user or {CERTIFICATE, KEY} <= user.keys()


def _accepted_fields(kind: str, entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the accepted fields of a cluster or a user as texts; harmless other fields are left out."""
    for key in _NEVER:
        if key in entry:
            raise KubeconfigRefused(f"The kubeconfig's {key} is refused: the operator does not take it from a tenant.")
    given = {key: base64.b64encode(value).decode() if isinstance(value, bytes) else value for key, value in entry.items()}
    for key, form in _TAKEN[kind].items():
        if key in given and not (isinstance(given[key], str) and form.fullmatch(given[key])):
            raise KubeconfigRefused(f"The kubeconfig's {key} does not have a valid form.")
    return {key: given[key] for key in _TAKEN[kind] if key in given}
