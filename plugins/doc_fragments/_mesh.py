# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several actions share: name, type, default, choices and text, each in one place.

``python -m tests.testing.options --write`` makes from them, and from the modules, what the actions accept (plugin_utils/arguments.py), the
options and defaults of the roles, and docs/variables.md; a test holds that these are current.
"""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  mesh:
    description:
      - The mesh, in the shape of the variable C(cilium_mesh). Its key C(binding) holds C(name), C(clusterRefs), C(topology) and
        C(meshConfig), as in the custom resource ClusterMeshBinding.
      - C(name) and C(clusterRefs) have to be said. Each entry of C(clusterRefs) names a host of the inventory; the text V(all) in place of
        the list says that every host of the play is a member.
      - C(topology) says which members are linked. C(mode) is V(FullMesh) (default), V(HubAndSpoke) with the list C(hubs), or V(Pairs) with
        the list C(pairs) of pairs of names.
    type: dict
requirements:
  - cryptography >= 42.0.0 on the controller
  - kubernetes >= 36.0.0 on the controller
  - PyYAML >= 6.0 on the controller
  - urllib3 >= 2.0.0 on the controller
  - websocket-client >= 1.6.0 on the controller
notes:
  - Every host of the play is a cluster. It is reached by its variables C(cilium_mesh_kubeconfig) (a path, or the kubeconfig itself) and
    C(cilium_mesh_context), by C(cilium_mesh_auth) (options of kubernetes.core), or by C(cilium_mesh_kubeconfig_from) (the Secret of a
    management cluster). It may have C(cilium_mesh_namespace) (default V(kube-system)), C(cilium_mesh_endpoint_override),
    C(cilium_mesh_endpoint_domains), C(cilium_mesh_endpoint_networks), C(cilium_mesh_denied_networks) and C(cilium_mesh_elb_id).
  - In a play on localhost, the clusters are the hosts of the inventory that C(clusterRefs) names. C(--limit) is refused there.
  - No result, message or warning holds a value of a Secret or of a kubeconfig.
seealso:
  - plugin: edge_portal.cilium_mesh.clusters
    plugin_type: inventory
"""

    JUDGEMENT = r"""
options:
  accept:
    description:
      - Codes of blocking findings that you know and accept. Only those whose documentation allows it can be named.
    type: list
    elements: str
    default: []
  trust:
    description:
      - How a cluster and its peer come to trust each other.
      - V(auto) takes the first that works for each ordered pair, in the order of the others here.
      - V(same_ca) relies on both having the same CA, and writes nothing.
      - V(minted) issues a client certificate with the peer's Cilium CA.
      - V(copied) copies the client certificate that the peer keeps for this purpose. It ends when the peer renews it.
    type: str
    choices: [auto, same_ca, minted, copied]
    default: auto
  node_addresses:
    description:
      - Which addresses of a peer's nodes are dialled, where its Service is of type NodePort.
    type: str
    choices: [InternalIP, ExternalIP]
    default: InternalIP
"""

    TRUST_MODE = r"""
options:
  trust:
    description:
      - How the reading cluster and the peer trust each other.
      - With V(same_ca) the files come from the cluster's own remote certificate.
      - With V(minted) and V(copied) they are the keys C(<peer>.etcd-client-ca.crt), C(<peer>.etcd-client.crt) and
        C(<peer>.etcd-client.key) of the same Secret.
    type: str
    choices: [same_ca, minted, copied]
    default: same_ca
"""

    REPORT = r"""
options:
  report:
    description:
      - Print findings, plan and status as tables while the task runs.
    type: bool
    default: true
"""

    BREADTH = r"""
options:
  max_failures:
    description:
      - How many members may fail. Failing is not to answer, or to refuse a write.
      - Without it, members that the mesh already holds and that are down do not stop the run. What was written for them stays, their links
        are degraded, and the others are connected. A member that was never connected and does not answer stops it; nothing is written.
      - With a number, so many members of either kind may be silent. With more, nothing is written. When more than that have failed while
        the plan is carried out, no further wave of it is begun. A run with a failed write fails.
      - When disconnecting, members that do not answer never stop the run.
      - A run in which a member did not answer fails in the end, unless this number allows as many. Members that C(--limit) leaves out, and
        hosts with C(cilium_mesh_unavailable), do not count there.
      - From V(0) to V(511).
    type: int
"""

    SILENCE = r"""
options:
  max_failures:
    description:
      - How many members may be silent without the task failing. Without it, none may. Members that C(--limit) leaves out, and hosts with
        C(cilium_mesh_unavailable), do not count.
      - From V(0) to V(511).
    type: int
"""

    CHANGES = r"""
options:
  fail_on_changes:
    description:
      - In check mode, fail where the plan has steps, with the number of them. A pipeline can so tell changes from nothing to do by the
        exit status. Without check mode it has no effect.
    type: bool
    default: false
"""

    PARALLEL = r"""
options:
  parallel:
    description:
      - How many clusters are contacted at a time.
      - From V(1) to V(511).
    type: int
    default: 10
"""

    LOCK = r"""
options:
  lock_timeout:
    description:
      - Seconds to wait while another run is at work on the mesh. When it has ended, everything is observed and planned anew.
      - Without it the task does not wait. It fails with finding C(CM-LOCK-01), which says who is at work, since when and where.
      - From V(0) to V(86400).
    type: int
  lock_duration:
    description:
      - Seconds after which other runs may go on when this one was killed. A run that lives renews its lock three times in this time.
        Without it the seconds are 30.
      - From V(5) to V(3600).
    type: int
  lock_holder:
    description:
      - Who this run is, for the users of other runs while it holds the lock, for instance the number of an AWX job. Without it, the user
        and the host of the controller.
    type: str
"""

    CERTIFICATES = r"""
options:
  certificate_days:
    description:
      - Days that minted client certificates are valid.
      - More than O(renew_before_days). From V(1) to V(3650).
    type: int
    default: 365
  renew_before_days:
    description:
      - Minted certificates with fewer days left are issued anew.
      - From V(0) to V(3650).
    type: int
    default: 30
"""

    PLANNING = r"""
options:
  clusters:
    description:
      - When disconnecting, the members that leave. The others stay connected to each other. Empty means all.
    type: list
    elements: str
    default: []
  take_back:
    description:
      - Members that were taken out without their answer, and are back as another cluster, by name, id, CA or pod networks (finding
        C(CM-TOMB-01)). Name them to take them back all the same.
    type: list
    elements: str
    default: []
  repair:
    description:
      - Repair keys that this mesh wrote and that another writer changed since, and no others. Without it the finding C(CM-DRIFT-02)
        blocks. Keys that another writer wrote from the start are never touched.
    type: bool
    default: false
"""

    WAITING = r"""
options:
  wait:
    description:
      - Wait until every link is ready, and fail when it is not. Without waiting RV(status) is not measured.
    type: bool
    default: true
  wait_timeout:
    description:
      - Seconds to wait. A changed Secret takes up to two minutes to reach the pods.
      - From V(0) to V(86400).
    type: int
    default: 300
"""

    PROOF = r"""
options:
  proof:
    description:
      - Which side proves a link by a new connection and a read of the peer's heartbeat, instead of relying on kvstoremesh, which notices a
        peer that is gone only after up to 130 seconds.
      - V(auto) are the readers of the link and, where it can reach the peer, the controller.
      - V(readers) are the readers of the link; the controller connects to no mesh endpoint.
      - V(none) proves nothing.
    type: str
    choices: [auto, readers, none]
    default: auto
"""

    PREVIOUS = r"""
options:
  previous_status:
    description:
      - C(mesh_result.status) of an earlier run, of which C(binding) counts here. Conditions that have not changed keep their
        C(lastTransitionTime), a link that cannot be proven keeps its last proof, and a mesh that was connected and lost all its links is
        V(Degraded) and not V(Connecting).
    type: dict
"""

    EXPECTED = r"""
options:
  expected:
    description:
      - The phase without which the task fails; V(any) never fails on a phase.
    type: str
    choices: [Connected, any]
    default: any
"""

    ITEMS = r"""
options:
  state:
    description:
      - V(present) carries out the items of O(mesh), and prunes the objects of items that are no longer in it. Where a list is
        absent, nothing of its kind is touched; an empty list prunes all objects of its kind. While an item is refused or waits, nothing of
        its kind is pruned, as that item may be a replacement (finding C(CM-ITEM-05)).
      - V(absent) prunes all objects that items of these kinds made, whatever O(mesh) lists. It needs no connected mesh, and clusters
        that do not answer are left as they are.
    type: str
    choices: [present, absent]
    default: present
  require_connected:
    description:
      - Let items wait while the mesh is not in phase V(Connected) or V(Degraded). They are then V(Pending), and the task fails.
    type: bool
    default: true
  binding_status:
    description:
      - The status of the mesh, as an earlier task of the same run measured it, for instance
        RV(edge_portal.cilium_mesh.mesh_connect#module:status). Without it, the links are measured.
    type: dict
  previous_status:
    description:
      - RV(status) of an earlier run. Conditions that have not changed keep their C(lastTransitionTime).
    type: dict
"""

    ITEMS_RUN = r"""
options:
  former:
    description:
      - Hosts of the play that are no members any more. All objects of items there are pruned. Clusters to which members still hold links
        are found without being named.
    type: list
    elements: str
    default: []
  probe_image:
    description:
      - Image of the Job that probes an intent, where the intent names none. When it is empty, no Job is made for such intents.
    type: str
    default: ""
  hash:
    description:
      - Hash of the plan that was approved, whole or at least its first 12 digits. When the fresh plan has another one, nothing is written
        and the task fails with finding C(CM-PLAN-01).
      - A plan with items that are refused or wait takes O(approve_refused), too.
    type: str
    default: ""
  approve_refused:
    description:
      - Items that the approved plan may leave out because they are refused or wait, as C(connectivityIntents/NAME). It has an effect only
        together with O(hash), which says nothing about what such items ask for. If an item is left out that is not named here, nothing is
        written and the task fails with finding C(CM-PLAN-02).
    type: list
    elements: str
    default: []
  accept_incomplete:
    description:
      - Items that do not have to be as asked after the run, as C(globalServices/NAME), or V(all). Without it, the task fails when an item
        that was accepted is in phase V(Error), V(Degraded) or V(Pending). What can be written is written either way.
      - An item that only members keep from being as asked that did not answer is judged by O(max_failures) alone.
    type: list
    elements: str
    default: []
"""

    IDENTITIES = r"""
options:
  names:
    description:
      - What certain clusters are to have, as a mapping of inventory name to C(name) and C(id), each optional.
      - Without it a cluster gets its inventory name, made valid if need be, and the lowest id that is free.
    type: dict
    default: {}
  quarantine_hours:
    description:
      - Hours for which an id that was given up is not handed out again.
      - From V(0) to V(8760).
    type: float
    default: 24.0
"""

    ITEMS_BREADTH = r"""
options:
  max_failures:
    description:
      - How many members may fail. Failing is not to answer, to refuse our credentials, or to go down while it is written.
      - Without it, members that are down do not stop the run, as long as one answers; items are V(Degraded), and their status names those
        members. A member that answers with a refusal stops it, and nothing is written.
      - With a number, so many members of either kind may fail. With more, nothing is written, or no further wave is begun.
      - A write that is refused for one object is no failure of the cluster. It degrades its item alone, and the task fails.
      - A run in which a member did not answer fails in the end, unless this number allows as many. Members that C(--limit) leaves out, and
        hosts with C(cilium_mesh_unavailable), do not count there.
      - From V(0) to V(511).
    type: int
  parallel:
    description:
      - How many clusters are spoken to, and how many items are written, at a time.
      - From V(1) to V(511).
    type: int
    default: 10
"""

    FLEET = r"""
options:
  fleet:
    description:
      - The fleet of one tenant. C(workspace) and C(namespace) (default V(default)) say whose it is; C(karmada) is the host of the
        inventory that is the API server of Karmada.
      - C(clusters) is a list, as of M(edge_portal.cilium_mesh.karmada_cluster). C(fleets), C(placementPolicies) and C(workloads) are lists
        of objects, each with a C(name) and the spec of the custom resource Fleet, PlacementPolicy or FleetWorkload.
      - C(connected) is a mapping of a ClusterMeshBinding to the names of its connected clusters, for placements that ask for them.
    type: dict
    required: true
"""

    ROUNDS = r"""
options:
  wait:
    description:
      - Wait until every workload is as wanted, through all waves of its rollout. Without it a run makes one transition, and the next run
        goes on.
    type: bool
    default: true
  wait_timeout:
    description:
      - Seconds for all workloads together.
      - From V(0) to V(86400).
    type: int
    default: 600
  parallel:
    description:
      - How many writes are made at a time.
      - From V(1) to V(511).
    type: int
    default: 10
"""

    REGISTERED = r"""
options:
  links:
    description:
      - Names of the variables in which the result of the connections may have been registered, that of
        M(edge_portal.cilium_mesh.mesh_connect) for instance. The first that holds a result counts; a task that was skipped has none.
    type: list
    elements: str
    default: []
  items:
    description:
      - The same of the items, that of M(edge_portal.cilium_mesh.mesh_items) for instance.
    type: list
    elements: str
    default: []
  more:
    description:
      - Names of the variables in which results of further actions of this collection are registered.
    type: list
    elements: str
    default: []
"""
