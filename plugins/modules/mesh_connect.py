# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_connect
version_added: 0.1.0
short_description: Connect clusters into one Cilium Cluster Mesh, or take them out of it
description:
  - Does the whole step for the whole mesh on one observation of its clusters. It verifies, plans, writes, waits and measures.
  - Everything is decided before the first write. One blocking finding anywhere means that nothing is written anywhere. If it is about one
    member whose name, id or address is wrong, that member is left as it is, and the others are linked; the task fails all the same.
  - Writes the Secrets C(cilium-clustermesh) and C(cilium-kvstoremesh), the ConfigMap C(clustermesh-remote-users), and before Cilium 1.20
    the host aliases of one workload, by server-side apply under a field manager of its own. Keys, users and aliases of others stay.
  - Writes the ConfigMap with the leases of names and ids and the Lease that is the lock of the mesh, too.
  - With O(state=absent) it removes what it wrote, in the clusters that answer. An empty list of users stays where Cilium needs one. A
    cluster that does not answer is a finding and does not keep the others from leaving it. The task then fails with phase V(Degraded),
    unless O(max_failures) allows it.
  - Links that the mesh no longer asks for are withdrawn, in the members and in clusters that left it and take part in the play.
  - Members that C(--limit) leaves out are not contacted. O(state=present) then brings those inside up to date and leaves their links to
    the others as they are. O(state=absent) ends the links that cross the border of the limit, on the inside.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.lock
  - edge_portal.cilium_mesh._mesh.judgement
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
  - edge_portal.cilium_mesh._mesh.breadth
  - edge_portal.cilium_mesh._mesh.planning
  - edge_portal.cilium_mesh._mesh.certificates
  - edge_portal.cilium_mesh._mesh.parallel
  - edge_portal.cilium_mesh._mesh.waiting
  - edge_portal.cilium_mesh._mesh.proof
  - edge_portal.cilium_mesh._mesh.previous
options:
  state:
    description:
      - V(present) makes the clusters one mesh.
      - V(absent) removes what V(present) wrote.
    type: str
    choices: [present, absent]
    default: present
  clusters:
    description:
      - With O(state=absent), the members that leave. The others stay connected to each other. Empty means all, or with C(--limit) those
        that it leaves out.
      - Take them out of C(clusterRefs) afterwards, or the next O(state=present) brings them back.
    type: list
    elements: str
    default: []
attributes:
  diff_mode:
    support: full
    details:
      - Values of Secrets appear as digests, and new ones as where they come from.
  idempotent:
    support: full
    details:
      - A changed result means that the plan had steps.
"""

EXAMPLES = r"""
- name: Connect two clusters
  edge_portal.cilium_mesh.mesh_connect:
    mesh:
      binding:
        name: edge-mesh-eu
        clusterRefs:
          - name: cluster-ffm-1
          - name: cluster-ber-2
  register: connected
  run_once: true

- name: The mesh is connected
  ansible.builtin.assert:
    that: connected.status.phase == "Connected"
  run_once: true

- name: One cluster leaves
  edge_portal.cilium_mesh.mesh_connect:
    mesh: "{{ cilium_mesh }}"
    state: absent
    clusters: [cluster-ber-2]
  run_once: true

- name: Two spokes around a hub, although one member may be down
  edge_portal.cilium_mesh.mesh_connect:
    mesh:
      binding:
        name: edge-mesh-eu
        clusterRefs:
          - name: cluster-ffm-1
          - name: cluster-ber-2
          - name: cluster-muc-3
        topology:
          mode: HubAndSpoke
          hubs: [cluster-ffm-1]
    max_failures: 1
  run_once: true

- name: Take the mesh apart
  edge_portal.cilium_mesh.mesh_connect:
    mesh: "{{ cilium_mesh }}"
    state: absent
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
