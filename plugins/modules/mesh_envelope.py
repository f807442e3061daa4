# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_envelope
version_added: 0.1.0
short_description: Compare a mesh with the limits of Cilium, and say what one more cluster does
description:
  - Says of each cluster how much of each limit is used and left. The limits are clusters, identities, nodes with IPsec, the ipcache, the
    load balancer, the Secrets with the peers, the mesh etcd, and nodes. Each has its source.
  - Works out the same with one more cluster, and how many more of that size fit.
  - Counts the keys and watches of each mesh etcd, for which no limit is documented.
  - Reads, and writes nothing.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh
  - edge_portal.cilium_mesh._mesh.report
options:
  one_more:
    description:
      - Size of a cluster that may join. What is left out is as in the largest member.
    type: dict
    suboptions:
      nodes:
        description: Number of its nodes.
        type: int
      identities:
        description: Number of its security identities.
        type: int
      endpoints:
        description: Number of its pods that Cilium manages.
        type: int
      services:
        description: Number of global services that it exports.
        type: int
      backends:
        description: Number of entries that its global services add to the load balancer of each other cluster.
        type: int
  fail_at:
    description:
      - The task fails if a limit is used to this percentage or more, with one more cluster where its size is known, or if a number is not
        known. Without it the task does not fail for a number. From V(1) to V(100).
    type: int
"""

EXAMPLES = r"""
- name: May a cluster of 200 nodes join?
  edge_portal.cilium_mesh.mesh_envelope:
    mesh: "{{ cilium_mesh }}"
    one_more: {nodes: 200, endpoints: 12000, identities: 800}
    fail_at: 90
  run_once: true
"""

RETURN = r"""
envelope:
  description: The use of each limit in each cluster, now and with one more cluster; see docs/envelope.md.
  returned: when the envelope was worked out
  type: dict
  contains:
    rows:
      description: A row per limit and cluster, the fullest first.
      type: list
      elements: dict
    limits:
      description: The limits by name, each with its title, source, consequence and remedy.
      type: dict
    loads:
      description: Keys, watches and connections of each mesh etcd.
      type: list
      elements: dict
    newcomer:
      description: The size of the cluster that may join; null if it is not known.
      type: dict
    newcomerRows:
      description: Limits of that cluster itself.
      type: list
      elements: dict
    moreClusters:
      description: How many more clusters of that size fit, by the limits whose use is known.
      type: int
    unread:
      description: Clusters of which numbers could not be read, with the reasons.
      type: list
      elements: dict
    unknown:
      description: Members of which nothing is known, with the reason.
      type: list
      elements: dict
findings:
  description: Clusters that did not answer.
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
