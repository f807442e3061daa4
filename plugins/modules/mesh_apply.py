# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_apply
version_added: 0.1.0
short_description: Carry out an approved plan, or refuse and report what has changed since
description:
  - Observes the clusters and plans afresh. When the fresh plan has the hash that was approved, it is carried out exactly, as
    M(edge_portal.cilium_mesh.mesh_connect) would. Else nothing is written anywhere, and the task fails with finding C(CM-PLAN-01).
  - With O(plan), the finding names what has changed since, such as the Service of one cluster or the users of another, and which steps are
    new, gone or different. With O(hash) alone the fresh plan is shown with its hash.
  - The steps that an earlier run recorded are only compared, never carried out.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.lock
  - edge_portal.cilium_mesh._mesh.judgement
  - edge_portal.cilium_mesh._mesh.planning
  - edge_portal.cilium_mesh._mesh.breadth
  - edge_portal.cilium_mesh._mesh.waiting
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
  - edge_portal.cilium_mesh._mesh.certificates
  - edge_portal.cilium_mesh._mesh.parallel
  - edge_portal.cilium_mesh._mesh.proof
  - edge_portal.cilium_mesh._mesh.previous
options:
  hash:
    description:
      - Hash of the plan that was approved, whole or at least its first 12 digits. Needed unless O(plan) is given.
    type: str
    default: ""
  plan:
    description:
      - The plan that was approved, as a mapping or as the path of a JSON file that M(edge_portal.cilium_mesh.mesh_plan) wrote. The
        C(mesh_result) of the playbook C(plan), which AWX hands to the next job of a workflow, is such a mapping too.
      - It is planned again with the options that stand in it. O(purpose), O(clusters), O(accept), O(trust), O(node_addresses),
        O(certificate_days), O(renew_before_days), O(repair), O(take_back) and O(max_failures) are then ignored.
    type: raw
  purpose:
    description:
      - What the plan with that hash is for.
    type: str
    choices: [connect, disconnect]
    default: connect
attributes:
  diff_mode:
    support: full
    details:
      - Values of Secrets appear as digests, and new ones as where they come from.
  idempotent:
    support: partial
    details:
      - A plan can be applied once. Afterwards the clusters are not those that it was made for, and applying it again is refused.
      - An empty plan can be applied as often as one likes.
seealso:
  - module: edge_portal.cilium_mesh.mesh_plan
  - module: edge_portal.cilium_mesh.mesh_connect
"""

EXAMPLES = r"""
- name: Apply the plan that was approved
  edge_portal.cilium_mesh.mesh_apply:
    mesh: "{{ cilium_mesh }}"
    plan: "{{ playbook_dir }}/plan.json"
  run_once: true

- name: Apply it by its hash alone
  edge_portal.cilium_mesh.mesh_apply:
    mesh: "{{ cilium_mesh }}"
    hash: 3f9a1c0b7d2e
  run_once: true

- name: Is the plan still what has to be done? Write nothing
  edge_portal.cilium_mesh.mesh_apply:
    mesh: "{{ cilium_mesh }}"
    plan: "{{ planned.plan }}"
  check_mode: true
  run_once: true
"""

RETURN = r"""
plan:
  description: What was decided, step by step.
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
status:
  description: What was measured, in the form of the status of a ClusterMeshBinding. Null where nothing was measured.
  returned: always
  type: dict
  contains:
    phase:
      description: One of V(Pending), V(Connecting), V(Connected), V(Degraded) and V(Error).
      type: str
    lastSyncTime:
      description: When it was measured.
      type: str
    meshStatus:
      description: >-
        A row per cluster, with C(clusterName), C(connected), C(readyNodes), C(askedNodes) and C(totalNodes), in some also C(ciliumName),
        C(clusterId), C(asked) and C(probedFrom).
      type: list
      elements: dict
    links:
      description: >-
        A row per ordered pair, with the stage that the link is in, the last error, and the last proof. Each has C(cluster), C(peer),
        C(stage), C(ready), C(reader), C(error), C(nodesReady), C(nodesAsked), C(nodesTotal), C(proof), C(proofNote) and C(lastProof), in
        some also C(arrived) and C(nodePaths).
      type: list
      elements: dict
    conditions:
      description: Kubernetes conditions.
      type: list
      elements: dict
    observedGeneration:
      description: C(binding.generation) of O(mesh). Absent without it.
      type: int
findings:
  description: What speaks against the mesh, the blocking ones first.
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
incomplete:
  description: V(true). The task failed because not all is as asked, after it did all that it could; nothing stopped it before.
  returned: in that case
  type: bool
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
