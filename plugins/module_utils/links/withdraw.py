# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Withdrawal of everything that a binding wrote in one cluster. Pure.

Waves, in the reverse order of connecting: the Secrets, so that no reader dials any more; then the host aliases; last the users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..mesh.facts import ClusterFacts
from ..mesh.model import Mesh
from ..mesh.trust import user_for_name
from ..plan.steps import Step
from .host_aliases import alias_step, desired_aliases
from .load_balancer import elb_withdrawal
from .secrets import PeerChanges, kept_secrets, secret_step
from .users import own_users, users_step

ENDS = "services and policies lose these peers; kvstoremesh drops them after 3 minutes, and an earlier new connection waits for that"


def withdrawal(mesh: Mesh, cluster: ClusterFacts, *, kept: Mapping[str, str], gone: Collection[str], wave: int) -> list[Step]:
    """Return the steps that withdraw all of the binding in the cluster, except entries of the peers ``kept`` and its copy of the registry.

    :param kept: inventory name -> cluster name of peers whose links stay.
    :param gone: cluster names of peers that no longer log in here; without meaning if ``kept`` is empty.
    :param wave: of the Secrets; aliases and users take the next two.
    """
    binding, found = mesh.binding, []
    for secret in kept_secrets(cluster, kept, binding.manager):
        found.append(secret_step(cluster, secret, binding, wave=wave, why=_reason, disruption=ENDS))
    for aliases in desired_aliases(cluster, (), kept.values(), binding.manager):
        found.append(alias_step(cluster, aliases, manager=binding.manager, wave=wave + 1, why="this cluster no longer dials these peers"))
    stay = own_users(cluster, binding) - {user_for_name(name) for name in gone} if kept else frozenset()
    found.append(users_step(cluster, stay, binding, wave=wave + 2, why="no peer logs in with these names any more"))
    found.extend([] if kept else elb_withdrawal(binding, cluster))
    return [step for step in found if step is not None]


def _reason(change: PeerChanges) -> str:
    return f"remove {', '.join(change.withdrawn) or 'the marks of this binding'}"
