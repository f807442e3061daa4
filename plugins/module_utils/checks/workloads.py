# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Are Cilium's own workloads set up to take part in a mesh? Sources: chart templates of cilium-agent, cilium-operator and
clustermesh-apiserver in 1.15 to 1.20."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

from ..endpoints import Endpoint
from ..facts import ClusterFacts, WorkloadFacts
from ..findings import CheckContext, Cure, Finding, Scope, Severity, check
from ..versions import aliases_in_template, cilium_version, holds
from .wording import config_evidence, enabled, finding, helm, kubectl, lines, listed, setting, where

ENVIRONMENT = "CILIUM_CLUSTERMESH_CONFIG"
CLOCKS = timedelta(seconds=5)  # by which the clocks of a node and of the API server may differ
_NEEDED = "clustermesh.useAPIServer=true"


def _shows(workload: WorkloadFacts, secret: str) -> bool:
    return any(s.kind == "Secret" and s.name == secret for sources in workload.volumes.values() for s in sources)


def _has_folder(facts: ClusterFacts, workload: WorkloadFacts, container: str) -> bool:
    """Is it told where the configurations of peers are: by environment, argument, or a key of cilium-config?"""
    arguments = workload.arguments.get(container, ())
    return (
        bool(workload.environment.get(container, {}).get(ENVIRONMENT))
        or any(a.startswith("--clustermesh-config") for a in arguments)
        or bool(setting(facts, "clustermesh-config"))
    )


@check("CM-INST-05", "Agents do not read the configuration of peers", severity=Severity.BLOCKING, scope=Scope.CLUSTER, cure=Cure.RESTART)
def agents_take_part(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    if facts.config is None or facts.agent is None or "cilium-agent" not in facts.agent.containers:
        return
    missing = [] if _has_folder(facts, facts.agent, "cilium-agent") else [f"environment {ENVIRONMENT} of container cilium-agent"]
    missing += [] if _shows(facts.agent, facts.clustermesh.name) else [f"volume with Secret {facts.clustermesh.name}"]
    if not missing:
        return
    yield finding(
        "CM-INST-05",
        cluster=facts.host,
        summary=f"The agents of {facts.host} are not set up to read the configuration of peers: nothing that is written reaches them",
        evidence=f"{where(facts, 'DaemonSet', 'cilium')} has no {listed(missing)}, which every chart since 1.14 gives it",
        fix=lines("Have the chart make the DaemonSet again:", helm(facts, _NEEDED)),
    )


@check(
    "CM-INST-06", "kvstoremesh does not read the configuration of peers", severity=Severity.BLOCKING, scope=Scope.CLUSTER, cure=Cure.RESTART
)
def kvstoremesh_takes_part(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    if facts.apiserver is None or not facts.runs_kvstoremesh or _shows(facts.apiserver, facts.kvstoremesh.name):
        return
    yield finding(
        "CM-INST-06",
        cluster=facts.host,
        summary=f"kvstoremesh of {facts.host} does not see Secret {facts.kvstoremesh.name}: nothing that is written there reaches it",
        evidence=f"{where(facts, 'Deployment', 'clustermesh-apiserver')} has no volume with that Secret",
        fix=lines("Have the chart make the Deployment again:", helm(facts, _NEEDED, "clustermesh.apiserver.kvstoremesh.enabled=true")),
    )


@check("CM-INST-07", "Cilium runs with an older configuration", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER, cure=Cure.RESTART)
def configuration_is_in_force(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """cilium-config is read at start only, and whether an agent takes part in a mesh is decided then."""
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
    yield finding(
        "CM-INST-07",
        cluster=facts.host,
        summary=f"cilium-config of {facts.host} was changed after {listed(f'{len(pods)} pods of {name}' for name, pods in stale.values())} "
        "started: they may run with other values than the ones that are checked here",
        evidence=f"{where(facts, 'ConfigMap', 'cilium-config')}: last change {changed:%Y-%m-%d %H:%M:%S} UTC; started before: "
        f"{listed([pod for _other, pods in stale.values() for pod in pods], 4)}",
        fix=kubectl(facts, "rollout", "restart", *stale),
    )


def _operator_joins(facts: ClusterFacts) -> bool:
    """EndpointSlice synchronisation since 1.16; MCS-API since 1.17 (the operator's template of 1.16 looks at the first only)."""
    version = cilium_version(facts)
    sync = enabled(facts, "clustermesh-enable-endpoint-sync") and holds("endpoint_sync", version)
    return sync or (enabled(facts, "clustermesh-enable-mcs-api") and holds("operator_mcs", version))


@check("CM-INST-08", "The operator does not take part in the mesh", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER, cure=Cure.RESTART)
def operator_takes_part(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    operator = facts.operator
    if operator is None or not _operator_joins(facts):
        return
    missing = [] if _has_folder(facts, operator, "cilium-operator") else [f"environment {ENVIRONMENT}"]
    missing += [] if _shows(operator, facts.clustermesh.name) else [f"volume with Secret {facts.clustermesh.name}"]
    if not missing:
        return
    keys = ("clustermesh-enable-endpoint-sync", "clustermesh-enable-mcs-api")
    value = "clustermesh.mcsapi.enabled" if holds("mcs_api_value", cilium_version(facts)) else "clustermesh.enableMCSAPISupport"
    values = [
        f"{name}=true"
        for key, name in zip(keys, ("clustermesh.enableEndpointSliceSynchronization", value), strict=True)
        if enabled(facts, key)
    ]
    yield finding(
        "CM-INST-08",
        cluster=facts.host,
        summary=f"EndpointSlices or ServiceExports are to be synchronised in {facts.host}, but its cilium-operator does not read the mesh",
        evidence=f"{config_evidence(facts, *keys)}; {where(facts, 'Deployment', operator.name)} has no {listed(missing)}",
        fix=lines("Have the chart make the operator's Deployment again:", helm(facts, *values)),
    )


@check("CM-INST-09", "cilium-operator is not ready", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER)
def operator_is_ready(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    operator = facts.operator
    if operator is None or operator.ready > 0:
        return
    yield finding(
        "CM-INST-09",
        cluster=facts.host,
        summary=f"No pod of cilium-operator is ready in cluster {facts.host}: new nodes get no pod range, and old identities stay",
        evidence=f"{where(facts, 'Deployment', operator.name)}: {operator.ready} of {operator.desired} ready",
        fix=kubectl(facts, "describe", "deployment", operator.name),
    )


@check("CM-INST-10", "CiliumEndpoints are switched off", severity=Severity.BLOCKING, scope=Scope.CLUSTER, cure=Cure.RESTART)
def endpoints_are_objects(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """clustermesh-apiserver publishes what these objects say; the chart refuses the combination (templates/validate.yaml)."""
    if not enabled(facts, "disable-endpoint-crd"):
        return
    yield finding(
        "CM-INST-10",
        cluster=facts.host,
        summary=f"Cluster {facts.host} makes no CiliumEndpoints, so clustermesh-apiserver has no pods to publish",
        evidence=config_evidence(facts, "disable-endpoint-crd"),
        fix=lines(helm(facts, "disableEndpointCRD=false"), kubectl(facts, "rollout", "restart", "daemonset/cilium")),
    )


@check("CM-INST-11", "The operator cannot resolve the names of peers", severity=Severity.REMEDIABLE, scope=Scope.CLUSTER, cure=Cure.RESTART)
def operator_resolves_peers(context: CheckContext, facts: ClusterFacts) -> Iterator[Finding]:
    """Without kvstoremesh the operator dials peers itself, before 1.20 by its own hostAliases, which connect does not write."""
    operator = facts.operator
    if operator is None or facts.runs_kvstoremesh or not _operator_joins(facts) or not aliases_in_template(cilium_version(facts)):
        return
    known = {name for alias in operator.host_aliases for name in alias.hostnames}
    wanted: dict[str, list[str]] = {}
    for peer in context.mesh.peers(facts.host):
        endpoint = context.choices.endpoint_for(facts, context.facts[peer]) if peer in context.facts else None
        if isinstance(endpoint, Endpoint) and endpoint.ips and endpoint.hostname not in known:
            for ip in endpoint.ips:
                wanted.setdefault(ip, []).append(endpoint.hostname)
    if not wanted:
        return
    aliases = [{"ip": ip, "hostnames": names} for ip, names in sorted(wanted.items())]
    patch = json.dumps({"spec": {"template": {"spec": {"hostAliases": aliases}}}}, separators=(",", ":"))
    names = sorted({name for found in wanted.values() for name in found})
    yield finding(
        "CM-INST-11",
        cluster=facts.host,
        summary=f"cilium-operator of {facts.host} dials peers itself and cannot resolve {listed(names, 3)}",
        evidence=f"{where(facts, 'Deployment', operator.name)} spec.template.spec.hostAliases; kvstoremesh does not run; "
        f"{config_evidence(facts, 'clustermesh-enable-endpoint-sync', 'clustermesh-enable-mcs-api')}",
        fix=lines(
            helm(facts, "clustermesh.apiserver.kvstoremesh.enabled=true"),
            "Or give the operator the names (again after every change of an address):",
            kubectl(facts, "patch", "deployment", operator.name, "--type=strategic", f"--patch={patch}"),
        ),
    )
