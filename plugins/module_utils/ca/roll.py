# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Roll of a CA without a dropped link, one stage after the other; pure: an observation in, the next steps out.

Each call decides from the observed state alone, so a roll may be killed anywhere and goes on. A state of a later stage satisfies
every earlier one, so clusters that a kill left in different stages meet again in the earliest.

Invariants (``ca/roll_inputs.py`` says which processes are read):

1. Before any process presents a certificate of the next CA, every process that may receive it trusts both. An etcd reads which
   clients it accepts only when it starts, and a client reads which servers it trusts only when it connects; so ``trust`` restarts
   the one and touches the other's configuration.
2. Every client's certificate changes before the server's, since certgen and cert-manager write ``ca.crt`` with the next CA alone: an
   etcd that starts at that moment would refuse clients of the old one.
3. The old CA is dropped after no process presents a certificate of it. With a shared CA the links use separate certificates
   meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from ..findings.finding import Finding
from ..mesh.facts.cluster import ClusterFacts, TlsSecretFacts
from ..mesh.ownership.objects import labels_of_new_object
from ..mesh.trust.ca_roll import MARK, Roll, RollStage, keys_secret, write_roll
from ..mesh.trust.issuing import CA_SECRET, leaves_of
from ..plan.patches import patch_step
from ..plan.steps import NOW, ApiWrite, FromSecret, NewAuthority, Recipe, Step
from .reissue import WAVE, client_steps, server_steps, write_ca
from .roll_inputs import RollInputs, StageWait, digest_of_text, pod_waits, reader_waits, serials, stale_leaves
from .signing import COMMON_NAME

RESTARTED: Final = "cilium.io/caBundleChangeRestartedAt"  # pod annotation that the cilium CLI changes for the same purpose
PROJECTED: Final = timedelta(seconds=150)  # a kubelet brings a changed Secret into its pods within two minutes
ROLLOUT: Final = "rolling restart of Deployment clustermesh-apiserver: etcd reads the CAs of the clients that it accepts only at its start"


@dataclass(frozen=True, kw_only=True)
class RollRequest:
    """What the user requested of a roll.

    ``source`` is the cluster whose CA the others take; with "" each group that shares a CA gets a new one.
    """

    clusters: tuple[str, ...]  # inventory names, in the mesh's order
    days: int
    source: str = ""
    until: RollStage = RollStage.DROP


@dataclass(frozen=True, kw_only=True)
class RollPlan:
    """The next steps of a roll. Without steps and waits in a stage, the next plan moves on."""

    stage: RollStage | None  # None: no CA is to be rolled
    clusters: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    waits: tuple[StageWait, ...] = ()
    problems: tuple[Finding, ...] = field(default_factory=tuple)
    proven: bool = False  # the whole stage is proven; ``steps`` enter the next one, or end the roll
    ends: bool = False  # ``steps`` end it


def plan_roll(inputs: RollInputs, request: RollRequest) -> RollPlan:
    """Return the next steps of a roll."""
    marked = inputs.marked()
    if not marked:
        left = tuple(_delete_keys(inputs, host) for host in inputs.rolls if _is_left_over(inputs, host))
        if left:  # killed between the two last writes
            return RollPlan(stage=RollStage.DROP, clusters=tuple(step.cluster for step in left), steps=left, proven=True, ends=True)
        if not request.clusters:
            return RollPlan(stage=None)
    stage = min((roll.stage for roll in marked.values()), key=lambda s: s.place, default=RollStage.PREPARE)
    if stage is RollStage.PREPARE:
        hosts = tuple(host for host in inputs.mesh.clusters if host in marked or host in request.clusters)
        return _prepare(inputs, request, hosts, marked)
    return _staged(inputs, request, stage, marked)


def _prepare(inputs: RollInputs, request: RollRequest, hosts: tuple[str, ...], marked: dict[str, Roll]) -> RollPlan:
    steps = [step for host in hosts if host not in marked for step in _store_next_ca(inputs, request, host, hosts)]
    waits = inputs.links
    proven = not steps and not waits
    if proven and request.until is not RollStage.PREPARE:
        steps = [_enter_stage(inputs, host, marked[host], RollStage.TRUST) for host in hosts]
    return RollPlan(stage=RollStage.PREPARE, clusters=hosts, steps=tuple(steps), waits=waits if not steps else (), proven=proven)


def _staged(inputs: RollInputs, request: RollRequest, stage: RollStage, marked: dict[str, Roll]) -> RollPlan:
    hosts = tuple(marked)
    steps = [*inputs.connect, *(step for host, roll in marked.items() if roll.stage is stage for step in _stage_steps(inputs, host, roll))]
    steps.sort(key=lambda step: step.wave)
    waits: tuple[StageWait, ...] = ()
    if not steps:
        waits = (*(wait for host, roll in marked.items() for wait in _stage_waits(inputs, host, roll, stage)), *inputs.links)
        if stage is RollStage.DROP:
            waits = (*waits, *_kubelet_waits(inputs, hosts))
        steps = [] if stage is RollStage.LEAVES and _has_stale_leaves(inputs, marked) else _restart_steps(inputs, marked, stage)
    proven = not steps and not waits
    ends = proven and stage is RollStage.DROP
    if ends:
        steps = [step for host in hosts for step in _final_steps(inputs, host)]
    elif proven and stage is not request.until and stage.place < request.until.place:
        following = list(RollStage)[stage.place + 1]
        steps = [_enter_stage(inputs, host, roll, following) for host, roll in marked.items() if roll.stage is stage]
    return RollPlan(stage=stage, clusters=hosts, steps=tuple(steps), waits=waits, proven=proven, ends=ends)


def _stage_steps(inputs: RollInputs, host: str, roll: Roll) -> Iterator[Step]:
    """Yield what a stage writes in a cluster besides links."""
    facts = inputs.facts[host]
    known, stale = inputs.rolls[host], stale_leaves(inputs, host)
    if roll.stage is RollStage.TRUST:
        # Processes beside etcd read their trust from the admin certificate's Secret. It comes first, then the clients of etcd.
        yield from _both_cas_steps(facts, (facts.admin_cert, facts.server_cert), roll)
    elif roll.stage is RollStage.CLIENTS:
        clients = tuple(leaf for leaf in stale if leaf.name != facts.server_cert.name)
        yield from client_steps(facts, known.issuing, clients, roll)
        fresh = tuple(leaf for leaf in (facts.admin_cert, facts.server_cert) if leaf not in clients)
        yield from _both_cas_steps(facts, fresh, roll)
    elif roll.stage is RollStage.LEAVES:
        yield from server_steps(facts, known.issuing, known.job, stale, roll)
        if not stale and not known.job.present:
            yield from _both_cas_steps(facts, (facts.server_cert,), roll)
            yield from _next_ca_only_steps(facts, roll)
    elif facts.server_cert.digests.get("ca.crt") != digest_of_text(roll.new):
        why = "its mesh etcd is to accept clients of the next CA alone"
        yield write_ca(facts, facts.server_cert, roll.new, why, undo="write both CAs again")


def _both_cas_steps(facts: ClusterFacts, leaves: tuple[TlsSecretFacts, ...], roll: Roll) -> Iterator[Step]:
    """Yield the steps that write both CAs as ``ca.crt`` of the ``leaves``."""
    for leaf in leaves:
        if leaf.present and leaf.digests.get("ca.crt") != digest_of_text(roll.bundle):
            who = "its mesh etcd accepts clients of" if leaf.name == facts.server_cert.name else "the processes beside its mesh etcd trust"
            undo = "the cluster's own certificate job, or helm upgrade, writes its CA alone again"
            yield write_ca(facts, leaf, roll.bundle, f"{who} the old and the next CA, for the time of the roll", undo)


def _next_ca_only_steps(facts: ClusterFacts, roll: Roll) -> Iterator[Step]:
    """Yield the steps that write the next CA alone again as ``ca.crt`` of the cluster's own clients."""
    for leaf in leaves_of(facts):
        if leaf.name != facts.server_cert.name and leaf.digests.get("ca.crt") == digest_of_text(roll.bundle):
            undo = "write both CAs again"
            yield write_ca(facts, leaf, roll.new, "what it is used with shows certificates of the next CA alone", undo)


def _stage_waits(inputs: RollInputs, host: str, roll: Roll, stage: RollStage) -> Iterator[StageWait]:
    """Yield what is not proven of a cluster yet, in the earliest stage of the roll; ``roll.stage`` may be the one after it."""
    both, new = serials(roll.bundle), serials(roll.new)
    if stage is RollStage.DROP:
        yield from reader_waits(inputs, host, new, exact=True, client=False)
        yield from pod_waits(inputs, host, old=False, new=True)
        return
    trusted = new if roll.stage is RollStage.DROP else both
    yield from reader_waits(inputs, host, trusted, exact=False, client=stage is not RollStage.TRUST)
    yield from pod_waits(inputs, host, old=None, new=True, serves="new" if stage is RollStage.LEAVES else "")
    if stage is not RollStage.TRUST:
        server = inputs.facts[host].server_cert.name
        names = [leaf.name for leaf in stale_leaves(inputs, host) if stage is RollStage.LEAVES or leaf.name != server]
        if names:
            yield StageWait(cluster=host, text=f"{', '.join(names)} of {host}: not issued by the next CA yet")
        elif inputs.rolls[host].job.present:
            yield StageWait(cluster=host, text=f"the Job of {host} that issues certificates again has not ended yet")


def _kubelet_waits(inputs: RollInputs, hosts: tuple[str, ...]) -> Iterator[StageWait]:
    """Yield clusters whose agents may not have the new remote certificate yet.

    Links over the files common-etcd-client* come back when the roll is over. Pods of kvstoremesh were started since those files are the
    next CA's; agents that dial the peers themselves were not, and a kubelet takes time to update the files.
    """
    for host in hosts:
        facts = inputs.facts[host]
        changed = facts.remote_cert.changed
        if not facts.runs_kvstoremesh and changed is not None and inputs.now - changed < PROJECTED:
            yield StageWait(cluster=host, text=f"its new remote certificate may not have reached the agents of {host} yet")


def _has_stale_leaves(inputs: RollInputs, marked: dict[str, Roll]) -> bool:
    return any(stale_leaves(inputs, host) for host in marked)


def _restart_steps(inputs: RollInputs, marked: dict[str, Roll], stage: RollStage) -> list[Step]:
    """Return restarts of Deployments whose etcd started before its Secret had the present content.

    Which clients a pod accepts was tried, not inferred.
    """
    found = []
    for host, roll in marked.items():
        if roll.stage is not stage or not inputs.settled(host):
            continue
        pods = [pod for pod in inputs.rolls[host].pods if not pod.problem]
        late = any(pod.accepts_old for pod in pods) if stage is RollStage.DROP else any(not pod.accepts_new for pod in pods)
        if late:
            found.append(_restart_step(inputs.facts[host], stage))
    return found


def _restart_step(facts: ClusterFacts, stage: RollStage) -> Step:
    accepted = "of the next CA alone" if stage is RollStage.DROP else "of both CAs"
    return patch_step(
        WAVE,
        facts,
        "Deployment clustermesh-apiserver",
        why=f"its mesh etcd has to start again to accept clients {accepted}; the new pod is ready before the old one goes",
        disruption=ROLLOUT,
        undo="kubectl rollout undo, after ca.crt of the server certificate's Secret is the old one again",
        body={"spec": {"template": {"metadata": {"annotations": {RESTARTED: NOW}}}}},
    )


def _store_next_ca(inputs: RollInputs, request: RollRequest, host: str, hosts: tuple[str, ...]) -> Iterator[Step]:
    """Yield the steps that store the next CA beside the present one, then the mark that says so."""
    facts, keys = inputs.facts[host], inputs.rolls[host].keys
    name = keys_secret(inputs.owner)
    if keys.present and (not keys.complete or digest_of_text(keys.old) != facts.ca.digest):
        yield _delete_keys(inputs, host, "it does not hold the present CA, so no roll goes on from it")
    elif keys.present:
        roll = Roll(stage=RollStage.PREPARE, owner=inputs.owner, old=keys.old, new=keys.new)
        yield _mark_step(facts, roll, why="record that the CA is being rolled, so that every connect trusts both")
    else:
        old: dict[str, Recipe] = {f"old.{part}": FromSecret(host, CA_SECRET, f"ca.{part}") for part in ("crt", "key")}
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": name, "namespace": facts.namespace, "labels": labels_of_new_object(inputs.mesh.binding)},
        }
        yield Step(
            wave=WAVE,
            cluster=host,
            verb="create",
            object=f"Secret {facts.namespace}/{name}",
            why=f"keep the present CA, and {_origin_text(request, inputs, host, hosts)} as the next one, until the roll is done",
            undo="delete it, as long as cilium-ca is the old CA",
            action=ApiWrite(
                method="create",
                path=f"/api/v1/namespaces/{facts.namespace}/secrets",
                body=body,
                secret_data={**old, **_next_ca(request, inputs, host, hosts)},
            ),
        )


def _cluster_with_next_ca(inputs: RollInputs, host: str, hosts: tuple[str, ...]) -> str:
    """Return another cluster of the roll with the same present CA that already stores the next one; "" without one."""
    group = inputs.facts[host].ca.digest
    return next((h for h in hosts if h != host and inputs.rolls[h].keys.complete and digest_of_text(inputs.rolls[h].keys.old) == group), "")


def _origin_text(request: RollRequest, inputs: RollInputs, host: str, hosts: tuple[str, ...]) -> str:
    if request.source:
        return f"that of {request.source}"
    sibling = _cluster_with_next_ca(inputs, host, hosts)
    return f"the one that {sibling} has stored" if sibling else "a new one"


def _next_ca(request: RollRequest, inputs: RollInputs, host: str, hosts: tuple[str, ...]) -> dict[str, Recipe]:
    if request.source:
        return {f"new.{part}": FromSecret(request.source, CA_SECRET, f"ca.{part}") for part in ("crt", "key")}
    sibling = _cluster_with_next_ca(inputs, host, hosts)
    if sibling:
        return {f"new.{part}": FromSecret(sibling, keys_secret(inputs.owner), f"new.{part}") for part in ("crt", "key")}
    group = inputs.facts[host].ca.digest
    first = next((h for h in hosts if inputs.facts[h].ca.digest == group), host)
    parts = (("new.crt", "certificate"), ("new.key", "key"))
    return {key: NewAuthority(first, request.days, part, group, COMMON_NAME) for key, part in parts}


def _enter_stage(inputs: RollInputs, host: str, roll: Roll, stage: RollStage) -> Step:
    facts = inputs.facts[host]
    following = Roll(stage=stage, owner=roll.owner, old=roll.old, new=roll.new)
    if stage is not RollStage.CLIENTS:
        return _mark_step(facts, following, why=f"stage {roll.stage} is proven on every member; begin {stage}")
    name = keys_secret(inputs.owner)
    return _mark_step(
        facts,
        following,
        why="every reader and every mesh etcd trusts both: the next CA signs from now on",
        undo=f"write ca.crt and ca.key from old.crt and old.key of Secret {name}",
        data={"ca.crt": FromSecret(host, name, "new.crt"), "ca.key": FromSecret(host, name, "new.key")},
    )


def _mark_step(facts: ClusterFacts, roll: Roll | None, *, why: str, undo: str = "", data: dict[str, Recipe] | None = None) -> Step:
    metadata = {
        "uid": facts.ca.uid,
        "resourceVersion": facts.ca.resource_version,
        "annotations": {MARK: write_roll(roll) if roll else None},
    }
    undo = undo or "the next stage, or the one before it, writes it again"
    return patch_step(WAVE, facts, f"Secret {CA_SECRET}", why=why, undo=undo, body={"metadata": metadata}, secret_data=data or {})


def _final_steps(inputs: RollInputs, host: str) -> Iterator[Step]:
    yield _mark_step(inputs.facts[host], None, why="the old CA is dropped everywhere: the roll is done", undo="another roll")
    yield _delete_keys(inputs, host)


def _delete_keys(
    inputs: RollInputs, host: str, why: str = "no reader trusts the old CA any more, and the next one is in cilium-ca"
) -> Step:
    facts, keys, name = inputs.facts[host], inputs.rolls[host].keys, keys_secret(inputs.owner)
    return Step(
        wave=WAVE,
        cluster=host,
        verb="delete",
        object=f"Secret {facts.namespace}/{name}",
        why=why,
        undo="none: the old CA's key is gone with it",
        action=ApiWrite(
            method="delete",
            path=f"/api/v1/namespaces/{facts.namespace}/secrets/{name}",
            body={"metadata": {"uid": keys.uid, "resourceVersion": keys.resource_version}},
        ),
    )


def _is_left_over(inputs: RollInputs, host: str) -> bool:
    """Return whether our Secret holds, as the next CA, the one that is in use already."""
    keys = inputs.rolls[host].keys
    return keys.present and bool(keys.new) and digest_of_text(keys.new) == inputs.facts[host].ca.digest
