# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_ca
version_added: 0.1.0
short_description: Report and renew the trust of a mesh, and give clusters another CA without a dropped link
description:
  - With O(state=reported) it reports for each link which CA it trusts, by what, and until when. Nothing is written.
  - With O(state=renewed) it renews what is near its end or was changed by the peer, and writes nothing else. Readers connect anew without a
    restart.
  - With O(state=rolled) each named cluster gets a new CA, in stages. All members trust both CAs before one shows a certificate of the
    new one, and the old one is dropped last. Every stage is proven on every member before the next begins.
  - With O(state=shared) the same is done with the CA of one member, so that all have the same.
  - A roll keeps its stage in an annotation of Secret C(cilium-ca). It may be killed at any point, from any controller; the same task goes
    on. It holds, and the task fails, when a member does not answer or a proof is missing in time; every link goes on meanwhile.
  - A roll writes Secrets that belong to Helm, certgen or cert-manager, each only in the version that was read. It restarts Deployment
    C(clustermesh-apiserver) twice, pod by pod.
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
  - edge_portal.cilium_mesh._mesh.silence
  - edge_portal.cilium_mesh._mesh.certificates
  - edge_portal.cilium_mesh._mesh.parallel
options:
  state:
    description:
      - The state to reach.
    type: str
    choices: [reported, renewed, rolled, shared]
    default: reported
  clusters:
    description:
      - With O(state=rolled), the members that get a new CA. Empty means all. Members that share a CA now, and are rolled together, share
        the new one.
      - A roll that has left its first stage goes on with the members that it began with.
    type: list
    elements: str
    default: []
  source:
    description:
      - With O(state=shared), the member whose CA the others take.
    type: str
    default: ""
  confirm:
    description:
      - With O(state=shared), the name of the mesh. The CA's private key is copied into every member, and each of them can then speak for
        each.
    type: str
    default: ""
  stage:
    description:
      - The stage that a roll stops after. Run it again with a later one to go on.
      - V(prepare) stores the next CA, V(trust) makes every reader trust both, V(clients) issues the certificates that are shown to servers,
        V(leaves) those that servers show, V(drop) removes the old CA.
    type: str
    choices: [prepare, trust, clients, leaves, drop]
    default: drop
  ca_days:
    description:
      - Days that a new CA is valid.
      - More than O(renew_before_days). From V(2) to V(7300).
    type: int
    default: 1095
  wait_timeout:
    description:
      - Seconds after which a stage that is not proven holds the roll. A changed Secret takes up to two minutes to reach the pods.
      - From V(0) to V(86400).
    type: int
    default: 300
attributes:
  diff_mode:
    support: full
    details:
      - Keys never appear, and new certificates as where they come from.
  idempotent:
    support: partial
    details:
      - Each finished run with O(state=rolled) is followed by another roll when it is run again. All other states change nothing then.
seealso:
  - module: edge_portal.cilium_mesh.mesh_connect
"""

EXAMPLES = r"""
- name: Report which CA each link trusts, and until when
  edge_portal.cilium_mesh.mesh_ca:
    mesh: "{{ cilium_mesh }}"
  register: ca
  run_once: true

- name: No link ends within 30 days
  ansible.builtin.assert:
    that: ca.trust.pairs | selectattr("due") | list | length == 0
  run_once: true

- name: Renew what is near its end
  edge_portal.cilium_mesh.mesh_ca:
    mesh: "{{ cilium_mesh }}"
    state: renewed
  run_once: true

- name: A new CA for one cluster
  edge_portal.cilium_mesh.mesh_ca:
    mesh: "{{ cilium_mesh }}"
    state: rolled
    clusters: [cluster-ber-2]
  run_once: true

- name: One CA for all
  edge_portal.cilium_mesh.mesh_ca:
    mesh: "{{ cilium_mesh }}"
    state: shared
    source: cluster-ffm-1
    confirm: edge-mesh-eu
  run_once: true
"""

RETURN = r"""
trust:
  description: What each link depends on, as it is after the task.
  returned: always
  type: dict
  contains:
    clusters:
      description: A row per member, with its CA, who issues its certificates, when the first of them ends and when they are renewed next.
      type: list
      elements: dict
    pairs:
      description: >-
        A row per ordered pair, with the trust mode, the user, the certificates, which of them ends first, and when ours is renewed.
      type: list
      elements: dict
roll:
  description: Where a roll is.
  returned: with O(state=rolled) and O(state=shared)
  type: dict
  contains:
    stage:
      description: The stage that it is in, empty when it is over.
      type: str
    clusters:
      description: Members whose CA is rolled.
      type: list
      elements: str
    stages:
      description: All stages, each with C(stage), C(what) and C(state), which is V(done), V(now) or V(later).
      type: list
      elements: dict
    waits:
      description: What is not proven yet, each with C(cluster) and C(text).
      type: list
      elements: dict
    held:
      description: Whether it holds.
      type: bool
plan:
  description: What was written, or in check mode would be next. Empty with O(state=reported).
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
  description: What speaks against it, or holds it.
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
