# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_reach
version_added: 0.1.0
short_description: Show which workloads may communicate on which ports by the policies of all clusters, now and after a plan
description:
  - Evaluates every CiliumNetworkPolicy, CiliumClusterwideNetworkPolicy and NetworkPolicy of all members for every pair of workloads, and
    for addresses outside of the clusters. Each flow is V(allowed), V(denied) or V(unknown), with the policies that decide.
  - Where O(mesh) has C(connectivityIntents), it also shows what changes once they have been written.
  - Workloads that no policy distinguishes are evaluated together, so thousands of them take seconds.
  - Policies alone are judged. Whether links work, Services have backends, and packets pass is the subject of
    M(edge_portal.cilium_mesh.mesh_status) and M(edge_portal.cilium_mesh.mesh_explain).
  - Reads, and writes to no cluster.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.report
seealso:
  - module: edge_portal.cilium_mesh.mesh_explain
  - module: edge_portal.cilium_mesh.mesh_policy
options:
  source:
    description:
      - The sources of the flows. Without it, all workloads, outsiders and nodes.
    type: dict
    suboptions:
      cluster:
        description: Inventory name of the sources' cluster.
        type: str
      namespace:
        description: Namespace of the sources.
        type: str
      workload:
        description: Name of one source, as of its Deployment; of another kind with the kind, such as V(StatefulSet db).
        type: str
  destination:
    description:
      - The destinations of the flows. Without it, all workloads, outsiders and nodes.
    type: dict
    suboptions:
      cluster:
        description: Inventory name of the destinations' cluster.
        type: str
      namespace:
        description: Namespace of the destinations.
        type: str
      workload:
        description: Name of one destination, as of its Deployment; of another kind with the kind, such as V(StatefulSet db).
        type: str
  fail_on:
    description:
      - What the task fails on. A member of which nothing is known fails every gate.
      - V(world) is an outsider that reaches, or perhaps reaches, a workload of O(destination).
      - V(allowed) is a workload of O(source) that reaches, or perhaps reaches, one of O(destination).
      - V(unknown) is a flow between them of which the verdict is not known.
      - V(gained) is a flow that the plan allows and that is not allowed now, and V(lost) one that it denies and that is not denied now.
        Both include flows that become unknown.
    type: list
    elements: str
    choices: [world, allowed, unknown, gained, lost]
    default: []
  grain:
    description:
      - Rows and columns of O(matrix_csv).
    type: str
    choices: [namespace, workload]
    default: namespace
  flows_csv:
    description:
      - File on the controller for every flow, and every change by the plan, as CSV.
    type: path
  matrix_csv:
    description:
      - File on the controller for the matrix as CSV.
    type: path
  json:
    description:
      - File on the controller for the whole result as JSON.
    type: path
"""

EXAMPLES = r"""
- name: Who reaches what, and what will change
  edge_portal.cilium_mesh.mesh_reach:
    mesh: "{{ cilium_mesh }}"
    flows_csv: reach.csv
    matrix_csv: matrix.csv
  run_once: true

- name: Nothing of the development namespace may reach the databases
  edge_portal.cilium_mesh.mesh_reach:
    mesh: "{{ cilium_mesh }}"
    source: {namespace: dev}
    destination: {namespace: databases}
    fail_on: [allowed]
  run_once: true
"""

RETURN = r"""
reach:
  description: The answer. Lists are cut to 200 rows and the matrix to 2,000 cells; files have everything.
  returned: when the policies were evaluated
  type: dict
  contains:
    workloads:
      description: Number of workloads.
      type: int
    distinct:
      description: Number of sets of workloads that policies distinguish.
      type: int
    pairs:
      description: Pairs of workloads that reach each other on V(all) ports, on V(some), on V(none), and those that are V(unknown).
      type: dict
    matrix:
      description: A row per source and destination namespace, with C(from), C(to), C(access), C(ports) and numbers of pairs.
      type: list
      elements: dict
    flows:
      description: Flows with C(source), C(destination), C(verdict), C(ports), C(ranges), C(policies) and C(reasons).
      type: list
      elements: dict
    outsiders:
      description: Flows from outside that are not denied, with C(published), the Services that lead there.
      type: list
      elements: dict
    planned:
      description: Whether the intents of the file would write a policy.
      type: bool
    changes:
      description: What their policies change, as flows with C(change) and C(before).
      type: list
      elements: dict
    notCarriedOut:
      description: Intents that are refused, and so are no part of the plan.
      type: list
      elements: str
    notes:
      description: What the answer does not cover.
      type: list
      elements: str
    leftOut:
      description: How many entries of each list are not in this result; of C(flows) whether there are more.
      type: dict
findings:
  description: Clusters that did not answer, which are V(advisory), and what speaks against intents that are refused, which is V(blocking).
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
