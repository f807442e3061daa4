# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that the two Secrets that hold peers fit together.

Users reported each kind of mismatch as a bug (cilium issues 42330, 45777). With kvstoremesh, cilium-kvstoremesh names the peer's
endpoint, and cilium-clustermesh sends the agents to their own kvstoremesh. Without it, cilium-clustermesh names the peer's
endpoint, and no process reads cilium-kvstoremesh.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from ..findings.wording import listed, show, where
from ..mesh.facts.cluster import ClusterFacts
from .context import CheckContext
from .flaw import Flaw
from .registry import check

_URL = re.compile(r"https?://[^\s\"',]+")
_FIX = (
    "Run connect for a peer of this mesh: it writes both Secrets as they have to be. Where another tool made the entry (Helm value "
    "clustermesh.config.clusters, cilium clustermesh connect), run that tool again."
)


def _peers(facts: ClusterFacts) -> Iterator[tuple[str, bool]]:
    """Yield (peer, whether agents are sent to their own kvstoremesh) for each entry of cilium-clustermesh.

    The entry of the cluster itself is skipped.
    """
    own = f"clustermesh-apiserver.{facts.namespace}.svc"
    for name, key in facts.clustermesh.keys.items():
        if key.config and name != facts.name:
            hosts = [urlsplit(url).hostname or "" for url in _URL.findall(key.config.partition("endpoints:")[2])]
            if hosts:
                yield name, all(host == own or host.startswith(f"{own}.") for host in hosts)


@check("CM-KVM-01")
def agents_use_kvstoremesh(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report agents that dial peers although kvstoremesh runs."""
    past = sorted(name for name, local in _peers(facts) if not local) if facts.runs_kvstoremesh else []
    if not past:
        return
    yield Flaw(
        summary=f"kvstoremesh runs in {facts.host}, but its agents dial {listed(map(show, past), 3)} themselves: every node is one more "
        "client of the peer",
        evidence=f"{where(facts, 'Secret', facts.clustermesh.name)}: the endpoints of {listed(map(show, past))} are not "
        f"https://clustermesh-apiserver.{facts.namespace}.svc:2379",
        fix=_FIX,
    )


@check("CM-KVM-02")
def kvstoremesh_has_the_peers_of_agents(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report peers for which agents ask a kvstoremesh that does not know them.

    The agents then wait: "remote cluster configuration required but not found".
    """
    sent = sorted(name for name, local in _peers(facts) if local) if facts.apiserver is not None else []
    lost = [name for name in sent if not facts.runs_kvstoremesh or name not in facts.kvstoremesh.keys]
    if not lost:
        return
    why = f"Secret {facts.kvstoremesh.name} does not name it" if facts.runs_kvstoremesh else "kvstoremesh does not run"
    yield Flaw(
        summary=f"Agents of {facts.host} ask their own kvstoremesh for {listed(map(show, lost), 3)}, and {why}: the link cannot come up",
        evidence=f"{where(facts, 'Secret', facts.clustermesh.name)}: {listed(map(show, lost))} with the local endpoint; "
        f"{where(facts, 'Deployment', 'clustermesh-apiserver')}: {'container' if facts.runs_kvstoremesh else 'no container'} kvstoremesh",
        fix=_FIX,
    )
