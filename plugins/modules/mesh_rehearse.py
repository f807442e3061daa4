# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_rehearse
version_added: 0.1.0
short_description: Rehearse what happens if members, links or networks of a mesh are lost
description:
  - Says of each loss which global services have no backend left, which keep how many and where, whose clients are sent to dead or outdated
    backends and for how long, which exposed services have no cluster left, which changes of the mesh wait, and who notices when.
  - The losses are ranked by harm. Each is rehearsed alone, from the facts and links as they are now.
  - Items of O(mesh) add what the clusters do not say, which is failover contracts and exposed services.
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
  each:
    description:
      - The kinds of losses that are rehearsed one after the other. Without it V(members) and V(links), or none where O(losses) names any.
      - V(members) is each member alone. It is gone with everything in it.
      - V(links) are both links between each two members. Packets between their pods still pass.
      - V(networks) is the network between each two members. No packet passes, and their links are gone too.
    type: list
    elements: str
    choices: [members, links, networks]
  losses:
    description:
      - Losses by name, each a set of what is gone at the same time.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the loss, one line. Without it, the name says what is gone.
        type: str
      members:
        description: Inventory names of members that are gone.
        type: list
        elements: str
      links:
        description: Pairs of inventory names, as V([c1, c2]). The first one does not read the second one any more.
        type: list
        elements: raw
      networks:
        description: Pairs of inventory names between which no packet passes.
        type: list
        elements: raw
  fail_on:
    description:
      - The task fails if one of the rehearsed losses does one of these harms, or if a member is silent, so that it cannot be known.
      - V(service-without-backend), V(exposure-without-cluster), V(clients-without-backend), V(dead-backends), V(kept-for-ever),
        V(contract-not-met), V(frozen-backends), V(leases-without-majority), V(roll-stalls), V(renewal-stalls), V(approval-stalls).
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: May the mesh lose any one cluster without losing a service?
  edge_portal.cilium_mesh.mesh_rehearse:
    mesh: "{{ cilium_mesh }}"
    each: [members]
    fail_on: [service-without-backend, exposure-without-cluster]
  run_once: true

- name: What if the site in Frankfurt is gone?
  edge_portal.cilium_mesh.mesh_rehearse:
    mesh: "{{ cilium_mesh }}"
    losses:
      - name: Frankfurt
        members: [cluster-ffm-1, cluster-ffm-2]
  run_once: true
"""

RETURN = r"""
rehearsal:
  description: What each loss does, the gravest first.
  returned: when the losses were rehearsed
  type: dict
  contains:
    services:
      description: Number of global services that have a ready backend now.
      type: int
    verdicts:
      description: Number of losses by verdict, which is V(outage), V(degraded), V(stalled), V(unknown) or V(none).
      type: dict
    losses:
      description: A row per loss, with C(harms), C(sums), C(services), C(exposures), C(stalls) and C(noticed); see docs/rehearse.md.
      type: list
      elements: dict
    unknown:
      description: Members of which nothing is known, with the reason.
      type: list
      elements: dict
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
