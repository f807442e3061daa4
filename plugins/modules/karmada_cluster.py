# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: karmada_cluster
version_added: 0.1.0
short_description: Make clusters members of Karmada, renew their tokens, or let them leave
description:
  - A cluster joins in push mode by plain API calls. In the cluster it gets accounts and rights of Karmada's controllers, in Karmada a
    Cluster, and Secrets with tokens that end. C(karmadactl) is not needed.
  - With C(managementPlane) in O(fleet), the Cluster of the management plane is made first, and a cluster joins when that is ready.
  - A cluster that is a member already keeps its tokens until O(renew_before_hours) before their end.
  - With O(state=absent) clusters leave. Nothing of Karmada stays in them; what local users put into the tenant's namespace does. A cluster
    in which workloads of the tenant are placed is refused.
  - Clusters do not depend on each other. One that is refused or fails keeps no other one from being written; the task fails in the end.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._attributes.action_group
  - edge_portal.cilium_mesh._mesh.report
  - edge_portal.cilium_mesh._mesh.changes
  - edge_portal.cilium_mesh._mesh.parallel
options:
  fleet:
    description:
      - The fleet of one tenant. C(workspace) and C(namespace) (default V(default)) say whose it is; C(karmada) is the host of the
        inventory that is Karmada's API server, C(managementPlane) the one that makes clusters, with their Clusters in
        C(managementNamespace) (default V(default)).
      - C(clusters) is a list. Each entry has a C(name), the C(host) of the inventory (default, the name), C(provider), C(region), C(zone),
        the C(labels) of the tenant, and the C(spec) of the KubernetesCluster for the management plane.
      - Keys that belong to workloads are not read here.
    type: dict
    required: true
  state:
    description:
      - V(present) joins, and renews what ends soon. V(absent) lets the clusters leave.
    type: str
    choices: [present, absent]
    default: present
  clusters:
    description:
      - Names of the clusters of O(fleet) to which the run is limited. Without it, all of them.
    type: list
    elements: str
    default: []
  token_hours:
    description:
      - Hours for which new tokens are valid. The API server of the cluster may grant less.
      - Karmada up to 1.18 uses the token with which it began until karmada-controller-manager restarts, so that a token has to outlive the
        time between two restarts. With Karmada 1.19 use V(720), and V(240) as O(renew_before_hours).
      - From V(1) to V(8760). More than O(renew_before_hours).
    type: int
    default: 8760
  renew_before_hours:
    description:
      - Hours before their end at which tokens are renewed. Tokens that live no longer than that are renewed in the last third of their
        life.
      - From V(0) to V(8759).
    type: int
    default: 720
  wait:
    description:
      - Wait until the management plane has made the clusters, until Karmada reports them as ready, and until nothing is left of those
        that leave. Without it, the next run goes on where this one ended.
    type: bool
    default: true
  wait_timeout:
    description:
      - Seconds to wait for each of them; when clusters leave, for everything together.
      - From V(0) to V(86400).
    type: int
    default: 300
  deadline:
    description:
      - Seconds for which a cluster that is to leave and does not answer is waited for, from the first run that finds it silent. Then it
        leaves without being cleaned, and a ConfigMap in Karmada says what is left in it.
      - From V(0) to V(2592000).
    type: int
    default: 3600
  abandon:
    description:
      - Names of clusters that are to leave at once although they do not answer. What Karmada would wait for in them for ever is given up,
        and the management plane is not waited for.
    type: list
    elements: str
    default: []
attributes:
  diff_mode:
    support: full
    details:
      - Tokens never appear.
  idempotent:
    support: full
    details:
      - A changed result means that something was written.
requirements:
  - cryptography >= 42.0.0 on the controller
  - kubernetes >= 36.0.0 on the controller
  - PyYAML >= 6.0 on the controller
  - urllib3 >= 2.0.0 on the controller
  - websocket-client >= 1.6.0 on the controller
notes:
  - Karmada, the management plane and each cluster are hosts of the inventory. They are reached by C(cilium_mesh_kubeconfig) (a path, or
    the kubeconfig itself) and C(cilium_mesh_context). Karmada gets the server and the CA of that kubeconfig, and no other credential
    of it.
  - No result, message or warning holds a value of a Secret or of a kubeconfig.
"""

EXAMPLES = r"""
- name: Make two clusters members of Karmada
  edge_portal.cilium_mesh.karmada_cluster:
    fleet:
      workspace: shop
      karmada: karmada
      clusters:
        - name: cluster-ffm-1
          provider: otc
          region: eu-de
          labels:
            tier: edge
        - name: cluster-ber-2
          region: eu-nl
  run_once: true

- name: Let one of them leave, although it does not answer any more
  edge_portal.cilium_mesh.karmada_cluster:
    fleet: "{{ fleet }}"
    state: absent
    clusters: [cluster-ber-2]
    abandon: [cluster-ber-2]
  run_once: true
"""

RETURN = r"""
clusters:
  description: The status of each cluster. Those that have left completely are not there.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the KubernetesCluster.
      type: str
    member:
      description: Its name in Karmada.
      type: str
    phase:
      description: One of V(Pending), V(Provisioning), V(Joining), V(Ready), V(Deleting) and V(Error).
      type: str
    conditions:
      description: Provisioned, Joined and Ready, in the form of Kubernetes.
      type: list
      elements: dict
    kubernetesVersion:
      description: Version of its API server, as Karmada reports it.
      type: str
    nodes:
      description: C(total) and C(ready), as Karmada reports them.
      type: dict
metrics:
  description: >-
    What each cluster has, as Karmada reports it. Of C(cpu), C(memory) and C(pods), what the nodes have for pods (C(allocatable)), what the
    pods on them request (C(requested)), and what those that wait for a node request (C(pending)).
  returned: always
  type: list
  elements: dict
  sample:
    - name: cluster-ffm-1
      time: '2026-11-24T08:00:00Z'
      memberReady: true
      nodes: {total: 3, ready: 3}
      cpu: {allocatable: '12', requested: 2500m, pending: '0'}
      memory: {allocatable: 48Gi, requested: 6Gi, pending: '0'}
      pods: {allocatable: '330', requested: '41', pending: '0'}
findings:
  description: What keeps clusters from joining, working or leaving, the blocking ones first.
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
  description: What is written, also in check mode.
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
