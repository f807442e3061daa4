# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``karmada_namespace``: the engine's function of that name, for templates."""

from __future__ import annotations

DOCUMENTATION = r"""
name: karmada_namespace
short_description: Namespace of a tenant in Karmada and in its clusters
version_added: 0.1.0
author: Contributors to the edge_portal.cilium_mesh project (@edge-portal)
description:
  - Returns the namespace in which M(edge_portal.cilium_mesh.fleet_workload) puts everything of a tenant. Its name is a hash over workspace
    and namespace, so that two tenants with equal names share nothing.
  - Use the filter to find the pods of a workload in a cluster, or to put something beside them.
positional: _input
options:
  _input:
    description: The workspace, C(workspace) of the variable C(fleet). In kcp it is the logical cluster.
    type: str
    required: true
  namespace:
    description: Namespace of the tenant in that workspace, C(namespace) of the variable C(fleet).
    type: str
    default: default
"""

EXAMPLES = r"""
- name: Show the pods of a tenant in one cluster
  ansible.builtin.command:
    argv: [kubectl, get, pods, --namespace, "{{ 'shop' | edge_portal.cilium_mesh.karmada_namespace }}"]
  changed_when: false
"""

RETURN = r"""
_value:
  description: The name.
  type: str
  sample: kcp-ddb805893818467b
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils.base.input_problems import LABEL
from ..module_utils.fleet.names import Tenant
from ..module_utils.fleet.names import karmada_namespace as name_of
from ..module_utils.items.labels import valid_value


def karmada_namespace(workspace: str, namespace: str = "default") -> str:
    """Return the namespace of a tenant; see DOCUMENTATION."""
    if not isinstance(workspace, str) or not workspace or not valid_value(workspace):
        raise AnsibleFilterError("karmada_namespace: the input is not a workspace, the value of a label with at most 63 characters.")
    if not isinstance(namespace, str) or not LABEL.fullmatch(namespace):
        raise AnsibleFilterError(f"karmada_namespace: namespace is {namespace!r}. Use the name of a namespace.")
    return name_of(Tenant(workspace, namespace))


class FilterModule:
    """The filter, as Ansible loads it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"karmada_namespace": karmada_namespace}
