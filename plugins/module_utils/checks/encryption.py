# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that the clusters encrypt pod traffic in the same way and with the same keys.

Sources: Cilium documentation, "WireGuard Transparent Encryption" (Cluster Mesh: no mixed mode), "IPsec Transparent Encryption" (key
rotation in all clusters of a mesh), "Ztunnel Transparent Encryption" (not with Cluster Mesh).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from ..base.networks import NetworkSet
from ..findings.wording import config_evidence, grouped, helm, kubectl, lines, listed, restart, show, value_groups, where
from ..mesh.cidrs import allocated_ranges, parse_networks, pool_ranges
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.cilium_config import enabled, setting
from ..mesh.versions.minors import cilium_version, holds
from .context import CheckContext, members
from .flaw import Flaw, differing
from .registry import check

_KINDS = {"enable-ipsec": "ipsec", "enable-wireguard": "wireguard"}
_STRICT = (  # key of 1.15 to 1.19, key since 1.19
    ("enable-encryption-strict-mode", "enable-encryption-strict-mode-egress"),
    ("enable-encryption-strict-mode-ingress",),
)


def _encryption(facts: ClusterFacts) -> str:
    """Return the kinds of encryption that are on in the cluster, joined by "and", or "none"."""
    return " and ".join(kind for key, kind in _KINDS.items() if enabled(facts, key)) or "none"


@check("CM-ENC-01")
def encryption_types_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters that do not encrypt pod traffic in the same way."""
    groups = grouped(members(context), _encryption)
    if len(groups) < 2:
        return
    kind = next((k for k in _KINDS.values() if k in groups), "wireguard")
    off = [context.facts[host] for value, hosts in groups.items() for host in hosts if value != kind]
    yield Flaw(
        hosts=[host for group in groups.values() for host in group],
        summary="The clusters do not encrypt pod traffic in the same way: traffic between them is dropped or goes unencrypted",
        evidence=f"cilium-config, {value_groups(groups, 'encryption')}",
        fix=lines(
            "Set the same Helm values encryption.enabled and encryption.type in all clusters, for instance:",
            *dict.fromkeys(helm(facts, "encryption.enabled=true", f"encryption.type={kind}") for facts in off),
            "A cluster with IPsec also needs the key of the others in Secret cilium-ipsec-keys.",
        ),
    )


@check("CM-ENC-02")
def node_encryption_does_not_delay_first_connection(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report node encryption or a host firewall where peers dial a NodePort.

    Packets come by the network, and answers go encrypted, to a node that may not have the key yet. With a load balancer that has its
    address on a node it was seen too. Sources: Cilium issues 31209 (open; comment of 2024-06-28) and 29872.
    """
    nodes = [key for key in ("encrypt-node", "enable-host-firewall") if enabled(facts, key)]
    if facts.service is None or facts.service.type != "NodePort" or not enabled(facts, "enable-wireguard") or not nodes:
        return
    what = "encrypts between nodes" if "encrypt-node" in nodes else "has a host firewall beside WireGuard"
    yield Flaw(
        summary=f"{facts.host} {what}, and peers dial it by NodePort: the first connection may be dropped, as nodes get each other's keys "
        "only once the mesh is up",
        evidence=f"{config_evidence(facts, 'enable-wireguard', *nodes)}; {where(facts, 'Service', 'clustermesh-apiserver')}: NodePort",
        fix=lines(
            f"If links to {facts.host} stay in stage dialling, use a load balancer, with an address that no node has:",
            helm(facts, "clustermesh.apiserver.service.type=LoadBalancer"),
        ),
    )


@check("CM-ENC-03")
def ipsec_keys_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters with different IPsec keys.

    The keys of two nodes are derived from the key in this Secret. The keys are compared by digest; agents use the last line.
    """
    readable = [f for f in members(context) if f.ipsec is not None and f.ipsec.keys]
    groups = grouped(readable, lambda f: list(f.ipsec.keys.items())[-1] if f.ipsec is not None else (0, ""))
    if len(groups) < 2:
        return
    first = readable[0]
    rows = "; ".join(f"key id {spi}, SHA-256 {digest[:12]}, in {listed(hosts)}" for (spi, digest), hosts in groups.items())
    yield Flaw(
        hosts=[host for group in groups.values() for host in group],
        summary="The clusters encrypt with different IPsec keys, so their nodes drop each other's packets",
        evidence=f"the last line of Secret {first.namespace}/{first.ipsec.name if first.ipsec else ''}: {rows}",
        fix=lines(
            f"Give all clusters the key of one of them, with the same id, for instance that of {first.host}. The agents take a key with "
            "a new id without a restart, so raise the id by one in all of them (after 15 comes 1):",
            kubectl(first, "get", "secret", first.ipsec.name if first.ipsec else "", "--output=yaml"),
            "Accept CM-ENC-03 only while a rotation of the key is under way.",
        ),
    )


@check("CM-ENC-04")
def ipsec_keys_are_readable(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report missing or unreadable IPsec keys where IPsec is on."""
    keys = facts.ipsec
    if keys is None or (keys.present and not keys.problem):
        return
    yield Flaw(
        summary=f"IPsec is on in {facts.host}, and its keys {'cannot be read' if keys.present else 'are missing'}: agents that start "
        "anew will not come up",
        evidence=f"{where(facts, 'Secret', keys.name)}: {keys.problem or 'not found'}; {config_evidence(facts, 'enable-ipsec')}",
        fix="Create the Secret with the key of the other clusters of the mesh: key keys, value "
        "'ID+ rfc4106(gcm(aes)) KEY-IN-HEX 128' (Cilium documentation, IPsec Transparent Encryption).",
    )


@check("CM-ENC-05")
def ztunnel_is_off(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster with ztunnel.

    The agents refuse to start with both (Cilium documentation, ztunnel, "Known Issues").
    """
    if not enabled(facts, "enable-ztunnel"):
        return
    yield Flaw(
        summary=f"Cluster {facts.host} encrypts with ztunnel, which Cilium does not support together with Cluster Mesh",
        evidence=config_evidence(facts, "enable-ztunnel"),
        fix=lines(helm(facts, "encryption.type=wireguard"), restart(facts)),
    )


@check("CM-ENC-06")
def node_and_strict_encryption_agree(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters that differ in node encryption or strict mode.

    Each setting works where it differs (control-plane nodes opt out of node encryption by default), but it guarantees less than a
    reader of one cluster's settings would expect.
    """
    clusters = [f for f in members(context) if _encryption(f) != "none"]
    rows = (
        ("encrypt-node", "encryption.nodeEncryption", ("encrypt-node",), "traffic of nodes is encrypted in one direction only"),
        (_STRICT[0][1], "encryption.strictMode", _STRICT[0], "pods of some clusters may still send unencrypted"),
        (_STRICT[1][0], "encryption.strictMode.ingress", _STRICT[1], "pods of some clusters may still be reached unencrypted"),
    )
    for name, value, keys, meaning in rows:
        fix = f"Set the same Helm value {value} in all clusters."
        yield from differing(clusters, name, partial(_any_enabled, keys), f"The clusters differ in {name}: {meaning}", fix)


def _any_enabled(keys: Iterable[str], facts: ClusterFacts) -> str:
    return str(any(enabled(facts, key) for key in keys)).lower()


@check("CM-ENC-07")
def strict_encryption_covers_peer_pods(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report pods of peers outside of the strict encryption range.

    Strict mode drops unencrypted packets only within its range (Cilium documentation, WireGuard, "Egress traffic").
    """
    text = setting(facts, "encryption-strict-egress-cidr") or setting(facts, "encryption-strict-mode-cidr")
    if not any(enabled(facts, key) for key in _STRICT[0]) or not text:
        return
    own = NetworkSet(parse_networks([text]))
    peers = [context.facts[host] for host in context.mesh.peers(facts.host) if host in context.facts]
    outside = [
        f"{c.network} of {peer.host}"
        for peer in peers
        for c in pool_ranges(peer) or allocated_ranges(peer)
        if c.network.version == 4
        if not own.contains(c.network)
    ]
    egress = holds("strict_egress", cilium_version(facts))
    if outside:
        yield Flaw(
            summary=f"Strict encryption of {facts.host} does not watch over traffic to {listed(outside, 3)}",
            evidence=f"cilium-config: strict range {show(text)}; pods outside of it: {listed(outside)}",
            fix=lines(
                helm(facts, f"encryption.strictMode.{'egress.' if egress else ''}cidr=A_RANGE_THAT_HOLDS_THE_PODS_OF_ALL_CLUSTERS"),
                restart(facts),
            ),
        )
