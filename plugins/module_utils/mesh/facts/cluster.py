# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of a cluster: frozen values, no behaviour that does I/O, and never a private key.

Certificates are public and are held parsed; keys of Secrets are held as SHA-256 digests. The values themselves, where a later step
must copy one, travel apart from the facts in ``base.sealed.SecretStore``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from ...base.errors import clause
from ...base.numbers import whole_number
from .node_health import NodeReport


@dataclass(frozen=True, kw_only=True)
class CertificateFacts:
    """One X.509 certificate. Times are aware UTC; digests are lower-case hex."""

    common_name: str
    issuer: str  # RFC 4514
    fingerprint: str  # SHA-256 of the DER form
    public_key: str  # SHA-256 of the SubjectPublicKeyInfo
    subject_key_id: str | None
    authority_key_id: str | None
    not_before: datetime
    not_after: datetime
    dns_names: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    is_ca: bool = False
    server_auth: bool = True  # no extended key usage extension means both
    client_auth: bool = True


@dataclass(frozen=True, kw_only=True)
class TlsSecretFacts:
    """One of Cilium's TLS Secrets (keys ``ca.crt``, ``tls.crt``, ``tls.key``), present or missing."""

    name: str
    present: bool = False
    missing_keys: tuple[str, ...] = ()  # keys of the three that are absent or empty
    problem: str = ""  # "" or why a part cannot be parsed, e.g. "tls.crt is not a PEM certificate"
    certificate: CertificateFacts | None = None  # first certificate of tls.crt
    intermediates: tuple[CertificateFacts, ...] = ()  # the others of tls.crt
    ca: tuple[CertificateFacts, ...] = ()  # certificates of ca.crt
    key_matches: bool | None = None  # tls.key belongs to tls.crt; None when either is missing
    chain_valid: bool | None = None  # tls.crt chains to a certificate of ca.crt by signature (validity times are not checked)
    digests: Mapping[str, str] = field(default_factory=dict)  # SHA-256 hex of each key's bytes
    sizes: Mapping[str, int] = field(default_factory=dict)  # bytes of each key
    reencoded: Mapping[str, str] = field(default_factory=dict)  # key -> PEM for other clusters, where its text has more than certificates
    unshareable: Mapping[str, str] = field(default_factory=dict)  # key -> why no other cluster gets it (mesh/x509/shared_pem.py)
    owner: str = ""  # "Helm", "cert-manager", "certgen", a field manager's name, or ""
    uid: str = ""
    resource_version: str = ""
    changed: datetime | None = None  # last write of a value, by any writer; None: not recorded


@dataclass(frozen=True, kw_only=True)
class CaSecretFacts:
    """Secret ``cilium-ca``. ``certificates`` come from ``ca.crt``, else from ``tls.crt`` (cert-manager's form)."""

    present: bool = False
    problem: str = ""
    certificates: tuple[CertificateFacts, ...] = ()
    has_key: bool = False
    key_matches: bool | None = None
    digest: str = ""  # SHA-256 hex of the certificate bytes
    unshareable: str = ""  # why no other cluster gets its certificates as intermediates (mesh/x509/shared_pem.py)
    annotations: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, kw_only=True)
class SecretKeyFacts:
    """One key of ``cilium-clustermesh`` or ``cilium-kvstoremesh``."""

    digest: str  # SHA-256 hex of the value
    size: int = 0  # bytes of the value
    managers: tuple[str, ...] = ()  # field managers that own the key, sorted
    config: str | None = None  # the text, only where it is an etcd client configuration ("endpoints:") without user name or password
    certificate: CertificateFacts | None = None  # only for "*.etcd-client.crt" and "*.etcd-client-ca.crt"
    certificate_key_matches: bool | None = None  # for "*.etcd-client.crt": the sibling ".key" belongs to it


@dataclass(frozen=True, kw_only=True)
class PeerSecretFacts:
    """Secret ``cilium-clustermesh`` or ``cilium-kvstoremesh``."""

    name: str
    present: bool = False
    uid: str = ""
    resource_version: str = ""
    keys: Mapping[str, SecretKeyFacts] = field(default_factory=dict)
    managers: tuple[str, ...] = ()  # every field manager of the object
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RemoteUsersFacts:
    """ConfigMap ``clustermesh-remote-users``. ``users`` maps user name to role, in the order of the file."""

    present: bool = False
    uid: str = ""
    resource_version: str = ""
    users: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""  # "" or why users.yaml cannot be parsed
    text: str = ""  # users.yaml as read
    managers: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HostAlias:
    """One entry of a pod template's hostAliases, with the field managers that own it."""

    ip: str
    hostnames: tuple[str, ...]
    managers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class VolumeSource:
    """Secret or ConfigMap that a volume of a pod shows as files."""

    kind: str  # "Secret" or "ConfigMap"
    name: str
    items: Mapping[str, str] = field(default_factory=dict)  # path in the volume -> key; {}: every key under its own name


@dataclass(frozen=True, kw_only=True)
class WorkloadFacts:
    """DaemonSet ``cilium``, Deployment ``clustermesh-apiserver``, or another Deployment of Cilium."""

    kind: str
    name: str
    generation: int = 0
    observed_generation: int = 0
    desired: int = 0  # replicas or desiredNumberScheduled
    ready: int = 0
    updated: int = 0
    containers: Mapping[str, str] = field(default_factory=dict)  # name -> image
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # container -> args
    environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # container -> plain env values
    host_aliases: tuple[HostAlias, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    resource_version: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict)  # labels of the pod template
    pod_annotations: Mapping[str, str] = field(default_factory=dict)  # annotations of the pod template
    volumes: Mapping[str, tuple[VolumeSource, ...]] = field(default_factory=dict)  # volume -> its Secrets and ConfigMaps
    owner_kinds: tuple[str, ...] = ()  # kinds of the objects in metadata.ownerReferences


@dataclass(frozen=True, kw_only=True)
class ServiceFacts:
    """Service ``clustermesh-apiserver``."""

    type: str
    cluster_ip: str = ""
    port: int = 2379
    node_port: int | None = None
    ingress_ips: tuple[str, ...] = ()
    ingress_hostnames: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    external_traffic_policy: str = ""  # "Cluster" or "Local"; "" where the type has none
    session_affinity: str = "None"  # "None" or "ClientIP"
    uid: str = ""
    cluster_ips: tuple[str, ...] = ()  # spec.clusterIPs: one per family, the first is cluster_ip
    ip_families: tuple[str, ...] = ()  # spec.ipFamilies: "IPv4", "IPv6"; node ports answer in these alone
    annotation_managers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # annotation -> field managers that own it, sorted


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """Node of a cluster, from Node and CiliumNode."""

    name: str
    ready: bool
    internal_ips: tuple[str, ...] = ()
    external_ips: tuple[str, ...] = ()
    pod_cidrs: tuple[str, ...] = ()  # Node.spec.podCIDRs
    allocated_cidrs: tuple[str, ...] = ()  # CiliumNode.spec.ipam: ranges of pools, and the addresses that a cloud gave, put together
    mesh_ips: tuple[str, ...] = ()  # InternalIP of CiliumNode.spec.addresses, which is what the cluster publishes to peers
    router_ips: tuple[str, ...] = ()  # CiliumInternalIP of the same: the node's own address within its pod range
    os_image: str = ""  # Node.status.nodeInfo.osImage


@dataclass(frozen=True, kw_only=True)
class PodFacts:
    """Pod of the agents or of clustermesh-apiserver."""

    name: str
    node: str
    ready: bool
    phase: str
    containers: tuple[str, ...] = ()
    waiting: str = ""  # "container: reason" of the first container that waits, or ""
    started: datetime | None = None  # status.startTime, aware UTC


@dataclass(frozen=True, kw_only=True)
class IpsecFacts:
    """Secret with the IPsec keys. ``keys``: key id (SPI) -> SHA-256 hex of algorithms, lengths and key; the last one is in use."""

    name: str
    present: bool = False
    problem: str = ""  # "" or why it cannot be read
    keys: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrustBundleFacts:
    """Object that replaces the ``ca.crt`` of Cilium's own Secrets (Helm value tls.caBundle)."""

    kind: str  # "Secret" or "ConfigMap"
    name: str
    key: str
    present: bool = False
    problem: str = ""
    certificates: tuple[CertificateFacts, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PodPoolFacts:
    """CiliumPodIPPool, where ``ipam`` is multi-pool."""

    name: str
    cidrs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Read that RBAC forbids and that a mesh can be made without."""

    what: str  # name of the read (observe/reads.py)
    message: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class RegistryFacts:
    """ConfigMap in which a member keeps the leases of the mesh (leases/registry.py). ``text`` is its one key, as read."""

    present: bool = False
    unread: bool = False  # the observation left it out, so nothing is known of it
    uid: str = ""
    resource_version: str = ""
    text: str = ""
    managers: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WriterFacts:
    """One entry of an object's managedFields: the writer of some fields, and when that entry last grew. Names of fields, never values."""

    manager: str
    operation: str  # "Apply" or "Update"
    time: str = ""  # RFC 3339, to the second; "" unknown
    entry: str = ""  # the entry as JSON, of objects whose ledger a plan may have to edit


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """All facts of one cluster. ``host`` is the inventory name; ``name`` and ``id`` are Cilium's own."""

    host: str
    uid: str  # uid of the namespace where Cilium runs: the same uid means the same cluster
    namespace: str  # where Cilium runs
    endpoint_override: str = ""  # "HOST:PORT" from the inventory
    endpoint_domains: tuple[str, ...] = ()  # from the inventory: domains below which its endpoint may have a name in other clusters
    endpoint_networks: tuple[str, ...] = ()  # from the inventory: ranges whose addresses may be dialled although they are special
    denied_networks: tuple[str, ...] = ()  # from the inventory: ranges at which the controller dials nothing for its owner
    allowed_annotations: tuple[str, ...] = ()  # from the inventory: further annotations that items may set on Services
    kubernetes_version: str = ""
    config: Mapping[str, str] | None = None  # data of ConfigMap cilium-config; None: there is none
    config_labels: Mapping[str, str] = field(default_factory=dict)
    config_annotations: Mapping[str, str] = field(default_factory=dict)
    agent: WorkloadFacts | None = None
    apiserver: WorkloadFacts | None = None
    service: ServiceFacts | None = None
    nodes: tuple[NodeFacts, ...] = ()
    agent_pods: tuple[PodFacts, ...] = ()
    apiserver_pods: tuple[PodFacts, ...] = ()
    ca: CaSecretFacts = field(default_factory=CaSecretFacts)
    server_cert: TlsSecretFacts = field(default_factory=lambda: TlsSecretFacts(name="clustermesh-apiserver-server-cert"))
    remote_cert: TlsSecretFacts = field(default_factory=lambda: TlsSecretFacts(name="clustermesh-apiserver-remote-cert"))
    local_cert: TlsSecretFacts = field(default_factory=lambda: TlsSecretFacts(name="clustermesh-apiserver-local-cert"))
    admin_cert: TlsSecretFacts = field(default_factory=lambda: TlsSecretFacts(name="clustermesh-apiserver-admin-cert"))
    clustermesh: PeerSecretFacts = field(default_factory=lambda: PeerSecretFacts(name="cilium-clustermesh"))
    kvstoremesh: PeerSecretFacts = field(default_factory=lambda: PeerSecretFacts(name="cilium-kvstoremesh"))
    users: RemoteUsersFacts = field(default_factory=RemoteUsersFacts)
    registry: RegistryFacts = field(default_factory=RegistryFacts)
    operator: WorkloadFacts | None = None  # Deployment cilium-operator
    parts: Mapping[str, WorkloadFacts] = field(default_factory=dict)  # other Deployments of Cilium by name: hubble-relay, hubble-ui, ...
    config_version: str = ""  # resourceVersion of cilium-config
    config_changed: datetime | None = None  # last write of a value of cilium-config, by any writer; None: not recorded
    ipsec: IpsecFacts | None = None  # None: IPsec is off, or the keys may not be read
    pod_pools: tuple[PodPoolFacts, ...] = ()
    ca_bundle: TrustBundleFacts | None = None  # None: the CA comes from the Secrets themselves, or the bundle may not be read
    unread: tuple[Unread, ...] = ()
    writers: Mapping[str, tuple[WriterFacts, ...]] = field(default_factory=dict)  # "Secret cilium-kvstoremesh" -> its managedFields
    elb_id: str = ""  # host variable cilium_mesh_elb_id: the load balancer that the platform reserved for this cluster's mesh endpoint

    @cached_property
    def name(self) -> str:
        """``cluster-name`` of cilium-config; "" when unset."""
        return (self.config or {}).get("cluster-name", "")

    @cached_property
    def id(self) -> int | None:
        """``cluster-id`` of cilium-config; None when it is not a plain decimal number. Unset means 0, as Cilium reads it."""
        return whole_number((self.config or {}).get("cluster-id", "0") or "0")

    @cached_property
    def ca_unread(self) -> bool:
        """Whether RBAC forbade to read Secret cilium-ca."""
        return any(entry.what == "ca" for entry in self.unread)

    @cached_property
    def runs_kvstoremesh(self) -> bool:
        """Whether clustermesh-apiserver has a container named kvstoremesh. The cilium CLI makes the same test."""
        return self.apiserver is not None and "kvstoremesh" in self.apiserver.containers

    @cached_property
    def users_enabled(self) -> bool:
        """Whether clustermesh-apiserver reads per-peer users (auth modes migration and cluster)."""
        arguments = self.apiserver.arguments.get("apiserver", ()) if self.apiserver else ()
        return any(a == "--cluster-users-enabled" or a == "--cluster-users-enabled=true" for a in arguments)


@dataclass(frozen=True, kw_only=True)
class ObserveFailure:
    """Cluster that could not be observed. ``code`` is the code of the error class (base/errors.py).

    ``detail``: what the message withholds from the owner of the cluster (base/errors.py, Unreachable). ``writing``: it was observed, and a
    write to it failed.
    """

    host: str
    code: str
    message: str
    remedy: str = ""
    detail: str = ""
    writing: bool = False

    @property
    def clause(self) -> str:
        """Message as a part of another sentence."""
        return clause(self.message)


@dataclass(frozen=True, kw_only=True)
class LinkFacts:
    """Report of one reader (kvstoremesh, or one agent) of ``cluster`` about its ``peer``.

    Field names follow Cilium's status (api/v1/models, RemoteCluster).
    """

    cluster: str  # inventory name
    peer: str  # inventory name
    reader: str  # "kvstoremesh" or "agent"
    pod: str  # pod that answered
    node: str = ""
    known: bool = False  # the reader lists the peer at all
    ready: bool = False
    connected: bool = False
    status: str = ""  # the reader's own text
    config_required: bool | None = None
    config_retrieved: bool | None = None
    cluster_id: int | None = None
    synced: Mapping[str, bool] = field(default_factory=dict)
    failures: int = 0
    last_failure: str = ""
    stage_hint: str = ""  # a stage (status/links.py) proven by a troubleshoot run, e.g. "tls"
    error: str = ""  # the last error, redacted and in one line
    source: str = ""  # "metrics", "exec", "port-forward": how it was read
    proof: str = ""  # verdict of a new connection from this pod (status/link_proof.py): "proven", "refuted", "unknown"; "": none was tried
    proof_note: str = ""  # why the verdict is unknown
    arrived: Mapping[str, int] = field(default_factory=dict)  # nodes, services, endpoints, identities of the peer that the reader holds


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """One TLS handshake from the controller with one address of a mesh endpoint (observe/tls_probe.py)."""

    cluster: str  # inventory name of the cluster that should answer
    address: str  # IP address; the DNS name where none of it is known
    port: int
    hostname: str  # the name that peers dial, sent as SNI and compared with the certificate
    outcome: str  # "proven", "refuted" or "unreachable": nothing is known
    verified: bool = False  # the server's certificate chains to the cluster's CA, is valid now, and covers ``hostname``
    fingerprint: str = ""  # SHA-256 of the server's certificate, lower-case hex; "" if the handshake did not get that far
    error: str = ""  # one line, redacted
    milliseconds: int = 0


@dataclass(frozen=True, kw_only=True)
class ReaderFacts:
    """Readers of one cluster: their reports, and how many of them could be queried."""

    cluster: str
    links: tuple[LinkFacts, ...] = ()
    agents_total: int = 0  # agent pods that should run (DaemonSet desired)
    agents_asked: int = 0
    agents_ready: int = 0  # of these, pods that are ready
    agents_unasked: int = 0  # ready agent pods that were not asked: in a large cluster a sample is
    nodes: tuple[NodeReport, ...] = ()  # node health: one report per agent that gave it and peer
    nodes_asked: tuple[str, ...] | None = None  # nodes whose agents were asked for node health; None: this reading is without it
    nodes_unread: str = ""  # why agents gave no node health
    problems: tuple[str, ...] = ()  # why a reader could not be queried, one sentence each
    forbidden: bool = False  # one of the problems is that RBAC denies it, which waiting does not change


def as_data(value: Any) -> Any:
    """Convert facts to plain data for JSON: dataclass -> dict, datetime -> ISO 8601, tuple -> list."""
    from dataclasses import fields, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_data(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): as_data(v) for k, v in value.items()}
    if isinstance(value, (tuple, list, frozenset, set)):
        items = sorted(value) if isinstance(value, (set, frozenset)) else value
        return [as_data(v) for v in items]
    if isinstance(value, datetime):
        return value.isoformat()
    return value
