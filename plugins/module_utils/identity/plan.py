# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The plan that assigns names and ids to clusters: configuration and certificates first, then the restarts in their order. Pure.

cilium-config is read at start only, so operator, agents and clustermesh-apiserver are restarted in this order; a wave is begun when the one
before has rolled out. An annotation of the pod template records the name and the id of the restart, so that the next run continues an
interrupted one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ..leases.plan import CONNECT_WAVE, copies_after, registry_steps, with_active_leases
from ..leases.registry import Registry
from ..links.fingerprint import facts_fingerprint
from ..mesh.binding.model import MANAGER_DOMAIN, Mesh
from ..mesh.facts.cluster import CertificateFacts, ClusterFacts, TlsSecretFacts, WorkloadFacts
from ..mesh.trust.link_trust import anchor
from ..plan.patches import patch_step
from ..plan.steps import NOW, Minted, Plan, Recipe, Step
from .decide import IdentityDecision, IdentityVerdict, reserved_leases

WAVE_CLAIM: Final = CONNECT_WAVE
WAVE_CONFIG: Final = 1
WAVE_OPERATOR, WAVE_AGENTS, WAVE_APISERVER = 2, 3, 4
RESTARTED_FOR: Final = f"{MANAGER_DOMAIN}/identity"  # annotation of the pod template: "NAME.ID"
RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"  # kubectl rollout restart sets the same annotation
CERTIFICATE_DAYS: Final = 365  # the chart's own from 1.20 on


@dataclass(frozen=True, kw_only=True)
class NamedCertificate:
    """Certificate whose common name holds the cluster's, so that it has to be issued again. ``obstacle``: why that cannot be done."""

    secret: str
    common_name: str
    obstacle: str = ""


def assignments(decisions: Iterable[IdentityDecision]) -> tuple[IdentityDecision, ...]:
    """Return the decisions that lead to writes in the cluster itself."""
    return tuple(d for d in decisions if d.verdict in (IdentityVerdict.ASSIGN, IdentityVerdict.RESUME) and d.id is not None)


def registry_after(decisions: Iterable[IdentityDecision], facts: Mapping[str, ClusterFacts], registry: Registry) -> Registry:
    """Return the registry with the kept names and ids as active leases, and with a claim for each cluster that is to be assigned."""
    made = tuple(decisions)
    kept = [facts[d.host] for d in made if d.verdict in (IdentityVerdict.LEASED, IdentityVerdict.ADOPT)]
    return with_active_leases(registry, kept).with_leases(reserved_leases(made, facts, registry))


def registry_if_done(decisions: Iterable[IdentityDecision], facts: Mapping[str, ClusterFacts], registry: Registry) -> Registry:
    """Return the registry once the assigned names and ids run: claims have become leases, and claims made in vain are released."""
    made = tuple(decisions)
    return with_active_leases(registry, [facts[d.host] for d in made if d.host in facts and d.verdict is not IdentityVerdict.REFUSE])


def plan_assign(mesh: Mesh, facts: Mapping[str, ClusterFacts], decisions: Iterable[IdentityDecision], registry: Registry) -> Plan:
    """Plan every write of an assignment, in waves: claims, configuration and certificates, operator, agents, clustermesh-apiserver.

    Without a cluster to assign, the names and ids in use are recorded as leases.
    """
    made = tuple(decisions)
    members = mesh.members_in(facts)
    after = copies_after(mesh, members, registry_after(made, facts, registry))
    steps = registry_steps(mesh, members.values(), after, wave=WAVE_CLAIM, why=_registry_reason(made))
    for decision in assignments(made):
        steps.extend(_steps(facts[decision.host], decision))
    return Plan(
        manager=mesh.binding.manager,
        steps=tuple(sorted(steps, key=lambda step: step.wave)),
        relied_on={cluster.host: facts_fingerprint(cluster) for cluster in members.values()},
    )


def _registry_reason(decisions: tuple[IdentityDecision, ...]) -> str:
    claims = [f"{d.host} gets name {d.name} and id {d.id}" for d in decisions if d.verdict is IdentityVerdict.ASSIGN and d.id is not None]
    return f"record, before anything else, that {'; '.join(claims)}" if claims else "record the leases of names and ids"


def _steps(cluster: ClusterFacts, decision: IdentityDecision) -> Iterator[Step]:
    if config := _config_step(cluster, decision):
        yield config
    for named in named_certificates(cluster, decision.name):
        yield _certificate_step(cluster, named)
    agents = "node by node: new pods wait, the datapath keeps working"
    if cluster.name != decision.name:  # the name is a label of every pod, and selectors of policies mean the own cluster from 1.19 on
        agents += "; meanwhile policies that mean the own cluster refuse pods of nodes that run under the other name"
    for wave, workload, what in (
        (WAVE_OPERATOR, cluster.operator, "it collects no identities and assigns no pod networks until it is back"),
        (WAVE_AGENTS, cluster.agent, agents),
        (WAVE_APISERVER, cluster.apiserver, "no peer is connected to it yet"),
    ):
        if workload is not None and (config is not None or not restarted(workload, decision)):
            yield _restart_step(cluster, workload, decision, wave, what)


def restarted(workload: WorkloadFacts, decision: IdentityDecision) -> bool:
    """Return whether the workload's pod template was changed for this name and id already."""
    return workload.pod_annotations.get(RESTARTED_FOR) == restart_mark(decision)


def restart_mark(decision: IdentityDecision) -> str:
    """Return the annotation value for a name and id, e.g. ``c3.7``."""
    return f"{decision.name}.{decision.id}"


def _config_step(cluster: ClusterFacts, decision: IdentityDecision) -> Step | None:
    if (cluster.name, cluster.id) == (decision.name, decision.id):
        return None
    data = {"cluster-name": decision.name, "cluster-id": str(decision.id)}
    before = {key: (cluster.config or {}).get(key) for key in data}
    return patch_step(
        WAVE_CONFIG,
        cluster,
        "ConfigMap cilium-config",
        why=f"the cluster is to be {decision.name} with id {decision.id}",
        undo=", ".join(f"set {key} to {value!r} again" if value is not None else f"remove {key}" for key, value in before.items())
        + ", and restart",
        body={"metadata": {"resourceVersion": cluster.config_version}, "data": data},
    )


def named_certificates(cluster: ClusterFacts, name: str) -> tuple[NamedCertificate, ...]:
    """Return certificates that name the cluster by another name than ``name``.

    Common names: chart, templates/clustermesh-apiserver/tls-*.
    """
    found = []
    for secret, prefix in ((cluster.admin_cert, "admin-"), (cluster.local_cert, "local-"), (cluster.remote_cert, "remote-")):
        certificate = secret.certificate
        if certificate is None or not certificate.common_name.startswith(prefix) or certificate.common_name == f"{prefix}{name}":
            continue
        found.append(NamedCertificate(secret=secret.name, common_name=f"{prefix}{name}", obstacle=_obstacle(cluster, secret)))
    return tuple(found)


def _obstacle(cluster: ClusterFacts, secret: TlsSecretFacts) -> str:
    """Return why the certificate cannot be issued from Secret cilium-ca; "" if it can."""
    signer: CertificateFacts | None = anchor(secret)
    own = cluster.ca.certificates[0] if cluster.ca.certificates else None
    if secret.owner == "cert-manager":
        return "cert-manager manages it and would restore its own certificate"
    if not cluster.ca.has_key or not cluster.ca.key_matches or own is None:
        return "Secret cilium-ca holds no CA key that fits"
    return "" if signer is not None and signer.public_key == own.public_key else "another CA than that of Secret cilium-ca issued it"


def _certificate_step(cluster: ClusterFacts, named: NamedCertificate) -> Step:
    halves = {"tls.crt": "certificate", "tls.key": "key"}
    data: dict[str, Recipe] = {
        key: Minted(issuer=cluster.host, common_name=named.common_name, days=CERTIFICATE_DAYS, part=part) for key, part in halves.items()
    }
    return patch_step(
        WAVE_CONFIG,
        cluster,
        f"Secret {named.secret}",
        why=f"clustermesh-apiserver's etcd knows its users by name: the certificate becomes that of {named.common_name}",
        undo="issue it again by the installation's own method",
        secret_data=data,
    )


def _restart_step(cluster: ClusterFacts, workload: WorkloadFacts, decision: IdentityDecision, wave: int, what: str) -> Step:
    annotations = {RESTARTED_AT: NOW, RESTARTED_FOR: restart_mark(decision)}
    body: dict[str, Any] = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    return patch_step(
        wave,
        cluster,
        f"{workload.kind} {workload.name}",
        why="it reads its name and id when it starts",
        disruption=f"rolling restart of {workload.kind} {workload.name}: {what}",
        undo="none needed",
        body=body,
    )


def plan_of_waves(plan: Plan, *waves: int) -> Plan:
    """Return the steps of some waves as a plan of their own."""
    return replace(plan, steps=tuple(step for step in plan.steps if step.wave in waves))
