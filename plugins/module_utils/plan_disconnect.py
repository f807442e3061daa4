# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that takes links away: exactly what the binding's field manager owns, in the clusters that answer. Pure.

Waves, the other way round than for connecting: the Secrets, so that nobody dials any more; then the host aliases; then the users;
last the registry of leases.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from .facts import ClusterFacts
from .findings import Finding
from .model import Mesh
from .ownership import remembered_peers
from .peers import valid_cluster_name
from .plan_registry import DISCONNECT_WAVE, after_disconnect, leased_names, registry_step
from .plan_users import users_problems
from .plan_withdraw import withdrawal
from .relied_on import relied_on
from .steps import Plan, Step

WAVE_SECRETS = 1  # host aliases and users: 2 and 3


def plan_disconnect(mesh: Mesh, facts: Mapping[str, ClusterFacts], leaving: frozenset[str] | None, now: datetime) -> Plan:
    """What has to be withdrawn. Every cluster in ``facts`` is looked at, also one that the mesh no longer names; the others are not needed.

    :param leaving: inventory names of clusters whose links end, the others keep theirs among themselves; None: all links end. Those of
        them that are in ``facts`` answered and leave in order; the others are taken out without their answer.
    :param now: not used; as in ``plan_connect``, so that both are called alike.
    """
    names = _names(mesh, facts)
    steps: list[Step] = []
    problems: list[Finding] = []
    leases = after_disconnect(mesh, facts, leaving or ())
    for host, cluster in facts.items():
        peers = {h: n for h, n in remembered_peers(mesh.binding, cluster).items() if valid_cluster_name(n)}
        # Two clusters of one name are no conflict where nobody sees both, so that a name goes only where its bearer was a peer.
        gone = {names[h] for h in leaving or () if h in names and (h in peers or mesh.linked(host, h))}
        stays = leaving is not None and host not in leaving and host in mesh.clusters
        # Peers that stay keep their user also where this cluster lost its own keys, and with them the memory of whom it dials.
        linked = {h: names[h] for h in mesh.peers(host) if valid_cluster_name(names.get(h, ""))} if stays else {}
        kept = {h: n for h, n in {**linked, **peers}.items() if h not in (leaving or ()) and n not in gone} if stays else {}
        steps.extend(withdrawal(mesh, cluster, kept=kept, gone=gone, wave=WAVE_SECRETS))
        if cluster.registry.present:  # a member that lost its copy gets it back when it is connected
            after = leases if stays else None
            steps.extend(step for step in [registry_step(mesh, cluster, after, wave=DISCONNECT_WAVE)] if step)
        problems.extend(users_problems(cluster, frozenset(), mesh.binding))
    return Plan(
        manager=mesh.binding.manager,
        steps=tuple(sorted(steps, key=lambda step: step.wave)),
        problems=tuple(problems),
        relied_on={host: relied_on(cluster) for host, cluster in facts.items()},
    )


def _names(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Inventory name -> cluster name, as observed, else as any other cluster remembers it: the one that leaves may be dead."""
    names = leased_names(mesh, facts)
    for cluster in facts.values():
        names.update(remembered_peers(mesh.binding, cluster))
    names.update({host: cluster.name for host, cluster in facts.items() if cluster.name})
    return names
