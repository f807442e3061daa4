# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_rollout
version_added: 0.1.0
short_description: Pause, resume, restart, roll back or move a workload on many clusters
description:
  - Carries out one operation on one workload of O(fleet). Other workloads are left as they are.
  - A restart and a rollback are done once per O(id), however often the task runs, and go out in waves as any change.
  - A workload leaves a cluster only where another one is better, and C(migration.minAvailablePercent) would be left ready.
  - A rollback restores the content of a revision as a new one. It lasts until the spec of the workload changes.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
  - edge_portal.cilium_mesh._mesh.fleet
  - edge_portal.cilium_mesh._mesh.rounds
options:
  workload:
    description:
      - Name of the workload in O(fleet).
    type: str
    required: true
  operation:
    description:
      - V(pause) stops the rollout where it is, V(resume) continues it. V(restart) starts all pods anew. V(rollback) restores
        O(to_revision). V(evict) lets the workload leave O(cluster) as soon as the rules of its PlacementPolicy permit it, for example
        before the cluster is maintained, and V(return) lets it come back. V(advance) changes nothing and takes the rollout on.
    type: str
    choices: [pause, resume, restart, rollback, evict, return, advance]
    default: advance
  id:
    description:
      - Identifies what is done once, for example by the number of a change.
    type: str
    default: ""
  to_revision:
    description:
      - Number of the revision to restore.
      - From V(1) to V(999999999).
    type: int
  cluster:
    description:
      - Name of the KubernetesCluster that V(evict) and V(return) are about.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Return to revision 3
  edge_portal.cilium_mesh.fleet_rollout:
    fleet: "{{ fleet }}"
    workload: web
    operation: rollback
    id: change-4711
    to_revision: 3

- name: Leave a cluster before it is maintained
  edge_portal.cilium_mesh.fleet_rollout:
    fleet: "{{ fleet }}"
    workload: web
    operation: evict
    id: change-4712
    cluster: cluster-ber-2
"""

RETURN = r"""
findings:
  description: What speaks against workloads, fleets and placement policies, the blocking ones first.
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
plan:
  description: Every write to Karmada in its order.
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
workloads:
  description: C(name) and C(status) of each workload, in the form of the custom resource FleetWorkload.
  returned: when Karmada was read
  type: list
  elements: dict
status:
  description: The worst C(phase) of all workloads.
  returned: when Karmada was read
  type: dict
  contains:
    phase:
      description: One of V(Error), V(Degraded), V(Pending), V(Progressing) and V(Available).
      type: str
global_services:
  description: The GlobalServices that workloads with C(service.global) ask for, each with its C(meshRef).
  returned: when Karmada was read
  type: list
  elements: dict
fleets:
  description: C(name) and the status of each Fleet, with its clusters and how many of them are ready.
  returned: when Karmada was read
  type: list
  elements: dict
placement_policies:
  description: C(name) and the status of each PlacementPolicy.
  returned: when Karmada was read
  type: list
  elements: dict
leaving:
  description: Workloads that are not asked for any more, and of which something is left in Karmada.
  returned: when Karmada was read
  type: list
  elements: str
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
