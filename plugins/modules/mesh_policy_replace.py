# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_policy_replace
version_added: 0.1.0
short_description: Delete policies of a provider that connectivity intents replace
description:
  - Deletes the CiliumNetworkPolicies and CiliumClusterwideNetworkPolicies that the user names, once the connectivity intents that replace
    them are in force. The playbook C(edge_portal.cilium_mesh.migrate) does this at its end.
  - A policy is deleted only if its intent is V(Applied) in every cluster, if only the field managers O(managers) wrote it, and if nothing
    that is denied or isolated opens. The evaluator of this collection judges that over the pods that exist, in both directions, with and
    without all named policies, and as if policies were enforced in every cluster.
  - Where something cannot be judged, that counts as a reason to keep the policy.
  - If one policy is in doubt, none is deleted, and the task fails with a finding C(CM-INT-34) for each.
  - It observes, judges and deletes under the lock of the mesh. A policy that was changed or made anew since it was observed is not deleted.
  - Policies that deny are deleted last. After a deletion that failed, none of them is deleted in any cluster.
  - In check mode the mesh counts as connected, and the intents count as the items of O(mesh) would write them.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.lock
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
  - edge_portal.cilium_mesh._mesh.parallel
options:
  policies:
    description:
      - Policies of the provider that is replaced, to be deleted. Each has its C(name), its C(namespace) if it is a CiliumNetworkPolicy, and
        the name of the C(intent) that replaces it. C(clusters) are the inventory names of the clusters that have it; all where that is left
        out.
    type: list
    elements: dict
    required: true
  managers:
    description:
      - Field managers of the provider that is replaced. A policy that another field manager wrote, too, is not deleted.
    type: list
    elements: str
    default: [kcp-cilium-mesh-provider]
  binding_status:
    description:
      - The status of the mesh, as an earlier task of the same run measured it. Without it, the links are measured.
    type: dict
attributes:
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A changed result means that the plan had steps. A policy that is gone already has none.
seealso:
  - module: edge_portal.cilium_mesh.mesh_policy
  - module: edge_portal.cilium_mesh.mesh_reach
"""

EXAMPLES = r"""
- name: Show which policies of the provider would be deleted
  edge_portal.cilium_mesh.mesh_policy_replace:
    mesh: "{{ cilium_mesh }}"
    policies:
      - name: allow-frontend-backend
        namespace: production
        intent: frontend-to-backend
  check_mode: true
  diff: true
  run_once: true
"""

RETURN = r"""
plan:
  description: >-
    The deletions, step by step, in the form of RV(edge_portal.cilium_mesh.mesh_items#module:plan). There are none while there are findings.
  returned: always
  type: dict
findings:
  description: What is in the way of a deletion, as C(CM-INT-34), in the form of RV(edge_portal.cilium_mesh.mesh_items#module:findings).
  returned: always
  type: list
  elements: dict
mesh:
  description: Inventory names of the members.
  returned: always
  type: list
  elements: str
requests:
  description: Number of API requests made to each cluster, by inventory name.
  returned: always
  type: dict
"""
