# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_verify
version_added: 0.1.0
short_description: Verify that clusters are fit for Cilium Cluster Mesh
description:
  - Observes every cluster and runs every check on each cluster, each pair and the mesh as a whole. Nothing is written.
  - Fails when a finding blocks, unless O(fail_on=never).
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.judgement
  - edge_portal.cilium_mesh._mesh.report
options:
  purpose:
    description:
      - What the clusters are to be fit for.
      - V(connect) is to be connected, or to stay connected, as O(mesh).
      - V(disconnect) is to be taken apart; hardly anything stands against that.
      - V(cluster) looks at each cluster by itself. One cluster is enough, and C(--limit) may choose among the members.
    type: str
    choices: [connect, disconnect, cluster]
    default: connect
  fail_on:
    description:
      - Whether the task fails when a finding blocks.
    type: str
    choices: [blocking, never]
    default: blocking
"""

EXAMPLES = r"""
- name: May these clusters be connected?
  edge_portal.cilium_mesh.mesh_verify:
    mesh: "{{ cilium_mesh }}"
  run_once: true

- name: Collect the findings of each cluster by itself
  edge_portal.cilium_mesh.mesh_verify:
    purpose: cluster
    fail_on: never
    report: false
  register: verified
  run_once: true

- name: Nothing but certificates needs attention
  ansible.builtin.assert:
    that: verified.findings | rejectattr("code", "match", "CM-CERT-") | length == 0
  run_once: true
"""

RETURN = r"""
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
      description: One of V(blocking), V(remediable) and V(advisory).
      type: str
    accepted:
      description: Whether the code was listed in O(accept).
      type: bool
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
  description: Inventory names of the clusters that were looked at.
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
