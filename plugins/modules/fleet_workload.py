# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_workload
version_added: 0.1.0
short_description: Bring workloads to many clusters by Karmada, wave by wave, or remove them
description:
  - Translates each workload into a Deployment, StatefulSet or DaemonSet, its Service and what is beside it, and a PropagationPolicy, in a
    namespace of Karmada that belongs to the tenant alone. Karmada brings them to the clusters.
  - A change makes a revision first. With waves, the clusters of later waves are suspended, and each wave begins when the one before runs
    well. The state of a rollout is in Karmada, so any later run goes on where one was ended.
  - The status is computed from what each cluster reports about the present template, and from whether the cluster is Ready now.
  - Workloads that are in Karmada and not in C(workloads) are removed. Without the key C(workloads), none is.
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
  state:
    description:
      - V(present) writes the workloads. V(absent) removes all workloads of the tenant, and its namespace from Karmada.
    type: str
    choices: [present, absent]
    default: present
  hash:
    description:
      - The hash of the plan that was approved, whole or at least its first 12 digits. With any other plan nothing is written. The waves
        that follow from the plan are part of it.
    type: str
    default: ""
  previous_status:
    description:
      - C(status) of each workload by its name, from the run before, for the times at which its conditions changed.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Bring a workload to two clusters, one after the other
  edge_portal.cilium_mesh.fleet_workload:
    fleet:
      workspace: shop
      karmada: karmada
      clusters:
        - {name: cluster-ffm-1, region: eu-de}
        - {name: cluster-ber-2, region: eu-de}
      fleets:
        - {name: all, clusterRefs: [{name: cluster-ffm-1}, {name: cluster-ber-2}]}
      workloads:
        - name: web
          fleetRef: {name: all}
          replicas: 2
          template: {spec: {containers: [{name: web, image: "registry.example/web:2"}]}}
          service: {ports: [{port: 80, targetPort: 8080}]}
          rollout: {batchSize: 1, pauseSeconds: 60}
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
requests:
  description: API requests by host.
  returned: always
  type: dict
requeue_seconds:
  description: Seconds until the next run should begin.
  returned: always
  type: int
"""
