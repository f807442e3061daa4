# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Endpoints that the reader of a cluster dials now by one binding's entries, where addresses stand in its pod template. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..facts.cluster import ClusterFacts
from ..versions.minors import aliases_in_template, reader_version
from .addresses import sorted_ips
from .endpoint import InUse, MeshEndpoint

URL = re.compile(r"^- https://(?:\[([^\]\s]+)\]|([^\[\]:/\s]+)):([0-9]{1,5})$", re.MULTILINE)
"""Line of a peer's configuration that names an endpoint."""


class DialledEndpoints:
    """Endpoints by the cluster name of the peer; none where other addresses restart no pods (from Cilium 1.20 on)."""

    def __init__(self, local: ClusterFacts, manager: str) -> None:
        self._aliases: dict[str, tuple[str, ...]] = {}
        self._peers: Mapping[str, tuple[str, int]] = {}
        workload = local.apiserver if local.runs_kvstoremesh else local.agent
        if workload is None or not aliases_in_template(reader_version(local)):
            return
        found: dict[str, list[str]] = {}
        for alias in workload.host_aliases:
            for name in alias.hostnames if manager in alias.managers else ():
                found.setdefault(name, []).append(alias.ip)
        self._aliases = {name: sorted_ips(ips) for name, ips in found.items()}
        self._peers = dict(own_urls(local, manager))

    def __bool__(self) -> bool:
        return bool(self._peers)

    def changed_by(self, peer: str, endpoint: MeshEndpoint) -> InUse | None:
        """Return the endpoint that is dialled for a peer, if dialling ``endpoint`` would change the pod template; else None.

        It is no change to write aliases again that another writer removed, or to finish what a run began that ended halfway.
        """
        hostname, port = self._peers.get(peer, ("", 0))
        used, wanted = self._aliases.get(hostname, ()), set(endpoint.ips)
        if not hostname or (not used and (hostname == endpoint.hostname or set(self._aliases.get(endpoint.hostname, ())) == wanted)):
            return None
        same = set(used) == wanted and (hostname == endpoint.hostname or not wanted)
        return None if same else InUse(hostname=hostname, port=port, ips=used)


def own_urls(local: ClusterFacts, manager: str) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield (cluster name of a peer, (host, port)) of the configurations with which ``local`` dials its peers directly."""
    remote = local.kvstoremesh if local.runs_kvstoremesh else local.clustermesh
    for name, key in remote.keys.items():
        url = URL.search(key.config) if key.config and manager in key.managers else None
        if url:
            yield name, (url[1] or url[2], int(url[3]))
