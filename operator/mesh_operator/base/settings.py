# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Settings of the operator: flags, some with an environment variable. Errors name the flag and the remedy."""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .. import __version__
from .choices import LEFT_TO_TENANTS, TENANT_CHOICES
from .workspace_bounds import DEFAULT


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the operator. Intervals are in seconds."""

    kcp_kubeconfig: str  # --kcp-kubeconfig, KCP_KUBECONFIG; required with --source kcp: the provider's workspace
    mgmt_kubeconfig: str  # --mgmt-kubeconfig, MGMT_KUBECONFIG; required; "" means the pod's own cluster where it runs in one
    node_id: str  # --node-id, NODE_ID; required: a stable name of this replica
    source: str = "kcp"  # --source kcp or kubernetes: where the custom resources are
    profile: str = "mesh"  # --profile mesh, fleet or all: which kinds it works for
    karmada_kubeconfig: str = ""  # --karmada-kubeconfig, KARMADA_KUBECONFIG; required with --profile fleet and all
    fleet_kcp_kubeconfig: str = (
        ""  # --fleet-kcp-kubeconfig, FLEET_KCP_KUBECONFIG: of the workspace of the fleet's export; default the other
    )
    mgmt_namespace: str = "default"  # --mgmt-namespace, MGMT_NAMESPACE: Clusters and their Secrets
    namespace: str = ""  # --namespace, NAMESPACE: the operator's own, for its Lease and its records; default that of the Clusters
    # --mgmt-cluster-resource PLURAL.VERSION.GROUP; of Cluster API: clusters.v1beta2.cluster.x-k8s.io
    mgmt_cluster_resource: str = "clusters.v1alpha1.platform.edge-portal.eu"
    mgmt_match: str = "label"  # --mgmt-match label or name=LOGICAL_CLUSTER: the workspace of Clusters without the label
    api_export_name: str = "edge-portal-networking"  # --api-export-name; with --profile fleet edge-portal-fleet
    fleet_export_name: str = "edge-portal-fleet"  # --fleet-export-name: of --profile all
    kcp_external_url: str = ""  # --kcp-external-url, KCP_EXTERNAL_URL
    reconcile_interval: float = 30.0  # --reconcile-interval 30s: endpoint discovery
    mesh_check_interval: float = 300.0  # --mesh-check-interval 5m
    health_addr: str = ":8081"  # --health-addr
    metrics_addr: str = ""  # --metrics-addr; "": on the port of the health
    max_runs: int = 2  # --max-runs: runs of playbooks at a time
    max_runs_per_workspace: int = 1  # --max-runs-per-workspace
    job_timeout: float = 900.0  # --job-timeout 15m
    idle_timeout: float = 300.0  # --idle-timeout 5m
    dry_run_timeout: float = 60.0  # --dry-run-timeout 1m: for a mesh of up to four clusters
    dry_run_memory: int = 384  # --dry-run-memory MiB
    teardown_deadline: float = 3600.0  # --teardown-deadline 1h: then a mesh that cannot be cleaned becomes a tombstone
    max_evictions: int = 0  # --max-evictions: of all workloads of a namespace, because of the state of clusters; 0: any number
    orphan_grace: float = 3600.0  # --orphan-grace 1h
    take_over_records: str = ""  # --take-over-records SOURCE, TAKE_OVER_RECORDS: of another source, which become this one's
    allowed_addresses: tuple[str, ...] = ()  # --allow-address CIDR (repeatable): API servers and mesh endpoints refused otherwise
    denied_addresses: tuple[str, ...] = ()  # --deny-address CIDR (repeatable): of pods and Services, for instance
    endpoint_domains: tuple[str, ...] = ()  # --endpoint-domain DOMAIN (repeatable): for names of mesh endpoints, besides mesh.cilium.io
    allowed_annotations: tuple[str, ...] = ()  # --allow-annotation KEY (repeatable): of Services, for globalAnnotations
    allow_unlabelled_secrets: bool = False  # --allow-unlabelled-secrets: kubeconfigs without the label of a workspace
    max_objects_per_workspace: int = DEFAULT.objects  # --max-objects-per-workspace: of all kinds; see bounds.py
    max_bytes_per_workspace: int = DEFAULT.bytes  # --max-bytes-per-workspace 64Mi: as footprint.py estimates their memory
    max_bytes: int = DEFAULT.total_bytes  # --max-bytes 192Mi: of all workspaces together
    max_bindings_per_workspace: int = DEFAULT.bindings  # --max-bindings-per-workspace
    max_fabrics_per_workspace: int = DEFAULT.fabrics  # --max-fabrics-per-workspace
    max_clusters_per_workspace: int = DEFAULT.clusters  # --max-clusters-per-workspace
    max_items_per_mesh: int = DEFAULT.items  # --max-items-per-mesh
    leader_elect: bool = True  # --no-leader-elect
    job_probes: bool = True  # --no-job-probes
    probe_image: str = ""  # --probe-image: of the Jobs of intents that name none
    assign_identities: bool = False  # --assign-identities
    permitted: tuple[str, ...] = LEFT_TO_TENANTS  # --permit CHOICE (repeatable): choices.py
    provider_finalizer: tuple[str, ...] = ()  # --provider-finalizer NAME (repeatable): of a provider that the operator replaces


FLEET_NAMESPACE: Final = "edge-connect-system"  # default of --namespace with --profile fleet
PROFILES: Final = ("mesh", "fleet", "all")
_DURATION: Final = r"(?=.*[1-9])([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}s?)?"
_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAME: Final = rf"{_LABEL}(\.{_LABEL})*"
_DOMAIN: Final = rf"(?!.*(^|\.)(local|localhost|svc|[0-9]+)$)(?!.+\.svc\.){_LABEL}(\.{_LABEL})+"  # as the host variable demands it
_HOST: Final = r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])"
_PORT: Final = r"([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"


# An annotation that the host variable accepts too.
_ANNOTATION: Final = rf"(?=.{{1,253}}/)(?!(.+\.)?cilium-mesh\.edge-portal\.eu/){_NAME}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
# A finalizer with a domain: not the operator's own, and none of Kubernetes and kcp.
_FINALIZER: Final = (
    r"(?![a-z0-9.-]*(kubernetes\.io|k8s\.io|kcp\.io)(/|$))(?!networking\.edge-portal\.eu/[a-z]+-cleanup$)"
    rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})+(/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?)?"
)
_REPEATABLE: Final = {
    "allow_address": "allowed_addresses",
    "deny_address": "denied_addresses",
    "endpoint_domain": "endpoint_domains",
    "allow_annotation": "allowed_annotations",
    "permit": "permitted",
    "provider_finalizer": "provider_finalizer",
}


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Parse flags and environment; exit with status 2 and a sentence on bad input, as argparse does.

    Durations: 30s, 5m, 1h30m, or plain seconds.
    """
    parser = _parser(environment)
    values = vars(parser.parse_args(arguments))
    fleet_alone = values["profile"] == "fleet"
    values["namespace"] = values["namespace"] or (FLEET_NAMESPACE if fleet_alone else values["mgmt_namespace"])
    own_export = Settings.fleet_export_name if fleet_alone else Settings.api_export_name
    values["api_export_name"] = values["api_export_name"] or own_export
    if fleet_alone:
        values["fleet_export_name"] = values["api_export_name"]
    if values["profile"] == "all" and values["fleet_export_name"] == values["api_export_name"]:
        parser.error("--fleet-export-name and --api-export-name are equal: meshes and fleets have an export each")
    if values["profile"] != "mesh" and not values["karmada_kubeconfig"]:
        parser.error("--karmada-kubeconfig is missing: give it, or set the environment variable KARMADA_KUBECONFIG")
    found = ("mgmt_kubeconfig",) if environment.get("KUBERNETES_SERVICE_HOST") else ()  # set by the kubelet in every pod
    needed = ("kcp_kubeconfig",) if values["source"] == "kcp" else ()
    for name in (*needed, "mgmt_kubeconfig", "node_id"):
        if not values[name] and name not in found:
            parser.error(f"--{name.replace('_', '-')} is missing: give it, or set the environment variable {name.upper()}")
    matches = values["mgmt_match"] or [Settings.mgmt_match]
    if len(matches) > 1:
        parser.error("--mgmt-match is given twice: Clusters without the label can belong to one workspace only")
    values["mgmt_match"] = matches[0]
    if values["source"] != "kcp" and values["mgmt_match"] != Settings.mgmt_match:
        parser.error("--mgmt-match name=LOGICAL_CLUSTER needs --source kcp: there is no logical cluster without kcp")
    values |= {name: tuple(values.pop(flag)) for flag, name in _REPEATABLE.items()}
    values["permitted"] = tuple(name for name in values["permitted"] if name != "none") if values["permitted"] else LEFT_TO_TENANTS
    return Settings(**values)


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("mesh-operator", "mesh-operator [flags] | mesh-operator kcp-manifests --help", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"mesh-operator {__version__}")

    def add(flag: str, kind: Callable[[str], object], text: str, *, variable: bool = False) -> None:
        name = flag[2:].replace("-", "_")
        fallback = getattr(Settings, name, "")
        default = environment.get(name.upper()) or fallback if variable else fallback
        shown = f"{fallback:g}s" if isinstance(fallback, float) else fallback
        notes = [f"environment: {name.upper()}"] * variable + [f"default: {shown}"] * bool(fallback)
        parser.add_argument(flag, type=kind, default=default, help=f"{text} ({', '.join(notes)})")

    parser.add_argument(
        "--source",
        choices=("kcp", "kubernetes"),
        default=Settings.source,
        help="where the custom resources are: in workspaces of kcp, or in namespaces of the management plane (default: kcp)",
    )
    parser.add_argument(
        "--profile",
        choices=PROFILES,
        default=Settings.profile,
        help="which custom resources it works for: those of meshes, of fleets, or both (default: mesh)",
    )
    add("--karmada-kubeconfig", str, "kubeconfig of Karmada's API server; required with --profile fleet and all", variable=True)
    text = "kubeconfig of the workspace of the fleet's export, with --profile all; default: that of --kcp-kubeconfig"
    add("--fleet-kcp-kubeconfig", str, text, variable=True)
    add("--kcp-kubeconfig", str, "kubeconfig of the provider's workspace; required with --source kcp", variable=True)
    add("--mgmt-kubeconfig", str, "kubeconfig of the management plane; required, but in a pod of it", variable=True)
    add("--mgmt-namespace", _like(_LABEL, "a namespace"), "namespace of the Clusters and their Secrets", variable=True)
    add("--node-id", _like("[A-Za-z0-9._-]{0,100}", "letters, digits, . _ -"), "stable name of this replica; required", variable=True)
    add("--namespace", _like(f"({_LABEL})?", "a namespace"), "namespace of Lease and records; default: that of the Clusters", variable=True)
    resource = _like(rf"[a-z][a-z0-9]*\.v[0-9][a-z0-9]*\.{_NAME}", "PLURAL.VERSION.GROUP, as clusters.v1beta2.cluster.x-k8s.io")
    add("--mgmt-cluster-resource", resource, "PLURAL.VERSION.GROUP of the Clusters")
    match = _like(rf"label|name={_LABEL}", "label, or name=LOGICAL_CLUSTER of one workspace, as name=1a2b3c4d5e6f7a8b")
    text = "how the Cluster of a workspace is found: by its label, or for that one workspace also by its name (default: label)"
    parser.add_argument("--mgmt-match", type=match, action="append", metavar="MATCH", help=text)
    parser.add_argument(
        "--api-export-name",
        type=_like(_NAME, "a name"),
        help="name of the APIExport and its APIExportEndpointSlice "
        f"(default: {Settings.api_export_name}, with --profile fleet {Settings.fleet_export_name})",
    )
    add("--fleet-export-name", _like(_NAME, "a name"), "name of the APIExport of fleets, with --profile all")
    url = _like(f"(https?://{_HOST}(:{_PORT})?/?)?", "https://HOST or https://HOST:PORT, without user and path")
    add("--kcp-external-url", url, "scheme, host and port instead of those that kcp publishes", variable=True)
    add(
        "--health-addr",
        _like(f"{_HOST}?:{_PORT}", "[HOST]:PORT, as :8081"),
        "[HOST]:PORT of /healthz and /readyz, and of /metrics without --metrics-addr",
    )
    add(
        "--metrics-addr",
        _like(f"({_HOST}?:{_PORT})?", "[HOST]:PORT, as :8082"),
        "[HOST]:PORT of /metrics alone; default: that of the health",
    )
    duration = _like(_DURATION, "a duration above zero; write 30s, 5m, 1h30m or seconds", _seconds)
    add("--reconcile-interval", duration, "how often the operator reads endpoints")
    add("--mesh-check-interval", duration, "how often the operator observes a mesh without a change")
    count = _like("[1-9][0-9]{0,3}", "a number from 1 to 9999", int)
    add("--max-runs", count, "runs at a time")
    add("--max-runs-per-workspace", count, "runs at a time of one workspace")
    number = _like("[1-9][0-9]{0,6}", "a number from 1 to 9999999", int)
    add("--max-objects-per-workspace", number, "objects of one workspace")
    quantity = _like("[1-9][0-9]{0,5}([KMG]i)?", "a quantity, as 32Mi", _bytes)
    add("--max-bytes-per-workspace", quantity, "memory for the objects of one workspace")
    add("--max-bytes", quantity, "memory for the objects of all workspaces together")
    add("--max-bindings-per-workspace", number, "ClusterMeshBindings of one workspace")
    add("--max-fabrics-per-workspace", number, "Fabrics of one workspace")
    add("--max-clusters-per-workspace", number, "KubernetesClusters of one workspace")
    add("--max-items-per-mesh", number, "items of one mesh: GlobalServices and all other kinds together")
    add("--job-timeout", duration, "how long a run may take")
    add("--idle-timeout", duration, "how long a run may print nothing")
    add("--dry-run-timeout", duration, "how long a dry run of up to four clusters may take, and 5s more for each further one")
    add("--dry-run-memory", count, "MiB of memory that a dry run may take")
    add("--teardown-deadline", duration, "time after which a deletion goes on without clusters that cannot be cleaned")
    add("--max-evictions", count, "clusters that the workloads of a namespace may have left because of their state; default: any number")
    add("--orphan-grace", duration, "time before objects of a vanished resource are pruned")
    source = _like("([A-Za-z0-9][-A-Za-z0-9]{0,62})?", "a source, as the line records_of_another_source of the log names it")
    add("--take-over-records", source, "source whose records become those of this one: after a restore", variable=True)
    domain = _like(_DOMAIN, "a domain in lower case, as mesh.example.com, whose names have no meaning inside clusters")
    annotation = _like(_ANNOTATION, "the key of an annotation with a domain, as example.com/team, and none of this project")
    choice = _like(f"{'|'.join(TENANT_CHOICES)}|none|accept=CM-[A-Z]+-[0-9]{{2}}", f"one of {', '.join(TENANT_CHOICES)}, accept=CODE, none")
    finalizer = _like(_FINALIZER, "a finalizer with a domain, and neither the operator's own nor one of Kubernetes or kcp")
    for flag, kind, metavar, text in (
        ("--allow-address", _network, "CIDR", "further addresses of API servers and mesh endpoints that are allowed"),
        ("--deny-address", _network, "CIDR", "further addresses at which nothing is contacted for tenants; --allow-address goes before it"),
        ("--endpoint-domain", domain, "DOMAIN", "further domains in which mesh endpoints may have names"),
        ("--allow-annotation", annotation, "KEY", "further annotations that GlobalServices may set on Services"),
        ("--provider-finalizer", finalizer, "NAME", "finalizers of a stopped provider, which the operator's own replace"),
        ("--permit", choice, "CHOICE", f"what bindings may choose, and nothing else: {', '.join(TENANT_CHOICES)}, accept=CODE, or none"),
    ):
        parser.add_argument(flag, type=kind, action="append", default=[], metavar=metavar, help=text)
    parser.add_argument(
        "--no-job-probes", dest="job_probes", action="store_false", help="make no Job in a tenant's namespace: probes look at flows alone"
    )
    image = _like(r"([A-Za-z0-9][-A-Za-z0-9._:/@]{0,511})?", "an image, as registry.example.com/probe:1.0")
    add("--probe-image", image, "image of the Jobs that probe intents which name none")
    text = "assign a name and an id to clusters that were never meshed, before their first mesh; their Cilium restarts"
    parser.add_argument("--assign-identities", action="store_true", help=text)
    text = "use kubeconfig Secrets without the label of a workspace, if Clusters of one workspace alone name them"
    parser.add_argument("--allow-unlabelled-secrets", action="store_true", help=text)
    parser.add_argument("--no-leader-elect", dest="leader_elect", action="store_false", help="do not elect a leader; for one replica only")
    return parser


def _like(pattern: str, wanted: str, kind: Callable[[str], object] = str) -> Callable[[str], object]:
    def check(text: str) -> object:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"this is not {wanted}")  # not quoted: a URL may hold a password
        return kind(text)

    return check


def _seconds(text: str) -> float:
    return sum(int(number) * {"h": 3600.0, "m": 60.0}.get(unit, 1.0) for number, unit in re.findall("([0-9]+)([hms]?)", text))


def _bytes(text: str) -> int:
    factor = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}.get(text[-2:], 1)
    return int(text.rstrip("KMGi")) * factor


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise argparse.ArgumentTypeError("this is not a CIDR, as 10.0.0.0/8 or 10.1.2.3/32") from None
