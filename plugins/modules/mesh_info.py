# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_info
version_added: 0.1.0
short_description: Read the facts about Cilium Cluster Mesh in each cluster
description:
  - Reads configuration, workloads, Services, nodes, certificates and the names of peers of every cluster of the play, and returns them as
    data.
  - Certificates are described, other values of Secrets are digests; private keys are never part of the result.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
"""

EXAMPLES = r"""
- name: Read the mesh parts of every cluster
  edge_portal.cilium_mesh.mesh_info:
  register: seen
  run_once: true

- name: Every cluster has an identity of its own
  ansible.builtin.assert:
    that: (seen.clusters.values() | map(attribute="id") | unique | length) == (seen.clusters | length)
  run_once: true
"""

RETURN = r"""
clusters:
  description:
    - What was seen, by inventory name, of the clusters that answered.
    - Of each, C(name) and C(id) are Cilium's name and number of it, C(config) is the data of ConfigMap cilium-config, C(service) the
      Service clustermesh-apiserver. C(server_cert), C(remote_cert), C(local_cert) and C(admin_cert) are certificates of its mesh endpoint;
      C(kvstoremesh) and C(clustermesh) have the keys of these Secrets as digests, with their field managers.
  returned: always
  type: dict
findings:
  description: Clusters that did not answer.
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
