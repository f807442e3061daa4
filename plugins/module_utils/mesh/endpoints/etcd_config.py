# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Etcd client configuration of a peer, as agents and kvstoremesh read it, and the keys that stand beside it.

In Secrets cilium-clustermesh and cilium-kvstoremesh the key is the peer's cluster name and the value is this YAML; both Secrets are
mounted whole. The text has the shape that the chart gives it (Cilium chart, templates/clustermesh-config/_helpers.tpl), plus one comment.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ...base.errors import InvalidInput
from ..binding.trust_mode import TrustMode
from ..versions.minors import CiliumVersion, agent_file_prefix, aliases_in_config
from .addresses import is_ip
from .endpoint import MeshEndpoint
from .names import is_dns_name

DIRECTORY = "/var/lib/cilium/clustermesh"
LOCAL_PORT = 2379

_NAME = re.compile(r"([a-z0-9][-a-z0-9]*)?[a-z0-9]")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def valid_cluster_name(name: str) -> bool:
    """Return whether ``name`` has 1 to 32 lower-case alphanumeric characters and inner dashes (Cilium pkg/clustermesh/types/types.go)."""
    return len(name) <= 32 and _NAME.fullmatch(name) is not None


def ca_key(name: str) -> str:
    """Return the key of the CA that signed the peer's server certificate."""
    return f"{name}.etcd-client-ca.crt"


def certificate_key(name: str) -> str:
    """Return the key of the client certificate that is shown to the peer."""
    return f"{name}.etcd-client.crt"


def private_key(name: str) -> str:
    """Return the key of the private key of that client certificate."""
    return f"{name}.etcd-client.key"


@lru_cache(maxsize=1024)
def keys_of(name: str) -> tuple[str, str, str, str]:
    """Return every key that may exist for a peer: its configuration, CA, certificate and private key."""
    return name, ca_key(name), certificate_key(name), private_key(name)


def peer_config(name: str, endpoint: MeshEndpoint, *, version: CiliumVersion | None, mode: TrustMode, trust_digest: str = "") -> str:
    """Return the YAML with which a cluster dials the mesh etcd of the peer ``name`` directly.

    :param version: Cilium of the cluster that reads it; None: unknown. From 1.20 the addresses stand in it as ``cilium-host-aliases``.
    :param mode: says whether the files common-etcd-client* are used, or the peer's own three.
    :param trust_digest: 64 hex digits for the comment. Readers compare the text alone, and load the CA only when they connect: the
        comment makes a change of the CA a change of the text (Cilium pkg/clustermesh/common/config.go).
    :raises InvalidInput: when an argument would not survive as YAML or as a file name.
    """
    return config_text(name, endpoint, aliases=aliases_in_config(version), mode=mode, trust_digest=trust_digest)


def config_text(name: str, endpoint: MeshEndpoint, *, aliases: bool, mode: TrustMode, trust_digest: str = "") -> str:
    """Return the YAML of ``peer_config`` for a caller that knows whether the reader wants the addresses in it.

    :raises InvalidInput: when an argument would not survive as YAML or as a file name.
    """
    text = _peer_text(name, endpoint.hostname, endpoint.port, endpoint.ips, aliases, mode.file_prefix(name))
    return _with_comment(text, trust_digest)


@lru_cache(maxsize=1024)
def _peer_text(name: str, hostname: str, port: int, ips: tuple[str, ...], aliases: bool, prefix: str) -> str:
    """Return the YAML without its comment, which is the same for nearly every cluster that dials the peer."""
    _require(valid_cluster_name(name), f"{name!r} is not a cluster name.")
    _require(is_dns_name(hostname) or is_ip(hostname), f"{hostname!r} is not a host name.")
    _require(all(is_ip(ip) for ip in ips), f"{ips!r} are not all IP addresses.")
    _require(0 < port < 65536, f"{port!r} is not a port.")
    lines = _client(MeshEndpoint(hostname=hostname, port=port).url, prefix)
    if ips and aliases:
        lines += ["cilium-host-aliases:", f"- hostname: {hostname}", "  ips:"]
        lines += [f'    - "{ip}"' if ":" in ip else f"    - {ip}" for ip in ips]
    return _join_lines(lines)


def local_config(
    namespace: str, *, version: CiliumVersion | None, port: int = LOCAL_PORT, trust_digest: str = "", ca_file: str = ""
) -> str:
    """Return the YAML with which agents reach their own kvstoremesh; it is the same for every peer.

    :param namespace: where Cilium runs.
    :param version: Cilium of this cluster: from 1.17 the files are local-etcd-client*.
    :param trust_digest: as in ``peer_config``, of the CA that this cluster's own etcd has.
    :param ca_file: key of the same Secret with another CA than that of the files (in a CA roll); "": the files' own.
    :raises InvalidInput: when an argument would not survive as YAML or as a file name.
    """
    lines = _client(f"https://clustermesh-apiserver.{namespace}.svc:{port}", agent_file_prefix(version), ca_file)
    return _with_comment(_join_lines(lines), trust_digest)


def _client(url: str, prefix: str, ca_file: str = "") -> list[str]:
    return [
        "endpoints:",
        f"- {url}",
        f"trusted-ca-file: {DIRECTORY}/{ca_file or f'{prefix}etcd-client-ca.crt'}",
        f"key-file: {DIRECTORY}/{prefix}etcd-client.key",
        f"cert-file: {DIRECTORY}/{prefix}etcd-client.crt",
    ]


def _join_lines(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _with_comment(text: str, trust_digest: str) -> str:
    if not trust_digest:
        return text
    _require(_DIGEST.fullmatch(trust_digest) is not None, "The trust digest is not 64 lower-case hex digits.")
    return f"{text}# trust-sha256: {trust_digest}\n"


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidInput(message)
