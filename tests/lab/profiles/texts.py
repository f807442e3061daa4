# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The texts that charts write into the objects that name peers, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable

from .options import HelmPeer, ProfileOptions

_FOLDER = "/var/lib/cilium/clustermesh"


def peer_config(options: ProfileOptions, peer: HelmPeer) -> str:
    """How to reach ``peer`` itself: kvstoremesh's value, and the agents' where there is no kvstoremesh."""
    text = _etcd_config(f"https://{peer.host}:{peer.port}", "common-")
    if options.chart.host_aliases_in_yaml and peer.ips:
        # The blank after "ips:" is the chart's: toYaml piped into nindent.
        ips = "\n".join(f"    - {ip}" for ip in peer.ips)
        text += f"\ncilium-host-aliases:\n- hostname: {peer.host}\n  ips: \n{ips}"
    return text


def agent_config(options: ProfileOptions, peer: HelmPeer) -> str:
    """The agents' value for ``peer``: their own kvstoremesh, for every peer, or the peer itself without kvstoremesh."""
    if not options.kvstoremesh:
        return peer_config(options, peer)
    return _etcd_config(f"https://clustermesh-apiserver.{options.namespace}.svc:2379", options.chart.agent_files)


def users_yaml(options: ProfileOptions) -> str:
    """``users.yaml`` as the chart renders it: without peers the text ``users:`` and nothing after it, which is YAML's null."""
    names = [peer.name for peer in options.ordered_peers]
    if options.chart.users_list_self and options.kvstoremesh:
        names = [options.cluster_name, *names]
    return "".join(("users:\n", *(f"- name: remote-{name}\n  role: remote\n" for name in names)))


def host_aliases(peers: Iterable[HelmPeer]) -> list[dict[str, object]]:
    """One entry per address, as the charts write them."""
    return [{"ip": ip, "hostnames": [peer.host]} for peer in peers for ip in peer.ips]


def _etcd_config(endpoint: str, prefix: str) -> str:
    return "\n".join(
        (
            "endpoints:",
            f"- {endpoint}",
            f"trusted-ca-file: {_FOLDER}/{prefix}etcd-client-ca.crt",
            f"key-file: {_FOLDER}/{prefix}etcd-client.key",
            f"cert-file: {_FOLDER}/{prefix}etcd-client.crt",
        )
    )
