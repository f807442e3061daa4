# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The catalogue of findings: a row for every code that a finding can have.

A code is added here first. Checks and all other call sites name the code and the facts; severity, cure and scope come from its row. The
runbook page of a code is ``docs/runbooks/CODE.md``. The table in docs/verify.md, the headers of the pages and their index are written from
these rows by ``make findings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .finding import Cure, Scope, Severity

# By their names alone, so that a row is a line.
BLOCKING, OUTAGE, REMEDIABLE, ADVISORY = Severity
CLUSTER, PAIR, MESH, COMMON_PEER, CONNECTED, ITEM, FABRIC, RUN = Scope
LIVE, RESTART, REINSTALL = Cure


@dataclass(frozen=True)
class Row:
    """A row of the catalogue: what all findings of one code have in common."""

    code: str
    title: str  # what is wrong, without a full stop
    severity: Severity
    scope: Scope  # what a finding of this code is about; of a check also what its function is called with
    cure: Cure = Cure.LIVE
    acceptable: bool = False  # may the user accept it (turn blocking off) by listing its code?
    cases: Mapping[Severity, str] = field(default_factory=dict, compare=False)  # other severities that it can have, and in which case

    @property
    def family(self) -> str:
        """``CM-CIDR`` of ``CM-CIDR-01``."""
        return self.code.rpartition("-")[0]

    def severity_in(self, case: Severity | None) -> Severity:
        """Return ``case``, or the usual severity when it is None.

        :raises ValueError: the row does not list that case.
        """
        if case is None or case is self.severity:
            return self.severity
        if case not in self.cases:
            raise ValueError(f"the catalogue does not say that {self.code} can be {case.value}")
        return case


FAMILIES: Final[Mapping[str, str]] = {
    "CM-VER": "Versions of Cilium",
    "CM-INST": "The installation of Cilium",
    "CM-SVC": "The Service of clustermesh-apiserver",
    "CM-ELB": "Load balancers that clouds make",
    "CM-EP": "Mesh endpoints",
    "CM-PROBE": "Probes of mesh endpoints by the controller",
    "CM-NODE": "Nodes",
    "CM-NET": "Network settings",
    "CM-CIDR": "Address ranges",
    "CM-ENC": "Encryption",
    "CM-CFG": "Settings of Cilium that have to agree",
    "CM-MESH": "Agreement between members",
    "CM-SIZE": "Size of a mesh",
    "CM-KVM": "kvstoremesh",
    "CM-HUB": "Hubble",
    "CM-ID": "Cluster names and ids",
    "CM-LEASE": "Leases of names and ids",
    "CM-TOPO": "Topology",
    "CM-TRUST": "Trust between clusters",
    "CM-CERT": "Certificates",
    "CM-CA": "Certificate authorities",
    "CM-USER": "Users of the mesh etcd",
    "CM-RBAC": "Rights in the clusters",
    "CM-DIST": "Distributions of Kubernetes",
    "CM-LINK": "Links between clusters",
    "CM-DRIFT": "Drift",
    "CM-OWN": "Ownership of objects",
    "CM-TOMB": "Tombstones of disconnected clusters",
    "CM-WAIV": "Waivers of a binding",
    "CM-CLAIM": "Records that peers publish",
    "CM-FAB": "Fabrics",
    "CM-PLAN": "Plans",
    "CM-LOCK": "The lock of a mesh",
    "CM-ITEM": "Items of every kind",
    "CM-GS": "GlobalServices",
    "CM-INT": "ConnectivityIntents",
    "CM-REACH": "Probes of intents",
    "CM-EXPO": "ExposedServices",
    "CM-FLEET": "Workloads of a fleet",
    "CM-MEMBER": "Members of Karmada",
    "CM-API": "API servers",
    "CM-ENV": "The environment of the collection",
    "CM-INPUT": "Input",
    "CM-ERR": "Errors",
}
"""Family -> subject of its codes, in the order of the index of the runbooks."""

IMPACT_CODES: Final = ("CM-INT-30", "CM-INT-31", "CM-INT-32", "CM-INT-33")
"""What the writes of intents do to traffic; said before the first of them."""

_FAILURE_CASES: Final[Mapping[Severity, str]] = {
    REMEDIABLE: "where the run goes on without the cluster",
    ADVISORY: "where nothing depends on the cluster",
}
"""A failure blocks unless the caller can do without what failed."""

_ELSEWHERE: Final[Mapping[Severity, str]] = {REMEDIABLE: "where another cluster of the item can have it"}
_DENIES_NOTHING: Final[Mapping[Severity, str]] = {BLOCKING: "for action Deny, where a destination knows no source at all"}

_ROWS: Final = (
    # Versions of Cilium
    Row("CM-VER-01", "Versions differ by more than one minor", BLOCKING, CONNECTED, cure=RESTART, acceptable=True),
    Row("CM-VER-02", "The images of Cilium do not show its version", BLOCKING, CLUSTER, cure=RESTART, acceptable=True),
    Row(
        "CM-VER-03",
        "This release of the collection does not know the version of Cilium",
        BLOCKING,
        CLUSTER,
        cure=RESTART,
        acceptable=True,
    ),
    Row("CM-VER-04", "Agents and clustermesh-apiserver have different versions", REMEDIABLE, CLUSTER, cure=RESTART),
    # The installation of Cilium
    Row("CM-INST-01", "Cilium is not installed", BLOCKING, CLUSTER, cure=REINSTALL),
    Row("CM-INST-02", "clustermesh-apiserver is not installed", BLOCKING, CLUSTER, cure=RESTART),
    Row("CM-INST-03", "clustermesh-apiserver is not ready", REMEDIABLE, CLUSTER),
    Row("CM-INST-04", "Cilium agents are not ready", REMEDIABLE, CLUSTER),
    Row("CM-INST-05", "Agents do not read the configuration of peers", BLOCKING, CLUSTER, cure=RESTART),
    Row("CM-INST-06", "kvstoremesh does not read the configuration of peers", BLOCKING, CLUSTER, cure=RESTART),
    Row("CM-INST-07", "Pods of Cilium run with an older configuration", REMEDIABLE, CLUSTER, cure=RESTART),
    Row("CM-INST-08", "cilium-operator does not read the configuration of peers", REMEDIABLE, CLUSTER, cure=RESTART),
    Row("CM-INST-09", "cilium-operator is not ready", REMEDIABLE, CLUSTER),
    Row("CM-INST-10", "CiliumEndpoints are disabled", BLOCKING, CLUSTER, cure=RESTART),
    Row("CM-INST-11", "cilium-operator cannot resolve the names of peers", REMEDIABLE, CLUSTER, cure=RESTART),
    # The Service of clustermesh-apiserver
    Row("CM-SVC-01", "No node that is dialled runs clustermesh-apiserver", BLOCKING, CLUSTER, acceptable=True),
    Row("CM-SVC-02", "Only nodes with a pod of clustermesh-apiserver answer", ADVISORY, CLUSTER),
    Row("CM-SVC-03", "The Service selects no pod of clustermesh-apiserver", BLOCKING, CLUSTER),
    Row("CM-SVC-04", "Several replicas without session affinity", ADVISORY, CLUSTER),
    # Load balancers that clouds make
    Row("CM-ELB-01", "The Service is bound to another load balancer", BLOCKING, CLUSTER, acceptable=True),
    Row("CM-ELB-02", "A load balancer is reserved that the Service does not use", REMEDIABLE, CLUSTER),
    Row("CM-ELB-03", "The reserved load balancer has no address yet", REMEDIABLE, CLUSTER),
    # Mesh endpoints
    Row("CM-EP-01", "Service clustermesh-apiserver is missing", BLOCKING, CLUSTER),
    Row("CM-EP-02", "clustermesh-apiserver has no address to dial", BLOCKING, CLUSTER),
    Row("CM-EP-03", "clustermesh-apiserver is exposed by its ClusterIP only", REMEDIABLE, CLUSTER),
    Row("CM-EP-04", "cilium_mesh_endpoint_override is not HOST:PORT", BLOCKING, CLUSTER),
    Row("CM-EP-05", "A cluster has a NodePort with the number of its peer's", BLOCKING, PAIR),
    Row("CM-EP-06", "A cluster cannot dial any address of a peer", BLOCKING, PAIR, acceptable=True),
    Row("CM-EP-07", "The address of a mesh endpoint is not known at the moment", REMEDIABLE, CLUSTER),
    Row("CM-EP-08", "A cluster reports a name or an address that no other cluster may dial", REMEDIABLE, CLUSTER),
    Row("CM-EP-09", "New addresses of a mesh endpoint are held back", REMEDIABLE, PAIR, acceptable=True),
    # Probes of mesh endpoints by the controller
    Row("CM-PROBE-01", "The certificate at the mesh endpoint cannot be verified", BLOCKING, CLUSTER),
    Row("CM-PROBE-02", "The mesh endpoint leads to another server", BLOCKING, CLUSTER),
    Row("CM-PROBE-03", "The controller cannot reach the mesh endpoint", ADVISORY, CLUSTER),
    Row("CM-PROBE-04", "A renewed certificate is not served yet", REMEDIABLE, CLUSTER),
    # Nodes
    Row("CM-NODE-01", "Nodes of different clusters have the same address", BLOCKING, COMMON_PEER, cure=REINSTALL),
    Row("CM-NODE-02", "Cilium gave nodes of different clusters the same address", BLOCKING, COMMON_PEER, cure=REINSTALL),
    Row("CM-NODE-03", "Peers dial public addresses, and nodes have private ones", ADVISORY, CLUSTER),
    Row("CM-NODE-04", "Nodes are not ready", REMEDIABLE, CLUSTER),
    Row("CM-NODE-05", "CiliumNodes publish addresses that the nodes do not have", REMEDIABLE, CLUSTER),
    # Network settings
    Row("CM-NET-01", "Routing modes differ", BLOCKING, CONNECTED, cure=RESTART),
    Row("CM-NET-02", "Tunnel protocols or ports differ", BLOCKING, CONNECTED, cure=RESTART),
    Row("CM-NET-03", "Address families differ", BLOCKING, CONNECTED, cure=RESTART),
    Row("CM-NET-04", "Native routing range does not cover a peer's pods", BLOCKING, PAIR, cure=RESTART, acceptable=True),
    Row("CM-NET-05", "Native routing range is not set", REMEDIABLE, CLUSTER, cure=RESTART),
    Row("CM-NET-06", "Datapath settings differ", ADVISORY, CONNECTED, cure=RESTART),
    Row("CM-NET-07", "Tunnels run over different address families", BLOCKING, CONNECTED, cure=RESTART, acceptable=True),
    Row("CM-NET-08", "Packets of pods do not pass between the nodes of two clusters", REMEDIABLE, PAIR),
    Row("CM-NET-09", "Node health does not pass between the nodes of two clusters", REMEDIABLE, PAIR),
    # Address ranges
    Row("CM-CIDR-01", "Pod addresses in use overlap", BLOCKING, COMMON_PEER, cure=REINSTALL),
    Row("CM-CIDR-02", "Pod address pools overlap", BLOCKING, COMMON_PEER, cure=RESTART, acceptable=True),
    Row("CM-CIDR-03", "A pod range of a cluster contains nodes of another cluster", BLOCKING, COMMON_PEER, cure=REINSTALL, acceptable=True),
    Row("CM-CIDR-04", "Services or own nodes have addresses of pods or nodes", ADVISORY, COMMON_PEER),
    # Encryption
    Row("CM-ENC-01", "Encryption differs", BLOCKING, CONNECTED, cure=RESTART, acceptable=True),
    Row("CM-ENC-02", "Node encryption or the host firewall can block the first connection", ADVISORY, CLUSTER),
    Row("CM-ENC-03", "IPsec keys differ", BLOCKING, CONNECTED, acceptable=True),
    Row("CM-ENC-04", "IPsec keys are missing or cannot be read", REMEDIABLE, CLUSTER),
    Row("CM-ENC-05", "Ztunnel is enabled", BLOCKING, CLUSTER, cure=RESTART),
    Row("CM-ENC-06", "Node or strict encryption differs", ADVISORY, CONNECTED, cure=RESTART),
    Row("CM-ENC-07", "The strict encryption range does not cover a peer's pods", ADVISORY, CLUSTER, cure=RESTART),
    # Settings of Cilium that have to agree
    Row("CM-CFG-01", "Mesh settings differ", ADVISORY, CONNECTED, cure=RESTART),
    Row("CM-CFG-02", "Mesh settings of a cluster differ from those of the binding", REMEDIABLE, CLUSTER, cure=RESTART),
    Row("CM-CFG-03", "RBAC forbids comparing a setting of the binding with the cluster", ADVISORY, CLUSTER),
    Row("CM-CFG-04", "Cilium refuses a value of its configuration", BLOCKING, CLUSTER, cure=RESTART, acceptable=True),
    # Agreement between members
    Row("CM-MESH-01", "Two inventory hosts are the same cluster", BLOCKING, MESH),
    # Size of a mesh
    Row("CM-SIZE-01", "The mesh exceeds a limit", BLOCKING, MESH, acceptable=True),
    Row("CM-SIZE-02", "The mesh uses most of a limit", ADVISORY, MESH),
    # kvstoremesh
    Row("CM-KVM-01", "Agents dial peers although kvstoremesh runs", REMEDIABLE, CLUSTER),
    Row("CM-KVM-02", "Agents use a kvstoremesh that does not know the peer", REMEDIABLE, CLUSTER),
    # Hubble
    Row("CM-HUB-01", "Hubble Relay sees only its own cluster", ADVISORY, CONNECTED),
    # Cluster names and ids
    Row("CM-ID-01", "Cluster name is missing or is the default", BLOCKING, CLUSTER, cure=RESTART),
    Row("CM-ID-02", "Cluster name is not valid", BLOCKING, CLUSTER, cure=RESTART),
    Row("CM-ID-03", "Cluster id is missing or out of range", BLOCKING, CLUSTER, cure=RESTART),
    Row("CM-ID-04", "Clusters share a name", BLOCKING, COMMON_PEER, cure=RESTART),
    Row("CM-ID-05", "Clusters share an id", BLOCKING, COMMON_PEER, cure=RESTART),
    Row(
        "CM-ID-06",
        "Security identities are not stored as CRDs",
        BLOCKING,
        CLUSTER,
        cure=RESTART,
        cases={REMEDIABLE: "while identities are kept in both and read from the kvstore"},
    ),
    Row("CM-ID-07", "Clusters differ in max-connected-clusters", BLOCKING, CONNECTED, cure=REINSTALL),
    Row("CM-ID-08", "max-connected-clusters is neither 255 nor 511", BLOCKING, CLUSTER, cure=RESTART),
    Row("CM-ID-09", "Cluster id collides with the cloud's packet marks", BLOCKING, CLUSTER, cure=RESTART),
    # Leases of names and ids
    Row("CM-LEASE-01", "Cluster runs another name or id than it has leased", BLOCKING, MESH),
    Row("CM-LEASE-02", "An inventory host leads to another cluster than the leased one", BLOCKING, MESH, acceptable=True),
    Row("CM-LEASE-03", "Cluster uses a name or an id that is leased to another", BLOCKING, COMMON_PEER),
    Row("CM-LEASE-04", "Cluster uses an id that is in quarantine", REMEDIABLE, MESH),
    Row("CM-LEASE-05", "A member's copy of the leases is missing, unusable or out of date", REMEDIABLE, MESH),
    Row("CM-LEASE-06", "A foreign ConfigMap has the name of the lease registry", BLOCKING, MESH),
    Row("CM-LEASE-07", "Another binding leased another name or id to the cluster", BLOCKING, CLUSTER),
    Row("CM-LEASE-08", "The owner of cilium-config will restore the old name and id", REMEDIABLE, CLUSTER),
    Row("CM-LEASE-09", "The name and id of a cluster that was in a mesh are not changed", BLOCKING, CLUSTER),
    Row(
        "CM-LEASE-10",
        "Cluster was never meshed and can be given a name and an id",
        ADVISORY,
        CLUSTER,
        cases={REMEDIABLE: "where it keeps a name that it has already"},
    ),
    Row(
        "CM-LEASE-11",
        "This collection cannot issue a certificate that contains the cluster name",
        BLOCKING,
        CLUSTER,
        cases={REMEDIABLE: "where no assignment was asked for"},
    ),
    Row("CM-LEASE-12", "No name and id is available for the cluster", BLOCKING, CLUSTER),
    Row("CM-LEASE-13", "The leases could not be recorded", BLOCKING, MESH),
    Row("CM-LEASE-14", "An assignment stopped before it was finished", BLOCKING, CLUSTER, cases={ADVISORY: "with `wait: false`"}),
    Row("CM-LEASE-15", "An assignment of a name and an id is not finished", BLOCKING, MESH),
    Row(
        "CM-LEASE-16",
        "A member's copy of the leases holds what no other member holds",
        REMEDIABLE,
        MESH,
        cases={BLOCKING: "where one of two copies says that the other member died"},
    ),
    # Topology
    Row("CM-TOPO-01", "A member has no link", ADVISORY, MESH),
    Row("CM-TOPO-02", "Members were not contacted", ADVISORY, MESH),
    Row("CM-TOPO-03", "A former member still holds links", ADVISORY, MESH),
    # Trust between clusters
    Row("CM-TRUST-01", "A cluster cannot get a client certificate that its peer trusts", BLOCKING, PAIR),
    Row("CM-TRUST-02", "A link will use a copied certificate", REMEDIABLE, PAIR),
    Row("CM-TRUST-03", "cilium-ca holds several certificates", REMEDIABLE, CLUSTER),
    Row("CM-TRUST-04", "cilium-ca cannot be used", REMEDIABLE, CLUSTER),
    # Certificates
    Row("CM-CERT-01", "A certificate Secret is missing or incomplete", BLOCKING, CLUSTER),
    Row("CM-CERT-02", "A certificate cannot be read or has another key", BLOCKING, CLUSTER),
    Row("CM-CERT-03", "A certificate is not valid now", BLOCKING, CLUSTER),
    Row("CM-CERT-04", "A certificate expires within 30 days", REMEDIABLE, CLUSTER),
    Row("CM-CERT-05", "The server certificate does not cover the name that peers dial", BLOCKING, CLUSTER),
    Row("CM-CERT-06", "A certificate does not chain to its CA", BLOCKING, CLUSTER),
    Row("CM-CERT-07", "Agents have no certificate for their own kvstoremesh", BLOCKING, CLUSTER),
    Row("CM-CERT-08", "A certificate is not for its purpose", BLOCKING, CLUSTER),
    Row("CM-CERT-09", "A client certificate names a user that etcd does not have", BLOCKING, CLUSTER, acceptable=True),
    Row("CM-CERT-10", "The CA that signs renewed certificates expires within 30 days", REMEDIABLE, CLUSTER),
    Row("CM-CERT-11", "Certificates of a cluster are too many or too large for its peers", REMEDIABLE, CLUSTER),
    Row("CM-CERT-12", "The Secret with the peers of a cluster would be too large", BLOCKING, CLUSTER),
    # Certificate authorities
    Row("CM-CA-01", "The CA bundle cannot be used", BLOCKING, CLUSTER),
    Row("CM-CA-02", "Agents and kvstoremesh trust different CAs", REMEDIABLE, CLUSTER, cure=RESTART),
    Row("CM-CA-03", "The annotation of another CA roll blocks this one", BLOCKING, CLUSTER),
    Row("CM-CA-04", "A cluster whose CA is to change has peers outside this mesh", BLOCKING, CLUSTER, acceptable=True),
    Row("CM-CA-05", "The certificates of a cluster cannot be issued again from another CA", BLOCKING, CLUSTER),
    Row("CM-CA-06", "The Job that issues certificates again has failed", BLOCKING, CLUSTER),
    Row("CM-CA-07", "A CA roll is in progress", ADVISORY, CLUSTER),
    Row("CM-CA-08", "A CA roll waits for a member that does not answer", BLOCKING, CLUSTER),
    Row("CM-CA-09", "A stage of a CA roll was not proven in time", BLOCKING, CLUSTER),
    # Users of the mesh etcd
    Row("CM-USER-01", "ConfigMap clustermesh-remote-users is missing", REMEDIABLE, CLUSTER),
    Row("CM-USER-02", "users.yaml cannot be read", BLOCKING, CLUSTER),
    # Rights in the clusters
    Row("CM-RBAC-01", "RBAC forbids optional reads, so checks were left out", ADVISORY, CLUSTER),
    Row("CM-RBAC-02", "RBAC forbids reading Secret cilium-ca", REMEDIABLE, CLUSTER),
    Row("CM-RBAC-03", "An RBAC object of the wanted name is not of this mesh", BLOCKING, CLUSTER),
    # Distributions of Kubernetes
    Row("CM-DIST-01", "Another tool than Helm sets the values of Cilium", ADVISORY, CLUSTER),
    # Links between clusters
    Row("CM-LINK-01", "The links of a cluster could not be measured", REMEDIABLE, CLUSTER),
    Row("CM-LINK-02", "Links are not ready", REMEDIABLE, MESH),
    # Drift
    Row("CM-DRIFT-01", "Keys or users that this binding wrote are gone", ADVISORY, CLUSTER),
    Row(
        "CM-DRIFT-02",
        "Another writer changed keys that this binding wrote",
        BLOCKING,
        PAIR,
        cases={REMEDIABLE: "with `repair: true`", ADVISORY: "at disconnect"},
    ),
    Row("CM-DRIFT-03", "A GitOps tool reverts what this binding writes", BLOCKING, CLUSTER, acceptable=True),
    # Ownership of objects
    Row("CM-OWN-01", "Helm owns the objects that hold peers", BLOCKING, CLUSTER, acceptable=True),
    Row("CM-OWN-02", "Another writer already configured this peer", BLOCKING, PAIR, cases={ADVISORY: "at disconnect"}),
    Row("CM-OWN-03", "A foreign host alias has the address of a peer", BLOCKING, CLUSTER),
    Row("CM-OWN-04", "The hand-over from Helm may not be finished", REMEDIABLE, CLUSTER),
    Row("CM-OWN-05", "Argo CD tracks the objects that hold peers", REMEDIABLE, CLUSTER),
    Row("CM-OWN-06", "A cluster waits until its tool stops rendering the peers", REMEDIABLE, CLUSTER),
    Row("CM-OWN-07", "The tool that made the peers still renders them", BLOCKING, CLUSTER),
    Row("CM-OWN-08", "An annotation that the hand-over needs has another value", BLOCKING, CLUSTER),
    Row("CM-OWN-09", "A cluster has peers that the mesh does not know", REMEDIABLE, CLUSTER),
    Row("CM-OWN-10", "The hand-over removes the host aliases of the peers", REMEDIABLE, CLUSTER),
    Row("CM-OWN-11", "Helm values that keep the peers", ADVISORY, CLUSTER),
    Row("CM-OWN-12", "Peers are dialled with files that Helm does not know", REMEDIABLE, CLUSTER),
    # Tombstones of disconnected clusters
    Row("CM-TOMB-01", "A returning cluster differs from its tombstone", BLOCKING, MESH),
    Row("CM-TOMB-02", "A member still accepts a certificate of a dead cluster", REMEDIABLE, MESH),
    # Waivers of a binding
    Row("CM-WAIV-01", "A waiver has ended", REMEDIABLE, MESH),
    Row("CM-WAIV-02", "A waiver ends within 14 days", ADVISORY, MESH),
    Row("CM-WAIV-03", "A waiver lasts longer than a waiver may", REMEDIABLE, MESH),
    # Records that peers publish
    Row("CM-CLAIM-01", "A cluster publishes another name or id than it is configured with", BLOCKING, CLUSTER),
    Row("CM-CLAIM-02", "A cluster publishes nodes that are not its own", BLOCKING, CLUSTER),
    Row("CM-CLAIM-03", "A cluster publishes addresses that belong to another member", BLOCKING, CLUSTER),
    Row("CM-CLAIM-04", "A cluster publishes addresses outside its pod networks", REMEDIABLE, CLUSTER),
    Row("CM-CLAIM-05", "A cluster publishes identities that are not its own", BLOCKING, CLUSTER),
    Row("CM-CLAIM-06", "A cluster publishes another max-connected-clusters than it is configured with", REMEDIABLE, CLUSTER),
    Row("CM-CLAIM-07", "The peer records of a cluster could not be read", ADVISORY, CLUSTER),
    # Fabrics
    Row("CM-FAB-01", "Two peers of one cluster have the same name or id", BLOCKING, FABRIC),
    Row("CM-FAB-02", "The status of a binding is out of date", ADVISORY, FABRIC),
    # Plans
    Row("CM-PLAN-01", "The approved plan is out of date", BLOCKING, RUN),
    Row("CM-PLAN-02", "The approval does not name the items that are not carried out", BLOCKING, RUN),
    # The lock of a mesh
    Row("CM-LOCK-01", "Another run is at work on the mesh", BLOCKING, RUN, cases=_FAILURE_CASES),
    Row("CM-LOCK-02", "Another run came between, or the lock ended", BLOCKING, RUN, cases=_FAILURE_CASES),
    # Items of every kind
    Row("CM-ITEM-01", "The spec of an item is not valid", BLOCKING, ITEM),
    Row("CM-ITEM-02", "A foreign object has the name that an item needs", BLOCKING, ITEM),
    Row("CM-ITEM-03", "An item waits for the mesh to be connected", REMEDIABLE, ITEM),
    Row("CM-ITEM-04", "Another writer added fields to a policy of an item", BLOCKING, ITEM),
    Row("CM-ITEM-05", "Objects are kept because their replacement may be missing", REMEDIABLE, ITEM),
    Row("CM-ITEM-20", "Objects of items remain after a disconnect", ADVISORY, RUN),
    # GlobalServices
    Row("CM-GS-01", "A target cluster has no such Service", REMEDIABLE, ITEM),
    Row("CM-GS-02", "No Service matches the labels of the item", REMEDIABLE, ITEM),
    Row("CM-GS-03", "The Service belongs to another item or binding", BLOCKING, ITEM),
    Row("CM-GS-04", "Another writer changed an annotation that this mesh had set", ADVISORY, ITEM),
    Row("CM-GS-05", "The record of earlier values cannot be read", REMEDIABLE, ITEM),
    Row("CM-GS-06", "Clients of a linked cluster cannot use the Service", ADVISORY, ITEM),
    Row("CM-GS-07", "The Service is not global in a linked cluster", ADVISORY, ITEM, cases={REMEDIABLE: "in a target cluster"}),
    Row("CM-GS-08", "The namespace is missing", REMEDIABLE, ITEM),
    Row("CM-GS-09", "The namespace is not global", REMEDIABLE, ITEM),
    Row("CM-GS-10", "A port of the Service has no counterpart in a cluster that exports it", REMEDIABLE, ITEM),
    Row("CM-GS-11", "Cilium does not write EndpointSlices of other clusters that the Service needs", REMEDIABLE, ITEM, cure=RESTART),
    Row("CM-GS-12", "Cilium does not replace kube-proxy", ADVISORY, ITEM, cure=RESTART),
    Row("CM-GS-13", "The Service is an ExternalName", REMEDIABLE, ITEM),
    Row("CM-GS-14", "The Service has no selector", ADVISORY, ITEM),
    Row("CM-GS-15", "No cluster exports the Service", REMEDIABLE, ITEM),
    Row("CM-GS-16", "Remote backends are preferred and there are none", ADVISORY, ITEM),
    Row("CM-GS-17", "The Service has no ready endpoint in any cluster", REMEDIABLE, ITEM),
    Row("CM-GS-18", "A cluster cannot export the Service with MCS-API", REMEDIABLE, ITEM, cure=RESTART),
    Row("CM-GS-19", "Cilium reports a problem with a ServiceExport", REMEDIABLE, ITEM),
    Row("CM-GS-20", "Another writer took over a stub Service", ADVISORY, ITEM),
    Row("CM-GS-21", "Stub Services remain, and no target exports the Service", ADVISORY, ITEM),
    Row("CM-GS-22", "The Service is part of the cluster or of Cilium", BLOCKING, ITEM),
    Row("CM-GS-23", "A cluster does not permit an annotation of the item", BLOCKING, ITEM),
    Row("CM-GS-24", "Exports of the Service do not fit together", REMEDIABLE, ITEM),
    Row("CM-GS-30", "Cilium keeps the backends of a dead peer too long", REMEDIABLE, ITEM, cure=RESTART),
    Row("CM-GS-31", "Before 1.19 Cilium never drops the backends of a dead peer", ADVISORY, ITEM),
    Row("CM-GS-32", "Backends of a cluster that sends no updates are still in use", REMEDIABLE, ITEM),
    Row("CM-GS-33", "detectWithin is shorter than a controller can guarantee", ADVISORY, ITEM),
    Row("CM-GS-34", "A cluster cannot return from failover", ADVISORY, ITEM),
    Row("CM-GS-35", "No cluster has minLocalReady endpoints", REMEDIABLE, ITEM),
    Row("CM-GS-36", "A cluster has failed over", ADVISORY, ITEM),
    # ConnectivityIntents
    Row("CM-INT-01", "This version of Cilium cannot express the intent", BLOCKING, ITEM),
    Row("CM-INT-02", "A Deny would isolate its destination", BLOCKING, ITEM, cure=RESTART),
    Row("CM-INT-03", "The name of a cluster is not known", BLOCKING, ITEM),
    Row("CM-INT-04", "The destination cluster does not enforce policies", BLOCKING, ITEM, cure=RESTART),
    Row("CM-INT-05", "The destination cluster enforces policies for every pod", ADVISORY, ITEM),
    Row("CM-INT-06", "A destination cluster was not read", REMEDIABLE, ITEM),
    Row("CM-INT-07", "A source cluster was not read", ADVISORY, ITEM),
    Row("CM-INT-08", "The namespace of the destination is missing", REMEDIABLE, ITEM),
    Row("CM-INT-09", "No pod is selected as destination", ADVISORY, ITEM),
    Row("CM-INT-10", "No pod is selected as source", ADVISORY, ITEM),
    Row("CM-INT-11", "A label is not part of security identities", BLOCKING, ITEM),
    Row("CM-INT-12", "The destination cluster does not accept rules for ICMP", BLOCKING, ITEM, cure=RESTART),
    Row("CM-INT-13", "The destination cluster drops SCTP", REMEDIABLE, ITEM, cure=RESTART),
    Row("CM-INT-14", "The namespace of the source is not global", REMEDIABLE, ITEM, cases=_DENIES_NOTHING),
    Row("CM-INT-15", "Cilium refuses the policy", REMEDIABLE, ITEM),
    Row("CM-INT-16", "Source and destination are not linked", REMEDIABLE, ITEM, cases=_DENIES_NOTHING),
    Row("CM-INT-17", "The link to a source is not ready", REMEDIABLE, ITEM),
    Row("CM-INT-18", "The policy would block traffic of the mesh itself", BLOCKING, ITEM),
    Row("CM-INT-19", "Cilium refuses policies that look like protection", REMEDIABLE, CLUSTER),
    Row(
        "CM-INT-30",
        "An intent isolates pods that no policy isolated before",
        REMEDIABLE,
        ITEM,
        cases={
            OUTAGE: "where system pods are isolated, or addresses outside or other nodes that speak to the pods are cut off",
            ADVISORY: "for action Isolate",
        },
    ),
    Row(
        "CM-INT-31",
        "An intent takes access from workloads",
        OUTAGE,
        ITEM,
        cases={
            REMEDIABLE: "where it is not certain, or system workloads alone lose access",
            ADVISORY: "for actions Deny and Isolate, unless a workload that is cut off speaks to the pods now",
        },
    ),
    Row(
        "CM-INT-32",
        "The pods that an intent isolates cannot be determined for certain",
        ADVISORY,
        ITEM,
        cases={REMEDIABLE: "where traffic that was recorded may be cut"},
    ),
    Row("CM-INT-33", "Sources that an intent allows are still blocked", REMEDIABLE, ITEM),
    Row("CM-INT-34", "A policy that an intent replaces is not deleted", BLOCKING, ITEM),
    # Probes of intents
    Row("CM-REACH-01", "A probe refuted an intent", REMEDIABLE, ITEM),
    Row("CM-REACH-02", "A probe could not decide", ADVISORY, ITEM),
    Row("CM-REACH-03", "A probe was left out of this run", ADVISORY, ITEM),
    Row("CM-REACH-04", "The Job of a probe could not be deleted", REMEDIABLE, ITEM),
    # ExposedServices
    Row("CM-EXPO-01", "The Service to expose does not exist", BLOCKING, ITEM, cases=_ELSEWHERE),
    Row("CM-EXPO-02", "The Service cannot be exposed", BLOCKING, ITEM, cases=_ELSEWHERE),
    Row("CM-EXPO-03", "The port to expose does not exist or is ambiguous", BLOCKING, ITEM, cases=_ELSEWHERE),
    Row("CM-EXPO-04", "The cluster cannot enforce the source ranges", BLOCKING, ITEM, cure=RESTART, cases=_ELSEWHERE),
    Row("CM-EXPO-05", "The class is not possible in this cluster", BLOCKING, ITEM, cure=RESTART, cases=_ELSEWHERE),
    Row("CM-EXPO-06", "The hostname is already in use", BLOCKING, ITEM),
    Row("CM-EXPO-07", "No source range is set, so no client has access", ADVISORY, ITEM),
    Row("CM-EXPO-08", "Clients can bypass the source ranges", REMEDIABLE, ITEM),
    Row("CM-EXPO-09", "No address is assigned", REMEDIABLE, ITEM),
    Row("CM-EXPO-10", "The exposed Service has no ready endpoint", REMEDIABLE, ITEM),
    Row("CM-EXPO-11", "A standby cluster serves the exposed Service", REMEDIABLE, ITEM),
    Row("CM-EXPO-12", "The primary cluster does not answer, and its objects stay", REMEDIABLE, ITEM),
    Row("CM-EXPO-13", "No source range has an IP version of the cluster", BLOCKING, ITEM, cases=_ELSEWHERE),
    # Workloads of a fleet
    Row("CM-FLEET-01", "The spec of an object of a fleet is not valid", BLOCKING, ITEM),
    Row("CM-FLEET-02", "A workload has no cluster to go to", REMEDIABLE, ITEM),
    Row("CM-FLEET-03", "Karmada does not schedule a workload", REMEDIABLE, ITEM),
    Row("CM-FLEET-04", "A foreign object is in the place of a workload's", BLOCKING, ITEM),
    Row("CM-FLEET-05", "An operation on a workload cannot be carried out", REMEDIABLE, ITEM),
    Row("CM-FLEET-06", "A workload stays in a cluster that it should leave", REMEDIABLE, ITEM),
    Row("CM-FLEET-07", "A rollout has stalled", REMEDIABLE, ITEM),
    Row("CM-FLEET-08", "A cluster refuses an object of a workload", REMEDIABLE, ITEM),
    Row("CM-FLEET-09", "The API server is not that of a Karmada control plane", BLOCKING, RUN),
    Row("CM-FLEET-10", "A cluster that holds a part of a workload is not Ready", REMEDIABLE, ITEM),
    Row("CM-FLEET-11", "A workload names a cluster that does not exist", REMEDIABLE, ITEM),
    Row("CM-FLEET-12", "A GlobalService of the tenant has the name of a workload's", REMEDIABLE, ITEM),
    Row("CM-FLEET-13", "A workload that is not wanted any more is still there", REMEDIABLE, ITEM),
    # Members of Karmada
    Row("CM-MEMBER-01", "The cluster is a member of Karmada under another name", BLOCKING, ITEM),
    Row("CM-MEMBER-02", "A Cluster of the member's name was made for something else", BLOCKING, ITEM),
    Row("CM-MEMBER-03", "The kubeconfig leads to another cluster than the one that joined", BLOCKING, ITEM),
    Row("CM-MEMBER-04", "Karmada cannot use the API server of the kubeconfig safely", BLOCKING, ITEM),
    Row("CM-MEMBER-05", "What an earlier membership left is still being deleted", BLOCKING, ITEM),
    Row("CM-MEMBER-06", "Workloads are placed in a cluster that is to leave", BLOCKING, ITEM),
    Row("CM-MEMBER-07", "The management plane has not made the cluster ready", REMEDIABLE, ITEM),
    Row("CM-MEMBER-08", "Karmada does not report the member as ready", REMEDIABLE, ITEM),
    Row("CM-MEMBER-09", "A cluster that is to leave does not answer", REMEDIABLE, ITEM),
    Row("CM-MEMBER-10", "Objects of other users keep the tenant's namespace in a cluster", ADVISORY, ITEM),
    Row("CM-MEMBER-11", "A cluster gives shorter tokens than are asked for", REMEDIABLE, ITEM),
    Row("CM-MEMBER-12", "A cluster left Karmada without being cleaned", REMEDIABLE, ITEM),
    Row("CM-MEMBER-13", "Karmada uses tokens of before the last renewal", REMEDIABLE, ITEM),
    Row("CM-MEMBER-14", "A cluster has not left Karmada in time", REMEDIABLE, ITEM),
    Row("CM-MEMBER-15", "A Cluster that another program made is not as it is asked for", REMEDIABLE, ITEM),
    # API servers
    Row("CM-API-00", "A request to a cluster failed", BLOCKING, CLUSTER, cases=_FAILURE_CASES),
    Row("CM-API-01", "A cluster is unreachable", BLOCKING, CLUSTER, cases=_FAILURE_CASES),
    Row("CM-API-02", "Credentials are not valid", BLOCKING, CLUSTER, cases=_FAILURE_CASES),
    Row("CM-API-03", "A request is forbidden", BLOCKING, CLUSTER, cases=_FAILURE_CASES),
    Row("CM-API-04", "A write conflicts with another one", BLOCKING, CLUSTER, cases=_FAILURE_CASES),
    Row("CM-API-05", "The API server refuses a request", BLOCKING, CLUSTER, cases=_FAILURE_CASES),
    # The environment of the collection
    Row("CM-ENV-01", "A Python package is missing", BLOCKING, RUN, cases=_FAILURE_CASES),
    # Input
    Row("CM-INPUT-01", "The input is not valid", BLOCKING, RUN, cases=_FAILURE_CASES),
    # Errors
    Row("CM-ERR-00", "An operation failed", BLOCKING, RUN, cases=_FAILURE_CASES),
    Row("CM-ERR-99", "Unexpected failure", BLOCKING, RUN, cases=_FAILURE_CASES),
)

CATALOGUE: Final[Mapping[str, Row]] = {row.code: row for row in _ROWS}
"""Code -> its row, family by family."""
