# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_policy
version_added: 0.1.0
short_description: Allow, deny or isolate traffic between clusters of a mesh
description:
  - Carries out the list C(connectivityIntents) of the variable C(cilium_mesh), whose entries are specs of the custom resource
    ConnectivityIntent.
  - Every write is decided before the first one. An item whose spec is not valid, or that planning refuses, writes nothing and keeps the
    objects that it made before; the others are carried out, and the task fails.
  - The objects of an item that is no longer in the list are pruned. They are recognised by their own labels and the
    annotation C(cilium-mesh.edge-portal.eu/item). Objects of other owners are never overwritten.
  - A write that fails stops its own item in that cluster, and nothing else.
  - The number of reads does not grow with the number of items, but for recorded flows and probes, of which it has bounds.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.lock
  - edge_portal.cilium_mesh._mesh.items
  - edge_portal.cilium_mesh._mesh.items_run
  - edge_portal.cilium_mesh._mesh.items_breadth
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
attributes:
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A changed result means that the plan had steps, and that at least one was carried out.
seealso:
  - module: edge_portal.cilium_mesh.mesh_connect
  - module: edge_portal.cilium_mesh.mesh_items
  - module: edge_portal.cilium_mesh.mesh_service
  - module: edge_portal.cilium_mesh.mesh_exposure
"""

EXAMPLES = r"""
- name: Carry out connectivity intents
  edge_portal.cilium_mesh.mesh_policy:
    mesh:
      binding:
        name: edge-mesh-eu
        clusterRefs: [{name: cluster-ffm-1}, {name: cluster-ber-2}]
      connectivityIntents:
        - name: frontend-to-backend
          action: Allow
          source: {namespace: production, name: frontend}
          destination: {namespace: production, name: backend}
          ports: [{protocol: TCP, port: 8080}]
  register: carried_out
  run_once: true

- name: What would change, although the mesh is not connected yet
  edge_portal.cilium_mesh.mesh_policy:
    mesh: "{{ cilium_mesh }}"
    binding_status:
      phase: Connected
  check_mode: true
  diff: true
  run_once: true

- name: Carry out the plan that was approved, and nothing else
  edge_portal.cilium_mesh.mesh_policy:
    mesh: "{{ cilium_mesh }}"
    hash: 3f9a1c0b7d2e
  run_once: true

- name: Prune everything that the connectivity intents made
  edge_portal.cilium_mesh.mesh_policy:
    mesh: "{{ cilium_mesh }}"
    state: absent
  run_once: true
"""

RETURN = r"""
plan:
  description: What was decided, step by step, for all items together.
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
binding_status:
  description: The status of the mesh as this task measured it, in the form of C(status) of M(edge_portal.cilium_mesh.mesh_connect).
  returned: when O(binding_status) is not given, and items wait for the mesh
  type: dict
status:
  description: >-
    A row per item, in the form of the status of its custom resource with C(name), in the order of O(mesh). Each has C(phase),
    C(lastSyncTime) and C(conditions). There is a list for each kind, by the name that it has in O(mesh); those of kinds that the task is
    not for are empty.
  returned: always
  type: dict
  contains:
    connectivityIntents:
      description: Rows with C(appliedClusters), and with C(probeStatus) where a probe is enabled.
      type: list
      elements: dict
findings:
  description: What speaks against items, the blocking ones first. One that names an item concerns that item alone.
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
outages:
  description: The items by which sources lose access that they have, as V(connectivityIntents/frontend-to-backend).
  returned: always
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
