# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_plan
version_added: 0.1.0
short_description: Plan to connect or disconnect clusters, without writing to any
description:
  - Observes the clusters, verifies them, and decides every write that M(edge_portal.cilium_mesh.mesh_connect) would make, in its order.
  - Each step names its reason, what it disrupts and how to undo it. The hash over all of it stands for the plan;
    M(edge_portal.cilium_mesh.mesh_apply) carries out the plan with that hash and no other.
  - Nothing is written to any cluster. The task fails when a finding blocks. It fails when there is something to do only with
    O(fail_on_changes), also without check mode.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.judgement
  - edge_portal.cilium_mesh._mesh.planning
  - edge_portal.cilium_mesh._mesh.breadth
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
  - edge_portal.cilium_mesh._mesh.certificates
  - edge_portal.cilium_mesh._mesh.parallel
options:
  purpose:
    description:
      - Whether to plan the connection of the clusters, or its removal.
    type: str
    choices: [connect, disconnect]
    default: connect
  plan_text:
    description:
      - File on the controller that gets the plan as text, as it is printed. Not written in check mode.
      - The file is replaced as a whole. Its folder has to exist.
    type: str
    default: ""
  plan_json:
    description:
      - As O(plan_text), with the whole plan as JSON, for O(edge_portal.cilium_mesh.mesh_apply#module:plan).
    type: str
    default: ""
  plan_markdown:
    description:
      - As O(plan_text), with the plan as Markdown, for a pull request.
    type: str
    default: ""
attributes:
  diff_mode:
    support: full
    details:
      - Values of Secrets appear as digests, and new ones as where they come from.
  idempotent:
    support: full
    details:
      - The task is never changed. Files that O(plan_text), O(plan_json) and O(plan_markdown) name do not count.
seealso:
  - module: edge_portal.cilium_mesh.mesh_apply
  - module: edge_portal.cilium_mesh.mesh_connect
  - plugin: edge_portal.cilium_mesh.plan_markdown
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Plan the mesh, and keep the plan for a pull request
  edge_portal.cilium_mesh.mesh_plan:
    mesh: "{{ cilium_mesh }}"
    plan_json: "{{ playbook_dir }}/plan.json"
    plan_markdown: "{{ playbook_dir }}/plan.md"
  register: planned
  run_once: true

- name: Show by which hash the plan can be applied
  ansible.builtin.debug:
    var: planned.plan.hash
  run_once: true

- name: What would it take to take one cluster out?
  edge_portal.cilium_mesh.mesh_plan:
    mesh: "{{ cilium_mesh }}"
    purpose: disconnect
    clusters: [cluster-ber-2]
  run_once: true
"""

RETURN = r"""
plan:
  description: What was decided, step by step.
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
files:
  description: The files that were asked for, as they were named.
  returned: when nothing blocks
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
