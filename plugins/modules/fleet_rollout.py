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
  description: What was found, as of M(edge_portal.cilium_mesh.mesh_verify).
  returned: always
  type: list
  elements: dict
plan:
  description: The hash, and every write to Karmada in its order.
  returned: always
  type: dict
workloads:
  description: C(name) and C(status) of each workload, in the form of the custom resource FleetWorkload.
  returned: when Karmada was read
  type: list
  elements: dict
status:
  description: The worst C(phase) of all workloads.
  returned: when Karmada was read
  type: dict
global_services:
  description: The GlobalServices that workloads with C(service.global) ask for, each with its C(meshRef).
  returned: when Karmada was read
  type: list
  elements: dict
requests:
  description: API requests by host.
  returned: always
  type: dict
requeue_seconds:
  description: Seconds until the next run should begin.
  returned: always
  type: int
"""
