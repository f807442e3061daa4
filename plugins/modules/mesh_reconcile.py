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
  description:
    - What was decided for names, links and items together, step by step.
    - RV(plan.hash) is also empty while a finding blocks a part of the plan, since the whole cannot be approved then.
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
status:
  description:
    - C(binding) has the form of RV(edge_portal.cilium_mesh.mesh_connect#module:status); it is null where the links were not measured.
    - Of each kind of item there is a list, by the name that it has in O(mesh), with a row per item in the order of O(mesh), in the form of
      the status of its custom resource with C(name).
  returned: always
  type: dict
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
