# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Taking out of one cluster what a binding wrote there. Pure.

Waves, the other way round than for connecting: the Secrets, so that nobody dials any more; then the host aliases; last the users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .facts import ClusterFacts
from .model import Mesh
from .plan_aliases import alias_step, desired_aliases
from .plan_elb import elb_withdrawal
from .plan_secrets import PeerChanges, kept_secrets, secret_step
from .plan_users import own_users, users_step
from .steps import Step
from .trust import user_for_name

ENDS = "services and policies lose these peers; kvstoremesh forgets them after 3 minutes, and connecting them again earlier waits for that"


def withdrawal(mesh: Mesh, cluster: ClusterFacts, *, kept: Mapping[str, str], gone: Collection[str], wave: int) -> list[Step]:
    """Everything of ours in the cluster, except what belongs to the peers ``kept``, and except its copy of the registry.

    :param kept: inventory name -> cluster name of peers whose links stay.
    :param gone: cluster names of peers that no longer log in here; without meaning where nothing is kept.
    :param wave: of the Secrets; aliases and users take the next two.
    """
    binding, found = mesh.binding, []
    for secret in kept_secrets(cluster, kept, binding.manager):
        found.append(secret_step(cluster, secret, binding, wave=wave, why=_why, disruption=ENDS))
    for aliases in desired_aliases(cluster, (), kept.values(), binding.manager):
        found.append(alias_step(cluster, aliases, manager=binding.manager, wave=wave + 1, why="nobody dials these peers any more"))
    stay = own_users(cluster, binding) - {user_for_name(name) for name in gone} if kept else frozenset()
    found.append(users_step(cluster, stay, binding, wave=wave + 2, why="nobody logs in by these names any more"))
    found.extend([] if kept else elb_withdrawal(binding, cluster))
    return [step for step in found if step is not None]


def _why(change: PeerChanges) -> str:
    return f"take out {', '.join(change.withdrawn) or 'the marks of this binding'}"
