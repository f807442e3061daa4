# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_status
version_added: 0.1.0
short_description: Measure whether the clusters of a mesh are connected
description:
  - Asks kvstoremesh and the agents of every cluster for the state of their peers. Secrets that exist prove nothing, so they do not count.
  - Then tries every link with a new connection, as kvstoremesh notices a peer that is gone only after up to 130 seconds.
requirements:
  - grpcio and protobuf >= 4.22 on the controller, for the age of the peers' heartbeats; without them it stays unknown
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.expected
  - edge_portal.cilium_mesh._mesh.proof
  - edge_portal.cilium_mesh._mesh.previous
"""

EXAMPLES = r"""
- name: How is the mesh?
  edge_portal.cilium_mesh.mesh_status:
    mesh: "{{ cilium_mesh }}"
  register: measured
  run_once: true

- name: Every link is ready
  ansible.builtin.assert:
    that: measured.status.links | selectattr("ready") | length == measured.status.links | length
  run_once: true
"""

RETURN = r"""
status:
  description: What was measured, in the shape of the status of a ClusterMeshBinding, with a row per reader and link in C(links).
  returned: always
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
      description: A row per ordered pair, with the stage that the link is in, the last error, and the last proof.
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
      description: Always false here.
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
