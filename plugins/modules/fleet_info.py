# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_info
version_added: 0.1.0
short_description: Report the workloads of a tenant on many clusters
description:
  - Reads what Karmada holds of the tenant and reports each workload, where it runs, and how far its rollout is. It also plans what
    M(edge_portal.cilium_mesh.fleet_workload) would do, with the hash that can be approved. It writes nothing.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
  - edge_portal.cilium_mesh._mesh.fleet
"""

EXAMPLES = r"""
- name: Report the workloads
  edge_portal.cilium_mesh.fleet_info:
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
