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
