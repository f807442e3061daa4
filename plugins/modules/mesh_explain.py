# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_explain
version_added: 0.1.0
short_description: Explain why pods of one cluster cannot reach a Service or pods of another
description:
  - Follows the connection from one end to the other, hop by hop, and gives a verdict for each, with its evidence.
  - The hops are source, target, identity, service, backend, node port, namespace, link, egress policy, ingress policy and network.
  - What the API servers do not know is V(unknown) and never guessed, such as whether packets pass between nodes that no agent has probed.
  - Reads, and writes nothing.
requirements:
  - grpcio and protobuf >= 4.22 on the controller, for the age of the peers' heartbeats; without them it stays unknown
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.proof
options:
  source:
    description:
      - The workload that wants to connect.
    type: dict
    required: true
    suboptions:
      cluster:
        description: Inventory name of the cluster.
        type: str
        required: true
      namespace:
        description: Namespace of the pods.
        type: str
        required: true
      pod:
        description: Name of a pod. Give this, O(source.name) or O(source.labels).
        type: str
      name:
        description: Value of the label C(app) of the pods, as in a ConnectivityIntent.
        type: str
      labels:
        description: Labels of the pods.
        type: dict
  target:
    description:
      - The Service or the pods that it wants to reach.
    type: dict
    required: true
    suboptions:
      cluster:
        description:
          - Inventory name of the cluster. It may be left out for a Service, which is then explained as O(source.cluster) resolves it.
          - With a Service it means that its backends in this cluster are to be reached.
        type: str
      namespace:
        description: Namespace of the Service or of the pods.
        type: str
        required: true
      service:
        description: Name of a Service. Give this, O(target.pod), O(target.name) or O(target.labels).
        type: str
      pod:
        description: Name of a pod.
        type: str
      name:
        description: Value of the label C(app) of the pods.
        type: str
      labels:
        description: Labels of the pods.
        type: dict
  port:
    description: Port of the Service, by number or name; for pods their own port by number.
    type: str
    required: true
  protocol:
    description: Protocol of the port.
    type: str
    choices: [TCP, UDP, SCTP]
    default: TCP
  expected:
    description:
      - With V(not_broken) the task fails when a hop is broken; V(any) never fails on a verdict.
    type: str
    choices: [not_broken, any]
    default: any
"""

EXAMPLES = r"""
- name: Why does the frontend in Frankfurt not reach the backend?
  edge_portal.cilium_mesh.mesh_explain:
    mesh: "{{ cilium_mesh }}"
    source: {cluster: cluster-ffm-1, namespace: production, name: frontend}
    target: {namespace: production, service: backend}
    port: 8080
  run_once: true
"""

RETURN = r"""
explanation:
  description: The answer, and the hops in the order of the way.
  returned: when the connection was explained
  type: dict
  contains:
    verdict:
      description: V(broken) when a hop is; else V(unknown) when one is; else V(ok).
      type: str
    summary:
      description: The answer in one sentence.
      type: str
    hops:
      description: A row per hop.
      type: list
      elements: dict
      contains:
        hop:
          description: Name of the hop.
          type: str
        verdict:
          description: One of V(ok), V(broken), V(unknown) and V(skipped).
          type: str
        cluster:
          description: Inventory name of the cluster that the hop is about.
          type: str
        summary:
          description: What is known, in one sentence.
          type: str
        evidence:
          description: What was read.
          type: list
          elements: str
        fix:
          description: What to do about a broken one.
          type: str
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
