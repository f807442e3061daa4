# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_reconcile
version_added: 0.1.0
short_description: Bring a whole mesh to what one file says, links and items, or remove it
description:
  - Does on one observation of the clusters, under one lock and by one plan with one hash what M(edge_portal.cilium_mesh.mesh_connect) and
    M(edge_portal.cilium_mesh.mesh_items) do one after the other. The playbook C(mesh) runs it.
  - The links are written and measured first. The items are planned on the links as they will be; if the links are not ready in time, the
    items wait, and nothing is written for them.
  - With O(state=absent) the items are removed first, then the links. While an item could not be removed, the links stay.
  - With O(assign_identities) clusters that were never meshed get a name and an id first, as M(edge_portal.cilium_mesh.mesh_identity) gives
    them. Links and items depend on these, so the plan has only this part then. A run without O(hash) goes on with the rest; one with
    O(hash) ends there.
  - A list that O(mesh) does not have is left alone.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.lock
  - edge_portal.cilium_mesh._mesh.judgement
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
  - edge_portal.cilium_mesh._mesh.breadth
  - edge_portal.cilium_mesh._mesh.planning
  - edge_portal.cilium_mesh._mesh.certificates
  - edge_portal.cilium_mesh._mesh.parallel
  - edge_portal.cilium_mesh._mesh.waiting
  - edge_portal.cilium_mesh._mesh.proof
  - edge_portal.cilium_mesh._mesh.previous
  - edge_portal.cilium_mesh._mesh.items_run
  - edge_portal.cilium_mesh._mesh.identities
options:
  state:
    description:
      - V(present) makes the mesh as O(mesh) says, and prunes items that are no longer in it.
      - V(absent) removes all items, and then all links.
    type: str
    choices: [present, absent]
    default: present
  clusters:
    description:
      - Members that leave, for M(edge_portal.cilium_mesh.mesh_connect). It is refused here. To take out a member, remove it from
        C(clusterRefs).
    type: list
    elements: str
    default: []
  binding_status:
    description:
      - The status of the mesh, as a very recent run measured it. The links are left alone then, and the items rely on this status. It goes
        neither with O(hash) nor with O(state=absent).
    type: dict
  assign_identities:
    description:
      - Give names and ids to clusters that were never meshed.
    type: bool
    default: false
  rollout_timeout:
    description:
      - Seconds for all rollouts of an assignment together.
      - From V(0) to V(86400).
    type: int
    default: 600
attributes:
  diff_mode:
    support: full
    details:
      - Values of Secrets appear as digests, and new ones as where they come from.
  idempotent:
    support: full
    details:
      - A changed result means that the plan had steps, and that at least one was carried out.
seealso:
  - module: edge_portal.cilium_mesh.mesh_connect
  - module: edge_portal.cilium_mesh.mesh_items
  - module: edge_portal.cilium_mesh.mesh_identity
"""

EXAMPLES = r"""
- name: The whole mesh of the file
  edge_portal.cilium_mesh.mesh_reconcile:
    mesh:
      binding:
        name: edge-mesh-eu
        clusterRefs:
          - name: cluster-ffm-1
          - name: cluster-ber-2
      globalServices:
        - name: nginx
          selector:
            namespace: production
            name: nginx
  register: reconciled
  run_once: true

- name: What would change
  edge_portal.cilium_mesh.mesh_reconcile:
    mesh: "{{ cilium_mesh }}"
  check_mode: true
  diff: true
  run_once: true

- name: Carry out the plan that was approved, and nothing else
  edge_portal.cilium_mesh.mesh_reconcile:
    mesh: "{{ cilium_mesh }}"
    hash: 3f9a1c0b7d2e
  run_once: true

- name: Remove everything
  edge_portal.cilium_mesh.mesh_reconcile:
    mesh: "{{ cilium_mesh }}"
    state: absent
  run_once: true
"""

RETURN = r"""
plan:
  description: What was decided for names, links and items together, step by step.
  returned: when a part of it is not blocked
  type: dict
  contains:
    hash:
      description: >-
        SHA-256 over the steps, the options and everything observed that they rely on. Empty while a finding blocks a part of the plan.
      type: str
    steps:
      description: The writes in their order, each with C(wave), C(cluster), C(verb), C(object), C(why), C(disruption) and C(undo).
      type: list
      elements: dict
    links:
      description: Endpoint and trust that were chosen for each ordered pair, with the reason.
      type: list
      elements: dict
    problems:
      description: Findings of the planning.
      type: list
      elements: dict
status:
  description: >-
    The status of the mesh, and a row per item with C(name), in the order of O(mesh). All have the shape of the status of the custom
    resource.
  returned: always
  type: dict
  contains:
    binding:
      description: As RV(edge_portal.cilium_mesh.mesh_connect#module:status); null where it was not measured.
      type: dict
    globalServices:
      description: A row per global service.
      type: list
      elements: dict
    connectivityIntents:
      description: A row per connectivity intent.
      type: list
      elements: dict
    exposedServices:
      description: A row per exposed service.
      type: list
      elements: dict
outages:
  description: The items by which sources lose access that they have, as V(connectivityIntents/frontend-to-backend).
  returned: always
  type: list
  elements: str
findings:
  description: What speaks against the mesh, the blocking ones first.
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
      description: Whether the code was listed in O(accept).
      type: bool
    item:
      description: The item that it is about, such as V(globalServices/nginx). Absent when it is about a cluster or the mesh.
      type: str
    cluster:
      description: Inventory name of the cluster, empty for the mesh as a whole.
      type: str
    peer:
      description: Inventory name of the other cluster, where the finding is about a pair.
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
mesh:
  description: Inventory names of the clusters that were observed.
  returned: always
  type: list
  elements: str
requests:
  description: Number of API requests made to each cluster, by inventory name.
  returned: always
  type: dict
requeue_seconds:
  description: After how many seconds it makes sense to look again.
  returned: always
  type: int
"""
