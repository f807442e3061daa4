# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_adopt
version_added: 0.1.0
short_description: Take over a mesh that Helm or the cilium CLI made, or give it back
description:
  - Makes the keys of the peers in Secrets C(cilium-clustermesh) and C(cilium-kvstoremesh), and their users, this mesh's, as they are. Only
    the ownership in C(metadata.managedFields) changes, and no value, so no link drops.
  - Where a tool still renders these objects, they are only prepared, so that they outlive its manifest. The finding C(CM-OWN-06) then has
    the value to set, and the task succeeds. Run it again when that is done.
  - With O(state=handed_back) everything goes back. The keys stay, owned by the tool's field manager again, the marks of the tool come
    back, and the finding C(CM-OWN-11) has the peers as Helm values.
  - Values that M(edge_portal.cilium_mesh.mesh_connect) would write in another way are changed by its next run, with a plan, not by this.
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
  state:
    description:
      - V(adopted) takes the mesh over, V(handed_back) gives it back.
    type: str
    choices: [adopted, handed_back]
    default: adopted
  handed_over:
    description:
      - The tools that made the mesh do not render the objects of the peers any more (C(clustermesh.config.enabled=false) is rolled out).
      - Needed where the objects cannot show it. They do where the chart gave the peers' addresses as host aliases, which then went.
        Where such aliases are still there, they outweigh this option and the finding C(CM-OWN-07) blocks.
    type: bool
    default: false
attributes:
  diff_mode:
    support: full
    details:
      - Values of Secrets appear as digests. Of C(managedFields) the owners whose fields change are shown.
  idempotent:
    support: full
    details:
      - A changed result means that the plan had steps.
seealso:
  - module: edge_portal.cilium_mesh.mesh_connect
"""

EXAMPLES = r"""
- name: Prepare a mesh that Helm made, and see which value has to be set
  edge_portal.cilium_mesh.mesh_adopt:
    mesh: "{{ cilium_mesh }}"
  run_once: true

- name: Take it over, when clustermesh.config.enabled=false is rolled out everywhere
  edge_portal.cilium_mesh.mesh_adopt:
    mesh: "{{ cilium_mesh }}"
    handed_over: true
  run_once: true

- name: Give it back
  edge_portal.cilium_mesh.mesh_adopt:
    mesh: "{{ cilium_mesh }}"
    state: handed_back
  run_once: true
"""

RETURN = r"""
stages:
  description: >-
    How far each cluster was when the run began, by inventory name. V(held) means that a tool owns the objects, V(free) that they are taken
    over in this run, V(done) that there is nothing left to take over. Empty with O(state=handed_back).
  returned: always
  type: dict
  sample:
    {cluster-ffm-1: held}
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
  description: What has to be done by hand, and what is in the way, the blocking ones first.
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
