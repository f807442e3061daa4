# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_rbac
version_added: 0.1.0
short_description: Print, write or withdraw the rights that an account needs in the clusters of a mesh
description:
  - Makes the RBAC objects that give an account exactly the rights that functions of this collection need for this mesh, with the reason of
    each rule. Secrets are never listed, and each is named.
  - What decides whether a right is needed is read in each cluster first, such as the version of Cilium. Of a cluster where that cannot be
    read, the manifest has every rule that may be needed, each with the circumstance in which it is.
  - Needs the rights of an administrator to write. RBAC lets a user grant only what that user has.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.report
options:
  state:
    description:
      - V(printed) prints the manifests, and writes to no cluster.
      - V(present) writes the objects, and withdraws those that an earlier run of the same name made and that are no longer needed.
      - V(absent) withdraws them all. A ServiceAccount is never deleted, as others may use it.
    type: str
    choices: [printed, present, absent]
    default: printed
  functions:
    description:
      - Functions that the account is to have; docs/rbac.md says which playbooks belong to each.
    type: list
    elements: str
    choices: [verify, status, connect, identity, items, explain, ca, all]
    default: [all]
  account:
    description:
      - Account that gets the rights.
    type: dict
    suboptions:
      kind:
        description: Kind of the account. A ServiceAccount is made where it does not exist.
        type: str
        choices: [ServiceAccount, User, Group]
        default: ServiceAccount
      name:
        description: Its name.
        type: str
        default: cilium-mesh
      namespace:
        description: Namespace of a ServiceAccount. Without it, that of Cilium.
        type: str
  name:
    description:
      - Name of the roles and bindings. Without it, that of the leases of the mesh, C(cilium-mesh-OWNER). Two accounts of one mesh need two
        names.
    type: str
  item_namespaces:
    description:
      - Namespaces in which items may be written. Without it, in all. Policies of the mode V(Clusterwide) cannot be written with it.
    type: list
    elements: str
    default: []
  folder:
    description:
      - Folder on the controller into which the manifest of each cluster is written, as C(NAME.yaml). For the state V(printed). The files
        are written in check mode too.
    type: str
attributes:
  diff_mode:
    support: full
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Print what an account needs that only looks
  edge_portal.cilium_mesh.mesh_rbac:
    mesh: "{{ cilium_mesh }}"
    functions: [verify, status]
  run_once: true

- name: Give a ServiceAccount what connecting needs
  edge_portal.cilium_mesh.mesh_rbac:
    mesh: "{{ cilium_mesh }}"
    functions: [connect]
    state: present
  run_once: true
"""

RETURN = r"""
rbac:
  description: The rights.
  returned: when they were decided
  type: dict
  contains:
    manifests:
      description: Each manifest as YAML in C(manifest), and in C(clusters) the hosts for which it is.
      type: list
      elements: dict
plan:
  description: What is written; nothing with O(state=printed).
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
findings:
  description: Clusters that did not answer, and objects of the wanted names that are not of this mesh.
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
