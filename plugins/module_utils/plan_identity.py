# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that gives clusters a name and an id: configuration and certificates first, then the restarts in their order. Pure.

cilium-config is read at start only, so operator, agents and clustermesh-apiserver are restarted in this order; a wave is begun when the one
before has rolled out. The pod template is marked with the name and the id it was restarted for: a run that stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from .facts import CertificateFacts, ClusterFacts, TlsSecretFacts, WorkloadFacts
from .identity import Decision, Verdict, claims_of
from .model import MANAGER_DOMAIN, Mesh
from .plan_registry import CONNECT_WAVE, adopted, registry_step
from .registry import Registry
from .relied_on import relied_on
from .steps import NOW, ApiWrite, Minted, Plan, Recipe, Step
from .trust import anchor

WAVE_CLAIM: Final = CONNECT_WAVE
WAVE_CONFIG: Final = 1
WAVE_OPERATOR, WAVE_AGENTS, WAVE_APISERVER = 2, 3, 4
RESTARTED_FOR: Final = f"{MANAGER_DOMAIN}/identity"  # annotation of the pod template: "NAME.ID"
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"  # what kubectl rollout restart sets
CERTIFICATE_DAYS: Final = 365  # the chart's own from 1.20 on

_PLURALS = {"Deployment": "deployments", "DaemonSet": "daemonsets"}


@dataclass(frozen=True, kw_only=True)
class NamedCertificate:
    """A certificate whose common name holds the cluster's, and so has to be issued again; and why that cannot be done here, if so."""

    secret: str
    common_name: str
    obstacle: str = ""


def assignments(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Those that lead to writes in the cluster itself."""
    return tuple(d for d in decisions if d.verdict in (Verdict.ASSIGN, Verdict.RESUME) and d.id is not None)


def registry_after(decisions: Iterable[Decision], facts: Mapping[str, ClusterFacts], registry: Registry) -> Registry:
    """The registry with what runs and is kept as active leases, and with a claim for each cluster that is to be assigned."""
    made = tuple(decisions)
    kept = [facts[d.host] for d in made if d.verdict in (Verdict.LEASED, Verdict.ADOPT)]
    return adopted(registry, kept).with_leases(claims_of(made, facts, registry))


def registry_if_done(decisions: Iterable[Decision], facts: Mapping[str, ClusterFacts], registry: Registry) -> Registry:
    """The registry once what was assigned runs: claims have become leases, and what was claimed in vain is given up."""
    made = tuple(decisions)
    return adopted(registry, [facts[d.host] for d in made if d.host in facts and d.verdict is not Verdict.REFUSE])


def plan_assign(mesh: Mesh, facts: Mapping[str, ClusterFacts], decisions: Iterable[Decision], registry: Registry) -> Plan:
    """Every write of an assignment, in waves: claims, configuration and certificates, operator, agents, clustermesh-apiserver.

    Without a cluster to assign, what runs is put on record.
    """
    made = tuple(decisions)
    after = registry_after(made, facts, registry)
    members = [facts[host] for host in mesh.clusters if host in facts]
    steps = [step for cluster in members if (step := registry_step(mesh, cluster, after, wave=WAVE_CLAIM, why=_why(made)))]
    for decision in assignments(made):
        steps.extend(_steps(facts[decision.host], decision))
    return Plan(
        manager=mesh.binding.manager,
        steps=tuple(sorted(steps, key=lambda step: step.wave)),
        relied_on={cluster.host: relied_on(cluster) for cluster in members},
    )


def _why(decisions: tuple[Decision, ...]) -> str:
    claims = [f"{d.host} gets name {d.name} and id {d.id}" for d in decisions if d.verdict is Verdict.ASSIGN and d.id is not None]
    return f"put on record, before anything else, that {'; '.join(claims)}" if claims else "keep who holds which name and id"


def _steps(cluster: ClusterFacts, decision: Decision) -> Iterator[Step]:
    if config := _config_step(cluster, decision):
        yield config
    for named in named_certificates(cluster, decision.name):
        yield _certificate_step(cluster, named)
    for wave, workload, what in (
        (WAVE_OPERATOR, cluster.operator, "no identity is collected and no pod network handed out until it is back"),
        (WAVE_AGENTS, cluster.agent, "node after node: new pods wait, the datapath goes on"),
        (WAVE_APISERVER, cluster.apiserver, "nobody is connected to it yet"),
    ):
        if workload is not None and (config is not None or not restarted(workload, decision)):
            yield _restart_step(cluster, workload, decision, wave, what)


def restarted(workload: WorkloadFacts, decision: Decision) -> bool:
    """Was its pod template changed for this name and id already?"""
    return workload.pod_annotations.get(RESTARTED_FOR) == mark(decision)


def mark(decision: Decision) -> str:
    """``c3.7``."""
    return f"{decision.name}.{decision.id}"


def _config_step(cluster: ClusterFacts, decision: Decision) -> Step | None:
    if (cluster.name, cluster.id) == (decision.name, decision.id):
        return None
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps/cilium-config"
    data = {"cluster-name": decision.name, "cluster-id": str(decision.id)}
    before = {key: (cluster.config or {}).get(key) for key in data}
    return Step(
        wave=WAVE_CONFIG,
        cluster=cluster.host,
        verb="patch",
        object=f"ConfigMap {cluster.namespace}/cilium-config",
        why=f"the cluster is to be {decision.name} with id {decision.id}",
        undo=", ".join(f"set {key} to {value!r} again" if value is not None else f"remove {key}" for key, value in before.items())
        + ", and restart",
        action=ApiWrite(method="merge", path=path, body={"metadata": {"resourceVersion": cluster.config_version}, "data": data}),
    )


def named_certificates(cluster: ClusterFacts, name: str) -> tuple[NamedCertificate, ...]:
    """Certificates that name the cluster, and not by this name. Common names: chart, templates/clustermesh-apiserver/tls-*."""
    found = []
    for secret, prefix in ((cluster.admin_cert, "admin-"), (cluster.local_cert, "local-"), (cluster.remote_cert, "remote-")):
        certificate = secret.certificate
        if certificate is None or not certificate.common_name.startswith(prefix) or certificate.common_name == f"{prefix}{name}":
            continue
        found.append(NamedCertificate(secret=secret.name, common_name=f"{prefix}{name}", obstacle=_obstacle(cluster, secret)))
    return tuple(found)


def _obstacle(cluster: ClusterFacts, secret: TlsSecretFacts) -> str:
    """Why the certificate cannot be issued from Secret cilium-ca; "" when it can."""
    signer: CertificateFacts | None = anchor(secret)
    own = cluster.ca.certificates[0] if cluster.ca.certificates else None
    if secret.owner == "cert-manager":
        return "cert-manager keeps it, and would put its own back"
    if not cluster.ca.has_key or not cluster.ca.key_matches or own is None:
        return "Secret cilium-ca holds no CA key that fits"
    return "" if signer is not None and signer.public_key == own.public_key else "another CA than that of Secret cilium-ca issued it"


def _certificate_step(cluster: ClusterFacts, named: NamedCertificate) -> Step:
    halves = {"tls.crt": "certificate", "tls.key": "key"}
    data: dict[str, Recipe] = {
        key: Minted(issuer=cluster.host, common_name=named.common_name, days=CERTIFICATE_DAYS, part=part) for key, part in halves.items()
    }
    path = f"/api/v1/namespaces/{cluster.namespace}/secrets/{named.secret}"
    return Step(
        wave=WAVE_CONFIG,
        cluster=cluster.host,
        verb="patch",
        object=f"Secret {cluster.namespace}/{named.secret}",
        why=f"clustermesh-apiserver's etcd knows its users by name: the certificate becomes that of {named.common_name}",
        undo="issue it again by the installation's own method",
        action=ApiWrite(method="merge", path=path, secret_data=data),
    )


def _restart_step(cluster: ClusterFacts, workload: WorkloadFacts, decision: Decision, wave: int, what: str) -> Step:
    path = f"/apis/apps/v1/namespaces/{cluster.namespace}/{_PLURALS[workload.kind]}/{workload.name}"
    annotations = {RESTARTED_AT: NOW, RESTARTED_FOR: mark(decision)}
    body: dict[str, Any] = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    make = partial(Step, wave=wave, cluster=cluster.host, verb="patch", object=f"{workload.kind} {cluster.namespace}/{workload.name}")
    return make(
        why="it reads its name and id when it starts",
        disruption=f"rolling restart of {workload.kind} {workload.name}: {what}",
        undo="none needed",
        action=ApiWrite(method="merge", path=path, body=body),
    )


def part(plan: Plan, *waves: int) -> Plan:
    """The steps of some waves as a plan of their own."""
    return replace(plan, steps=tuple(step for step in plan.steps if step.wave in waves))
