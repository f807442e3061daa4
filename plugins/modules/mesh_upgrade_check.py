# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_upgrade_check
version_added: 0.1.0
short_description: Show what an upgrade of Cilium changes in the mesh, hop by hop, and the steps of it
description:
  - Applies the rules of the next minors of Cilium to what the members are now, and returns an ordered list of steps for the whole mesh,
    with the Helm values that each needs, what it restarts, and what M(edge_portal.cilium_mesh.mesh_connect) writes after it.
  - The order never brings two linked members further apart than one minor, or than they are now.
  - Policies are evaluated for the minors before and after, so that the flows whose verdict changes are named.
  - Reads, and writes to no cluster.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.report
seealso:
  - module: edge_portal.cilium_mesh.mesh_verify
  - module: edge_portal.cilium_mesh.mesh_reach
options:
  target:
    description:
      - The minor of Cilium to which all members are brought, such as V(1.20), in quotes. Without it, that of the newest member, or one
        minor further than the oldest where this is more.
    type: str
  values:
    description:
      - Helm values that you set with the upgrade in every member, by their whole keys with dots, such as
        C(clustermesh.policyDefaultLocalCluster). The forecast goes by them, and the commands of the steps set them.
      - A value that equals the default of the present chart is taken for the default unless it is named here.
    type: dict
  fail_on:
    description:
      - What the task fails on. A member of which nothing can be said fails every gate.
      - V(prepare) is something that has to be done before a hop, or a value that has to be set with it.
      - V(lost) is a flow that policies deny after a hop and that they do not deny now, and V(gained) one that they allow then and do not
        allow now. Both include flows that become unknown.
    type: list
    elements: str
    choices: [prepare, lost, gained]
    default: []
  json:
    description:
      - File on the controller for the forecast as JSON.
    type: path
"""

EXAMPLES = r"""
- name: What has to be done to get to 1.20
  edge_portal.cilium_mesh.mesh_upgrade_check:
    mesh: "{{ cilium_mesh }}"
    target: "1.20"
  run_once: true

- name: Stop the pipeline where the next minor takes access away
  edge_portal.cilium_mesh.mesh_upgrade_check:
    mesh: "{{ cilium_mesh }}"
    fail_on: [prepare, lost]
  run_once: true
"""

RETURN = r"""
upgrade:
  description: The forecast.
  returned: when the members were observed
  type: dict
  contains:
    target:
      description: The minor to which all members are brought.
      type: str
    members:
      description: The minor of each member now, as C(cluster) and C(minor).
      type: list
      elements: dict
    unknown:
      description: Members of which nothing can be said, as C(cluster) and C(reason).
      type: list
      elements: dict
    skewed:
      description: Pairs of linked members that are more than one minor apart now.
      type: list
      elements: list
    steps:
      description: The steps in their order, with C(number), C(kind), C(cluster), C(hop), C(text), C(values), C(commands) and C(restarts).
      type: list
      elements: dict
    effects:
      description: Effects, with C(rule), C(cluster), C(need), C(summary), C(evidence), C(values), C(commands) and C(source).
      type: list
      elements: dict
    hops:
      description: Hops, with C(writes), the steps of connect that they make necessary, and C(findings) that are there only then.
      type: list
      elements: dict
    changes:
      description: Flows whose verdict changes with the new defaults, the first 200, as M(edge_portal.cilium_mesh.mesh_reach) returns them.
      type: list
      elements: dict
    changesLeftOut:
      description: How many changes are not in this result.
      type: int
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
