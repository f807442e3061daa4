# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that Cilium's own workloads are set up to take part in a mesh.

Sources: chart templates of cilium-agent, cilium-operator and clustermesh-apiserver in 1.15 to 1.20.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

from ..findings.wording import config_evidence, helm, kubectl, lines, listed, where
from ..mesh.endpoints.endpoint import MeshEndpoint
from ..mesh.facts.cluster import ClusterFacts, WorkloadFacts
from ..mesh.versions.cilium_config import enabled, setting
from ..mesh.versions.minors import aliases_in_template, cilium_version, holds
from .context import CheckContext
from .flaw import Flaw
from .registry import check

ENVIRONMENT = "CILIUM_CLUSTERMESH_CONFIG"
CLOCKS = timedelta(seconds=5)  # tolerated difference between the clocks of a node and of the API server
_NEEDED = "clustermesh.useAPIServer=true"


def _mounts_secret(workload: WorkloadFacts, secret: str) -> bool:
    """Return whether a volume of the workload contains the Secret."""
    return any(s.kind == "Secret" and s.name == secret for sources in workload.volumes.values() for s in sources)


def _knows_peer_folder(facts: ClusterFacts, workload: WorkloadFacts, container: str) -> bool:
    """Return whether environment, arguments or cilium-config name the folder with the configurations of peers."""
    arguments = workload.arguments.get(container, ())
    return (
        bool(workload.environment.get(container, {}).get(ENVIRONMENT))
        or any(a.startswith("--clustermesh-config") for a in arguments)
        or bool(setting(facts, "clustermesh-config"))
    )


@check("CM-INST-05")
def agents_read_peer_configuration(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report agents that are not set up to read the configuration of peers."""
    if facts.config is None or facts.agent is None or "cilium-agent" not in facts.agent.containers:
        return
    missing = [] if _knows_peer_folder(facts, facts.agent, "cilium-agent") else [f"environment {ENVIRONMENT} of container cilium-agent"]
    missing += [] if _mounts_secret(facts.agent, facts.clustermesh.name) else [f"volume with Secret {facts.clustermesh.name}"]
    if not missing:
        return
    yield Flaw(
        summary=f"The agents of {facts.host} are not set up to read the configuration of peers: nothing that is written reaches them",
        evidence=f"{where(facts, 'DaemonSet', 'cilium')} has no {listed(missing)}, which every chart since 1.14 gives it",
        fix=lines("Have the chart make the DaemonSet again:", helm(facts, _NEEDED)),
    )


@check("CM-INST-06")
def kvstoremesh_reads_peer_configuration(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a kvstoremesh that does not mount the Secret with the peers."""
    if facts.apiserver is None or not facts.runs_kvstoremesh or _mounts_secret(facts.apiserver, facts.kvstoremesh.name):
        return
    yield Flaw(
        summary=f"kvstoremesh of {facts.host} does not see Secret {facts.kvstoremesh.name}: nothing that is written there reaches it",
        evidence=f"{where(facts, 'Deployment', 'clustermesh-apiserver')} has no volume with that Secret",
        fix=lines("Have the chart make the Deployment again:", helm(facts, _NEEDED, "clustermesh.apiserver.kvstoremesh.enabled=true")),
    )


@check("CM-INST-07")
def pods_started_after_configuration_change(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report pods that started before the last change of cilium-config.

    Cilium reads cilium-config at start only, and decides then whether an agent takes part in a mesh.
    """
    if facts.config_changed is None:
        return
    changed = facts.config_changed
    rows = (
        ("daemonset/cilium", "cilium-agent", facts.agent_pods),
        ("deployment/clustermesh-apiserver", "clustermesh-apiserver", facts.apiserver_pods),
    )
    old = {
        workload: (name, [pod.name for pod in pods if pod.started is not None and pod.started + CLOCKS < changed])
        for workload, name, pods in rows
    }
    stale = {workload: entry for workload, entry in old.items() if entry[1]}
    if not stale:
        return
    yield Flaw(
        summary=f"cilium-config of {facts.host} was changed after {listed(f'{len(pods)} pods of {name}' for name, pods in stale.values())} "
        "started: they may run with other values than the checked ones",
        evidence=f"{where(facts, 'ConfigMap', 'cilium-config')}: last change {changed:%Y-%m-%d %H:%M:%S} UTC; started before: "
        f"{listed([pod for _other, pods in stale.values() for pod in pods], 4)}",
        fix=kubectl(facts, "rollout", "restart", *stale),
    )


def _operator_joins(facts: ClusterFacts) -> bool:
    """Return whether cilium-operator has to read the mesh.

    It does for EndpointSlice synchronisation since 1.16, and for MCS-API since 1.17 (the operator's template of 1.16 tests the first
    one only).
    """
    version = cilium_version(facts)
    return enabled(facts, "clustermesh-enable-endpoint-sync") or (
        enabled(facts, "clustermesh-enable-mcs-api") and holds("operator_mcs", version)
    )


@check("CM-INST-08")
def operator_reads_peer_configuration(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cilium-operator that is not set up to read the configuration of peers."""
    operator = facts.operator
    if operator is None or not _operator_joins(facts):
        return
    missing = [] if _knows_peer_folder(facts, operator, "cilium-operator") else [f"environment {ENVIRONMENT}"]
    missing += [] if _mounts_secret(operator, facts.clustermesh.name) else [f"volume with Secret {facts.clustermesh.name}"]
    if not missing:
        return
    keys = ("clustermesh-enable-endpoint-sync", "clustermesh-enable-mcs-api")
    value = "clustermesh.mcsapi.enabled" if holds("mcs_api_value", cilium_version(facts)) else "clustermesh.enableMCSAPISupport"
    values = [
        f"{name}=true"
        for key, name in zip(keys, ("clustermesh.enableEndpointSliceSynchronization", value), strict=True)
        if enabled(facts, key)
    ]
    yield Flaw(
        summary=f"EndpointSlices or ServiceExports are to be synchronised in {facts.host}, but its cilium-operator does not read the mesh",
        evidence=f"{config_evidence(facts, *keys)}; {where(facts, 'Deployment', operator.name)} has no {listed(missing)}",
        fix=lines("Have the chart make the operator's Deployment again:", helm(facts, *values)),
    )


@check("CM-INST-09")
def operator_is_ready(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cilium-operator without a ready pod."""
    operator = facts.operator
    if operator is None or operator.ready > 0:
        return
    yield Flaw(
        summary=f"No pod of cilium-operator is ready in cluster {facts.host}: new nodes get no pod range, and old identities stay",
        evidence=f"{where(facts, 'Deployment', operator.name)}: {operator.ready} of {operator.desired} ready",
        fix=kubectl(facts, "describe", "deployment", operator.name),
    )


@check("CM-INST-10")
def cilium_endpoints_are_enabled(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster without CiliumEndpoints.

    clustermesh-apiserver publishes these objects; the chart refuses the combination (templates/validate.yaml).
    """
    if not enabled(facts, "disable-endpoint-crd"):
        return
    yield Flaw(
        summary=f"Cluster {facts.host} makes no CiliumEndpoints, so clustermesh-apiserver has no pods to publish",
        evidence=config_evidence(facts, "disable-endpoint-crd"),
        fix=lines(helm(facts, "disableEndpointCRD=false"), kubectl(facts, "rollout", "restart", "daemonset/cilium")),
    )


@check("CM-INST-11")
def operator_resolves_peers(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cilium-operator that dials peers by names that it cannot resolve.

    Without kvstoremesh the operator dials peers itself. Before 1.20 it resolves them by its own hostAliases, which connect does not
    write.
    """
    operator = facts.operator
    if operator is None or facts.runs_kvstoremesh or not _operator_joins(facts) or not aliases_in_template(cilium_version(facts)):
        return
    known = {name for alias in operator.host_aliases for name in alias.hostnames}
    wanted: dict[str, list[str]] = {}
    for peer in context.mesh.peers(facts.host):
        endpoint = context.decisions.dialled[facts.host][peer] if peer in context.facts else None
        if isinstance(endpoint, MeshEndpoint) and endpoint.ips and endpoint.hostname not in known:
            for ip in endpoint.ips:
                wanted.setdefault(ip, []).append(endpoint.hostname)
    if not wanted:
        return
    aliases = [{"ip": ip, "hostnames": names} for ip, names in sorted(wanted.items())]
    patch = json.dumps({"spec": {"template": {"spec": {"hostAliases": aliases}}}}, separators=(",", ":"))
    names = sorted({name for found in wanted.values() for name in found})
    yield Flaw(
        summary=f"cilium-operator of {facts.host} dials peers itself and cannot resolve {listed(names, 3)}",
        evidence=f"{where(facts, 'Deployment', operator.name)} spec.template.spec.hostAliases; kvstoremesh does not run; "
        f"{config_evidence(facts, 'clustermesh-enable-endpoint-sync', 'clustermesh-enable-mcs-api')}",
        fix=lines(
            helm(facts, "clustermesh.apiserver.kvstoremesh.enabled=true"),
            "Or give the operator the names (again after every change of an address):",
            kubectl(facts, "patch", "deployment", operator.name, "--type=strategic", f"--patch={patch}"),
        ),
    )
