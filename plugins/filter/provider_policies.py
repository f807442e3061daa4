# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``provider_policies``: policies of a replaced provider that may be deleted, for the playbook migrate."""

from __future__ import annotations

DOCUMENTATION = r"""
name: provider_policies
short_description: Policies of a replaced provider that may be deleted
version_added: 0.1.0
author: Contributors to the edge_portal.cilium_mesh project (@edge-portal)
description:
  - Compares the policies that a user names with those in the clusters, with who wrote them, and with the intents that replace them.
  - The playbook C(edge_portal.cilium_mesh.migrate) deletes the result.
positional: _input
options:
  _input:
    description:
      - The policies that the user names. Each entry has the C(name) of a policy and the name of the C(intent) that replaces it.
      - With C(namespace) it is a CiliumNetworkPolicy, else a CiliumClusterwideNetworkPolicy. C(clusters) are all where that is left out.
    type: list
    elements: dict
    required: true
  found:
    description:
      - All policies of each cluster, as the C(results) of a loop of M(kubernetes.core.k8s_info). Each has the C(resources), and as C(item)
        a list of a cluster's inventory name and a kind.
    type: list
    elements: dict
    required: true
  rows:
    description: Rows of the intents, as of C(status.connectivityIntents) of M(edge_portal.cilium_mesh.mesh_items).
    type: list
    elements: dict
    required: true
  managers:
    description: Field managers of the provider. A policy that has another one stays.
    type: list
    elements: str
    required: true
  foreseen:
    description: The intents were not written, as in check mode. It is then enough that they are accepted.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show which policies of the provider can go
  ansible.builtin.debug:
    msg: "{{ named | edge_portal.cilium_mesh.provider_policies(policies.results, result.status.connectivityIntents, managers) }}"
  vars:
    managers: [kcp-cilium-mesh-provider]
    named:
      - name: allow-frontend-backend
        namespace: production
        intent: frontend-to-backend
"""

RETURN = r"""
_value:
  description:
    - C(deletions) are the policies that go, each with C(cluster), C(kind), C(namespace), C(name), C(uid) and C(resourceVersion). There are
      none while there are C(problems), which are sentences.
  type: dict
  sample:
    deletions: []
    problems: []
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ..plugin_utils.provider_policies import removal_of


def provider_policies(
    entries: Any,
    found: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    managers: Sequence[str],
    foreseen: bool = False,
) -> dict[str, list[Any]]:
    """Return the policies that go; see DOCUMENTATION."""
    by_cluster: dict[str, list[Mapping[str, Any]]] = {}
    for result in found:
        if not isinstance(result, Mapping) or not isinstance(result.get("resources"), list) or not result.get("item"):
            raise AnsibleFilterError(
                "provider_policies: found is not a list of results of kubernetes.core.k8s_info with item and resources."
            )
        by_cluster.setdefault(str(result["item"][0]), []).extend(result["resources"])
    removal = removal_of(entries, by_cluster, rows, managers, foreseen=foreseen)
    return {"deletions": [*removal.deletions], "problems": [*removal.problems]}


class FilterModule:
    """The filter, as Ansible loads it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"provider_policies": provider_policies}
