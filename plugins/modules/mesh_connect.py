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
  returned: when nothing blocks
  type: dict
  contains:
    hash:
      description: SHA-256 over the steps and everything observed that they rely on.
      type: str
    steps:
      description: The writes in their order, each with C(wave), C(cluster), C(verb), C(object), C(why), C(disruption) and C(undo).
      type: list
      elements: dict
    links:
      description: Endpoint and trust that were chosen for each ordered pair, with the reason.
      type: list
      elements: dict
    problems:
      description: Findings of the planning.
      type: list
      elements: dict
status:
  description: What was measured, in the shape of the status of a ClusterMeshBinding, with a row per reader and link in C(links).
  returned: when it was measured
  type: dict
  contains:
    phase:
      description: One of V(Pending), V(Connecting), V(Connected), V(Degraded) and V(Error).
      type: str
    meshStatus:
      description: A row per cluster.
      type: list
      elements: dict
    links:
      description: A row per ordered pair, with the stage that the link is in and the last error.
      type: list
      elements: dict
    conditions:
      description: Kubernetes conditions.
      type: list
      elements: dict
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
      description: Whether the code was listed in O(accept).
      type: bool
    cluster:
      description: Inventory name of the cluster, empty for the mesh as a whole.
      type: str
    peer:
      description: Inventory name of the other cluster, where the finding is about a pair.
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
mesh:
  description: Inventory names of the clusters that were observed.
  returned: always
  type: list
  elements: str
requests:
  description: Number of API requests made to each cluster, by inventory name.
  returned: always
  type: dict
requeue_seconds:
  description: After how many seconds it makes sense to look again.
  returned: always
  type: int
"""
