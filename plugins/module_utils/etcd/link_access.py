# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Access of a link to its peer's etcd, taken from the Secrets that the reader of the link has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ..base.dialling import DialRule
from ..base.sealed import Sealed, SecretStore
from ..base.yaml_reader import NotYaml, load_yaml
from ..mesh.endpoints.addresses import canonical_ip, is_ip
from ..mesh.endpoints.endpoint import DEFAULT_PORT
from ..mesh.endpoints.etcd_config import DIRECTORY
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts
from .client import EtcdAccess

_REMOTE_CERT: Final = "clustermesh-apiserver-remote-cert"


_COMMON: Final = {"common-etcd-client-ca.crt": "ca.crt", "common-etcd-client.crt": "tls.crt", "common-etcd-client.key": "tls.key"}


def link_access(local: ClusterFacts, peer_name: str, secrets: SecretStore) -> EtcdAccess | str:
    """Return how ``local`` reaches the peer, exactly as its Secrets have it, or a sentence that says why that is not known.

    :param secrets: holds the keys of the Secret with the peers, and those of clustermesh-apiserver-remote-cert.
    """
    secret = local.kvstoremesh if local.runs_kvstoremesh else local.clustermesh
    entry = secret.keys.get(peer_name)
    config = _parsed(entry.config) if entry and entry.config else None
    if config is None:
        return f"Secret {secret.name} of {local.host} holds no configuration for it that could be used from here"
    where = _endpoint(config)
    if where is None:
        return f"the configuration in Secret {secret.name} of {local.host} has no https endpoint"
    files = [_file(local, secret, config.get(name), secrets) for name in ("trusted-ca-file", "cert-file", "key-file")]
    ca, certificate, key = files
    if ca is None or certificate is None or key is None:
        return f"a file that the configuration in Secret {secret.name} of {local.host} names is not in the Secrets that are read"
    hostname, port = where
    rule = DialRule(denied=local.denied_networks, allowed=local.endpoint_networks)
    ips = _aliases(local, config, hostname)
    return EtcdAccess(hostname=hostname, port=port, ips=ips, rule=rule, ca=ca, certificate=certificate, key=key)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        config = load_yaml(text)
    except NotYaml:
        return None
    return config if isinstance(config, dict) else None


def _endpoint(config: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return (name, port) of the first endpoint: this collection and the chart write one."""
    endpoints = config.get("endpoints")
    for endpoint in endpoints if isinstance(endpoints, list) else ():
        try:
            url = urlsplit(endpoint if isinstance(endpoint, str) else "")
            if url.scheme == "https" and url.hostname:
                return url.hostname, url.port or DEFAULT_PORT
        except ValueError:
            continue
    return None


def _file(local: ClusterFacts, secret: PeerSecretFacts, path: Any, secrets: SecretStore) -> Sealed | None:
    """Return the content of a file in the projected volume.

    The volume shows the keys of the Secret with the peers, and the remote certificate under the names common-*.
    """
    folder, _sep, name = (path if isinstance(path, str) else "").rpartition("/")
    if folder != DIRECTORY:
        return None
    source, key = (_REMOTE_CERT, _COMMON[name]) if name in _COMMON else (secret.name, name)
    return secrets.get(local.host, source, key) if secrets.has(local.host, source, key) else None


def _aliases(local: ClusterFacts, config: Mapping[str, Any], hostname: str) -> tuple[str, ...]:
    """Return the addresses of the name for the pod that dials: in the configuration (read from Cilium 1.20 on) or in its hostAliases."""
    found: list[str] = []
    entries = config.get("cilium-host-aliases")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("hostname") == hostname and isinstance(entry.get("ips"), list):
            found += [ip for ip in entry["ips"] if isinstance(ip, str)]
    workload = local.apiserver if local.runs_kvstoremesh else local.agent
    for alias in workload.host_aliases if workload else ():
        found += [alias.ip] if hostname in alias.hostnames else []
    return tuple(dict.fromkeys(canonical_ip(ip) for ip in found if is_ip(ip)))
