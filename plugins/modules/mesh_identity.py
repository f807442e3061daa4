# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_identity
version_added: 0.1.0
short_description: Verify the names and ids of clusters in a mesh, or give some to clusters that were never meshed
description:
  - Every cluster of a mesh needs a Cilium cluster name and id of its own. The leases of these names and ids are kept in a
    ConfigMap of every member, so that any member can restore it. M(edge_portal.cilium_mesh.mesh_connect) writes it.
  - With O(identity_policy=verify) it is compared with what runs, and nothing is written.
  - With O(identity_policy=assign) clusters that were never meshed get a name and the lowest id that is free and legal for them. The lease
    goes on record with a majority of the members first, so that two controllers end with two ids; then C(cilium-config) and the
    certificates that carry the name are written, and Cilium's operator, its agents and clustermesh-apiserver are restarted, each when the
    one before has rolled out; then it is proven.
  - A cluster that is or may have been in a mesh is never renumbered. The task fails with a recipe, and nothing is written anywhere.
  - An assignment that stops on its way goes on where it stopped when it is run again.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.lock
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
  - edge_portal.cilium_mesh._mesh.silence
  - edge_portal.cilium_mesh._mesh.identities
options:
  identity_policy:
    description:
      - V(verify) reports, V(assign) gives names and ids to clusters that were never meshed.
    type: str
    choices: [verify, assign]
    default: verify
  wait:
    description:
      - Wait for each rollout. Without it every run goes as far as it can without waiting.
    type: bool
    default: true
  wait_timeout:
    description:
      - Seconds for all rollouts together.
      - From V(0) to V(86400).
    type: int
    default: 600
attributes:
  diff_mode:
    support: full
    details:
      - Keys of new certificates never appear.
  idempotent:
    support: full
    details:
      - A changed result means that something was written.
seealso:
  - module: edge_portal.cilium_mesh.mesh_connect
"""

EXAMPLES = r"""
- name: Are the names and ids fit for a mesh, and does no cluster get a new id?
  edge_portal.cilium_mesh.mesh_identity:
    mesh: "{{ cilium_mesh }}"
  run_once: true

- name: Give the new clusters a name and an id
  edge_portal.cilium_mesh.mesh_identity:
    mesh: "{{ cilium_mesh }}"
    identity_policy: assign
    names:
      cluster-ber-2:
        name: ber2
        id: 12
  run_once: true
"""

RETURN = r"""
identities:
  description: What becomes of each cluster that answered.
  returned: always
  type: list
  elements: dict
  contains:
    host:
      description: Inventory name.
      type: str
    verdict:
      description: One of V(leased), V(adopt), V(assign), V(resume) and V(refuse).
      type: str
    name:
      description: The cluster name that it has or is to have.
      type: str
    id:
      description: The cluster id that it has or is to have, null where there is none for it.
      type: int
    reasons:
      description: Why.
      type: list
      elements: str
    recipe:
      description: With V(refuse), the steps by which a person gets it another name and id.
      type: list
      elements: str
leases:
  description: The registry, merged over the copies of all members that answered.
  returned: always
  type: list
  elements: dict
  sample:
    - host: cluster-ffm-1
      name: ffm1
      id: 1
      uid: 0b7cf2a4-6c3e-4b46-9d0a-2f2f0a5b8c11
      ca: ''
      podCidrs: [10.1.0.0/16]
      state: active
      since: ''
      serial: 1
proofs:
  description: After an assignment, what proves that each cluster runs the name and id that it was given.
  returned: always
  type: list
  elements: dict
  contains:
    host:
      description: Inventory name.
      type: str
    evidence:
      description: What was seen.
      type: list
      elements: str
    doubts:
      description: What speaks against it.
      type: list
      elements: str
findings:
  description: What speaks against the names and ids, the blocking ones first.
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
  description: What is written with O(identity_policy=assign), also in check mode.
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
