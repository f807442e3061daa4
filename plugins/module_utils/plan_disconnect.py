# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that takes links away: exactly what the binding's field manager owns, in the clusters that answer. Pure.

Waves, the other way round than for connecting: the Secrets, so that nobody dials any more; then the host aliases; last the users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from .facts import ClusterFacts
from .findings import Finding
from .model import Mesh
from .ownership import remembered_peers
from .peers import valid_cluster_name
from .plan_aliases import alias_step, desired_aliases
from .plan_secrets import changes, kept_secrets, secret_step
from .plan_users import own_users, users_problems, users_step
from .relied_on import relied_on
from .steps import Plan, Step
from .trust import user_for_name

WAVE_SECRETS, WAVE_ALIASES, WAVE_USERS = 1, 2, 3

ENDS = "services and policies lose these peers; kvstoremesh forgets them after 3 minutes, and connecting them again earlier waits for that"


def plan_disconnect(mesh: Mesh, facts: Mapping[str, ClusterFacts], leaving: frozenset[str] | None, now: datetime) -> Plan:
    """What has to be withdrawn. Every cluster in ``facts`` is looked at, also one that the mesh no longer names; the others are not needed.

    :param leaving: inventory names of clusters whose links end, the others keep theirs among themselves; None: all links end.
    :param now: not used; as in ``plan_connect``, so that both are called alike.
    """
    names = _names(mesh, facts)
    gone = {names[host] for host in leaving or () if host in names}
    steps: list[Step] = []
    problems: list[Finding] = []
    for host, cluster in facts.items():
        peers = {h: n for h, n in remembered_peers(mesh.binding, cluster).items() if valid_cluster_name(n)}
        kept = {} if leaving is None or host in leaving else {h: n for h, n in peers.items() if h not in leaving and n not in gone}
        steps.extend(_withdraw(mesh, cluster, kept, gone))
        problems.extend(users_problems(cluster, frozenset(), mesh.binding))
    return Plan(
        manager=mesh.binding.manager,
        steps=tuple(sorted(steps, key=lambda step: step.wave)),
        problems=tuple(problems),
        relied_on={host: relied_on(cluster) for host, cluster in facts.items()},
    )


def _names(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> dict[str, str]:
    """Inventory name -> cluster name, as observed, else as any other cluster remembers it: the one that leaves may be dead."""
    names: dict[str, str] = {}
    for cluster in facts.values():
        names.update(remembered_peers(mesh.binding, cluster))
    names.update({host: cluster.name for host, cluster in facts.items() if cluster.name})
    return names


def _withdraw(mesh: Mesh, cluster: ClusterFacts, kept: Mapping[str, str], gone: Iterable[str]) -> Iterable[Step]:
    """Everything of ours in the cluster, except what belongs to the peers ``kept``."""
    binding, found = mesh.binding, []
    for secret in kept_secrets(cluster, kept, binding.manager):
        withdrawn = ", ".join(changes(secret, binding.manager).withdrawn) or "the marks of this binding"
        found.append(secret_step(cluster, secret, binding, wave=WAVE_SECRETS, why=f"take out {withdrawn}", disruption=ENDS))
    for aliases in desired_aliases(cluster, (), kept.values(), binding.manager):
        found.append(alias_step(cluster, aliases, manager=binding.manager, wave=WAVE_ALIASES, why="nobody dials these peers any more"))
    users = own_users(cluster, binding)
    stay = users - {user_for_name(name) for name in gone} if kept else frozenset()
    found.append(users_step(cluster, stay, binding, wave=WAVE_USERS, why="nobody logs in by these names any more"))
    return [step for step in found if step is not None]
