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
  - Opens a TLS connection from the controller to every address of every mesh endpoint, and verifies the server there as the peers will.
    An address that the controller cannot reach is only an advisory finding.
  - Fails when a finding blocks, unless O(fail_on=never). A member that does not answer blocks, unless O(max_failures) allows as many.
  - Without O(mesh) every host of the play is checked, as before a mesh exists, and the task says so.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.judgement
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.silence
options:
  purpose:
    description:
      - The purpose that the clusters are checked for.
      - V(connect) checks that they can be connected, or stay connected, as O(mesh).
      - V(disconnect) checks that they can be disconnected; few findings block that.
      - V(cluster) checks each cluster by itself. One cluster is enough, and C(--limit) may choose among the members.
    type: str
    choices: [connect, disconnect, cluster]
    default: connect
  claims:
    description:
      - With O(purpose=connect), read the peer records of each cluster (nodes, addresses, identities) from its mesh etcd, with the
        credentials of the links that exist, and compare them with the cluster. At most 5000 keys of each kind are read.
      - The controller has to reach the mesh endpoints, and needs the Python packages C(grpcio) and C(protobuf).
    type: bool
    default: false
  fail_on:
    description:
      - Whether the task fails when a finding blocks.
    type: str
    choices: [blocking, never]
    default: blocking
  probe:
    description:
      - Whether to prove each mesh endpoint by a TLS handshake from the controller. No client certificate is shown, and nothing is sent.
      - Not done with O(purpose=disconnect).
    type: bool
    default: true
  probe_timeout:
    description:
      - Seconds for the connection to an address, and as many for the handshake.
      - From V(0.1) to V(60).
    type: float
    default: 3.0
  junit:
    description:
      - Path of a file for a JUnit report, with a suite per cluster, one for the pairs and one for the mesh, and a case per check. Only
        findings that block are failures.
      - A relative path starts in the folder in which Ansible was started. The folder of the file has to exist. A file that is there is
        replaced in one step, in check mode too, and also when the run ends by an error.
    type: path
  json:
    description:
      - Path of a file for the findings, RV(eligibility) and RV(probes) as JSON. As for O(junit).
    type: path
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

- name: Tell a CI system, and judge by the report alone
  edge_portal.cilium_mesh.mesh_verify:
    mesh: "{{ cilium_mesh }}"
    fail_on: never
    junit: reports/mesh.xml
    json: reports/mesh.json
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
eligibility:
  description: By inventory name, what the findings say of each cluster.
  returned: when clusters were observed
  type: dict
  sample:
    cluster-ffm-1:
      eligible: true
      ready: false
      answer: observed
      blocking: [CM-EP-02]
      remedies: 0
probes:
  description: One TLS handshake per address of a mesh endpoint.
  returned: when clusters were observed
  type: list
  elements: dict
  contains:
    cluster:
      description: Inventory name of the cluster that should answer.
      type: str
    address:
      description: The address, or the DNS name where no address of it is known.
      type: str
    port:
      description: The port.
      type: int
    hostname:
      description: The name that peers dial, which the certificate has to cover.
      type: str
    outcome:
      description: One of V(proven), V(refuted) and V(unreachable). The last means that nothing is known.
      type: str
    verified:
      description: Whether the certificate chains to the cluster's CA, is valid, and covers RV(probes[].hostname).
      type: bool
    fingerprint:
      description: SHA-256 of the certificate that was shown, empty when none was seen.
      type: str
    error:
      description: Why the endpoint is not proven, in one line.
      type: str
    milliseconds:
      description: How long it took.
      type: int
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
