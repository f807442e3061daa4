# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_gather
version_added: 0.1.0
short_description: Make one archive for a bug report, without secrets
description:
  - Reads the clusters of a mesh, runs the checks, measures the links, and packs what it found into one C(.tar.gz) file on the controller.
  - No key, no token and no value of a Secret is in it. C(MANIFEST.md) in the archive lists every file, why it is there, from which objects
    it was made, and how many values were removed; C(MANIFEST.json) says where in the file, and by which rule.
  - A cluster that does not answer, and a part that cannot be read, is named in the manifest, and the archive is made without it.
  - Reads, and writes nothing to a cluster. The archive is written in check mode too.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.report
options:
  path:
    description:
      - File on the controller for the archive, which has the mode 0600. A relative path starts where Ansible was started. Without it the
        file is named after the mesh and the time, and is written there.
    type: str
  results:
    description:
      - Files with results of earlier runs, such as C(mesh_result) as JSON, or the output of a run as text. They are redacted too.
    type: list
    elements: str
    default: []
  operator_log:
    description:
      - File with the log of mesh-operator, of which at most the last four mebibytes are kept. It is redacted too.
    type: str
  pseudonyms:
    description:
      - Replace the names of the mesh, its clusters, nodes, pods, namespaces, global services and hosts, and all addresses, by pseudonyms.
        The same name has the same pseudonym in the whole archive. Which is which stands in a file beside the archive, C(.names.json),
        which is yours alone.
    type: bool
    default: false
  pseudonym_file:
    description:
      - File with a text of at least 16 bytes that only you know. Archives that are made with the same text have the same pseudonyms. It
        implies O(pseudonyms).
    type: str
  max_mebibytes:
    description:
      - Size of all files together before they are compressed. Files that do not fit are left out, and the manifest names them. From V(1)
        to V(1024).
    type: int
    default: 64
  proof:
    description:
      - How the links are measured, as for M(edge_portal.cilium_mesh.mesh_status). V(auto) makes new connections, V(readers) lets the
        readers make them, and V(none) reads their status alone.
    type: str
    choices: [auto, readers, none]
    default: auto
"""

EXAMPLES = r"""
- name: Make an archive for a bug report
  edge_portal.cilium_mesh.mesh_gather:
    mesh: "{{ cilium_mesh }}"
    pseudonyms: true
  run_once: true
"""

RETURN = r"""
archive:
  description: The archive that was made.
  returned: when it was made
  type: dict
  contains:
    path:
      description: Absolute path of the archive on the controller.
      type: str
    bytes:
      description: Its size.
      type: int
    pseudonyms:
      description: Whether names and addresses are pseudonyms.
      type: bool
    files:
      description: Path, bytes, and number of removed values of each file; and C(cutBytes), how many bytes did not fit.
      type: list
      elements: dict
    missing:
      description: What could not be read, with C(cluster), C(what) and C(reason).
      type: list
      elements: dict
    leftOut:
      description: Files for which the archive had no room, with C(path), C(what) and C(bytes).
      type: list
      elements: dict
findings:
  description: Clusters that did not answer. The findings of the checks are in the archive.
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
