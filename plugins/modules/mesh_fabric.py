# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_fabric
version_added: 0.1.0
short_description: Roll up the statuses of several meshes
description:
  - A fabric is a named set of bindings. Its phase is the worst of theirs; it counts what is connected and says how old the proofs are.
  - Measures every binding as M(edge_portal.cilium_mesh.mesh_status) does, over one observation of all clusters, or takes statuses that are
    known already. It has no state of its own and writes nothing.
requirements:
  - cryptography >= 42.0.0 on the controller
  - kubernetes >= 36.0.0 on the controller
  - PyYAML >= 6.0 on the controller
  - urllib3 >= 2.0.0 on the controller
  - websocket-client >= 1.6.0 on the controller
  - grpcio and protobuf >= 4.22 on the controller, for the age of the peers' heartbeats; without them it stays unknown
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.expected
  - edge_portal.cilium_mesh._mesh.proof
  - edge_portal.cilium_mesh._mesh.parallel
options:
  fabric:
    description:
      - The fabric. C(name) is its name, C(bindings) a list of bindings, each with C(name), C(clusterRefs), C(topology) and C(meshConfig),
        as C(cilium_mesh.binding) has them.
      - Every cluster that is measured is a host of the one inventory; a cluster may be in several bindings.
    type: dict
    required: true
  statuses:
    description:
      - Statuses that are known already, by the name of the binding; each is C(status.binding) of a C(mesh_result), or the whole
        C(mesh_result). These bindings are not measured, and their clusters need not be in the inventory.
    type: dict
    default: {}
notes:
  - Every host of the play is a cluster. It is reached by its variables C(cilium_mesh_kubeconfig) (a path, or the kubeconfig itself),
    C(cilium_mesh_context), C(cilium_mesh_namespace) (default V(kube-system)) and C(cilium_mesh_endpoint_override).
  - No result, message or warning holds a value of a Secret or of a kubeconfig.
seealso:
  - module: edge_portal.cilium_mesh.mesh_status
  - plugin: edge_portal.cilium_mesh.clusters
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: How are the meshes of Europe?
  edge_portal.cilium_mesh.mesh_fabric:
    fabric:
      name: europe
      bindings:
        - name: edge-mesh-eu
          clusterRefs: [{name: cluster-ffm-1}, {name: cluster-ber-2}]
        - name: edge-mesh-alps
          clusterRefs: [{name: cluster-ber-2}, {name: cluster-zrh-1}]
  register: europe
  run_once: true

- name: Of statuses that other jobs have measured
  edge_portal.cilium_mesh.mesh_fabric:
    fabric:
      name: world
      bindings: [{name: edge-mesh-eu}, {name: edge-mesh-us}]
    statuses:
      edge-mesh-eu: "{{ result_of_europe.status.binding }}"
      edge-mesh-us: "{{ result_of_america.status.binding }}"
    expected: Connected
  run_once: true
"""

RETURN = r"""
status:
  description: The roll-up.
  returned: always
  type: dict
  contains:
    name:
      description: Name of the fabric.
      type: str
    phase:
      description: The worst phase of its bindings, in the order V(Error), V(Degraded), V(Connecting), V(Pending), V(Connected).
      type: str
    lastSyncTime:
      description: When the binding that was measured longest ago was measured; empty when one was not.
      type: str
    counts:
      description: C(bindings) and C(clusters) with C(total) and C(connected), C(links) with C(total) and C(ready).
      type: dict
    lastProof:
      description: C(oldest) and C(newest) last proof of a link, and how many links never had one (C(missing)).
      type: dict
    bindings:
      description: A row per binding, with its phase, counts, proofs, and in C(message) why it is not connected.
      type: list
      elements: dict
    conditions:
      description: The conditions C(Ready) and C(Degraded).
      type: list
      elements: dict
bindings:
  description: The status of every binding, by its name, as M(edge_portal.cilium_mesh.mesh_status) returns it.
  returned: always
  type: dict
findings:
  description: Clusters that do not answer, and what no binding alone shows.
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
