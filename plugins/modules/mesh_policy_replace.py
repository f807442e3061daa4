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
  description: The deletions, step by step. There are none while there are findings.
  returned: always
  type: dict
  contains:
    hash:
      description: >-
        SHA-256 over the steps, the options and everything observed that they rely on. Empty where no plan was made; then C(steps) is empty
        too, and the others are absent. Empty too where only a part of a mesh could be planned, which cannot be approved.
      type: str
    steps:
      description: >-
        The writes in their order, each with C(wave), C(cluster), C(verb), C(object), C(why), C(disruption), C(undo) and C(digest), in some
        also C(item). C(digest) is a SHA-256 over the others and what is written.
      type: list
      elements: dict
    options:
      description: The options that the plan was made with.
      type: dict
    reliedOn:
      description: >-
        For each cluster, digests of what the plan relies on, by section. A plan that is made later tells by them what has changed.
      type: dict
    notCarriedOut:
      description: The items that are refused or wait. An approval has to name them. Absent where there are none.
      type: list
      elements: str
    links:
      description: Endpoint and trust that were chosen for each ordered pair, with the reason. Empty in plans that are not for links.
      type: list
      elements: dict
    problems:
      description: Findings of the planning.
      type: list
      elements: dict
findings:
  description: What is in the way of a deletion, as C(CM-INT-34).
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description: Stable code of the finding, and the name of its page in docs/runbooks.
      type: str
      sample: CM-CIDR-01
    severity:
      description: One of V(blocking), V(outage), V(remediable) and V(advisory).
      type: str
    accepted:
      description: Whether the task accepts it in its option C(accept), so that it does not block. Without that option it is always false.
      type: bool
    cluster:
      description: Inventory name of the cluster; empty where it is about no single one.
      type: str
    peer:
      description: Inventory name of the other cluster, where it is about a pair; else empty.
      type: str
    summary:
      description: The finding in one sentence.
      type: str
    evidence:
      description: What was read, and where.
      type: str
    fix:
      description: What to do.
      type: str
    anchor:
      description: The runbook page.
      type: str
    item:
      description: The item or object that it is about, such as V(globalServices/nginx). Absent where it is about a cluster or a pair.
      type: str
withheld:
  description: >-
    What messages withhold from owners of clusters. Each entry has C(cluster), C(peer) and C(reason); C(peer) is empty for the API server of
    the cluster.
  returned: with C(cilium_mesh_denied_networks), where something was not reached
  type: list
  elements: dict
mesh:
  description: Inventory names of the clusters that the task is for.
  returned: always
  type: list
  elements: str
requests:
  description: Number of API requests made to each cluster, by inventory name.
  returned: always
  type: dict
requeue_seconds:
  description: After how many seconds the next run should begin.
  returned: always
  type: int
"""
