# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that withdraws links: exactly what the binding's field manager owns, in the clusters that answer. Pure.

Waves, in the reverse order of connecting: the Secrets, so that no cluster dials any more; then the host aliases; then the users;
last the lease registry.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..findings.finding import Finding
from ..leases.plan import DISCONNECT_WAVE, copies_after, leased_names, registry_after_disconnect, registry_step
from ..mesh.binding.model import Mesh
from ..mesh.endpoints.etcd_config import valid_cluster_name
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.ownership.objects import remembered_peers
from ..mesh.trust.link_trust import user_for_name
from ..plan.steps import Plan, Step
from .fingerprint import facts_fingerprint
from .host_aliases import alias_step, desired_aliases
from .load_balancer import elb_withdrawal
from .secrets import PeerChanges, kept_secrets, secret_step
from .users import own_users, users_problems, users_step

ENDS = "services and policies lose these peers; kvstoremesh drops them after 3 minutes, and an earlier new connection waits for that"

WAVE_SECRETS = 1  # host aliases and users: 2 and 3


def plan_disconnect(mesh: Mesh, facts: Mapping[str, ClusterFacts], leaving: frozenset[str] | None) -> Plan:
    """Plan the withdrawal of links.

    Every cluster in ``facts`` is covered, also one that the mesh no longer names; other clusters may be missing.

    :param leaving: inventory names of clusters whose links end, the others keep theirs among themselves; None: all links end. Those of
        them that are in ``facts`` answered and leave in order; the others are disconnected without their answer.
    """
    names = _names(mesh, facts)
    steps: list[Step] = []
    problems: list[Finding] = []
    leases = copies_after(mesh, facts, registry_after_disconnect(mesh, facts, leaving or ()))
    for host, cluster in facts.items():
        peers = {h: n for h, n in remembered_peers(mesh.binding, cluster).items() if valid_cluster_name(n)}
        # Two clusters may have one name if they have no common peer, so a name is withdrawn only where its cluster was a peer.
        gone = {names[h] for h in leaving or () if h in names and (h in peers or mesh.linked(host, h))}
        stays = leaving is not None and host not in leaving and host in mesh.clusters
        # Peers that stay keep their user, also if this cluster lost its own keys and with them the record of its peers.
        linked = {h: names[h] for h in mesh.peers(host) if valid_cluster_name(names.get(h, ""))} if stays else {}
        kept = {h: n for h, n in {**linked, **peers}.items() if h not in (leaving or ()) and n not in gone} if stays else {}
        steps.extend(withdrawal(mesh, cluster, kept=kept, gone=gone, wave=WAVE_SECRETS))
        if cluster.registry.present:  # a member that lost its copy gets a new one when it is connected
            after = leases[host] if stays else None
            steps.extend(step for step in [registry_step(mesh, cluster, after, wave=DISCONNECT_WAVE)] if step)
        problems.extend(users_problems(cluster, frozenset(), mesh.binding))
    return Plan(
        manager=mesh.binding.manager,
        steps=tuple(sorted(steps, key=lambda step: step.wave)),
        problems=tuple(problems),
        relied_on={host: facts_fingerprint(cluster) for host, cluster in facts.items()},
    )


def _names(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Return inventory name -> cluster name, as observed, else as recorded in any other cluster: the one that leaves may be dead."""
    names = leased_names(mesh, facts)
    for cluster in facts.values():
        names.update(remembered_peers(mesh.binding, cluster))
    names.update({host: cluster.name for host, cluster in facts.items() if cluster.name})
    return names


def withdrawal(mesh: Mesh, cluster: ClusterFacts, *, kept: Mapping[str, str], gone: Collection[str], wave: int) -> list[Step]:
    """Return the steps that withdraw all of the binding in the cluster, except entries of the peers ``kept`` and its copy of the registry.

    :param kept: inventory name -> cluster name of peers whose links stay.
    :param gone: cluster names of peers that no longer log in here; without meaning if ``kept`` is empty.
    :param wave: of the Secrets; aliases and users take the next two.
    """
    binding, found = mesh.binding, []
    for secret in kept_secrets(cluster, kept, binding.manager):
        found.append(secret_step(cluster, secret, binding, wave=wave, why=_reason, disruption=ENDS))
    names = frozenset(kept.values())
    for aliases in desired_aliases(cluster, (), names, binding.manager):
        found.append(
            alias_step(cluster, aliases, binding=binding, wave=wave + 1, why="this cluster no longer dials these peers", peers=names)
        )
    stay = own_users(cluster, binding) - {user_for_name(name) for name in gone} if kept else frozenset()
    found.append(users_step(cluster, stay, binding, wave=wave + 2, why="no peer logs in with these names any more"))
    found.extend([] if kept else elb_withdrawal(binding, cluster))
    return [step for step in found if step is not None]


def _reason(change: PeerChanges) -> str:
    return f"remove {', '.join(change.withdrawn) or 'the marks of this binding'}"
