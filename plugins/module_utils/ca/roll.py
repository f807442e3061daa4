# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A new CA without a dropped link, one stage after the other; pure: what was seen in, the next steps out.

Each call decides afresh from what is there, so a roll may be killed anywhere and goes on. What stands in a later stage satisfies every
earlier one too, so clusters that a kill left in different stages meet again in the earliest.

What holds at every moment (who is asked in ``seen.py``):
1. Before anybody shows a certificate of the next CA, everybody who may see it trusts both. An etcd reads whom it accepts only when it
   starts, and a client reads whom it trusts only when it connects; so ``trust`` restarts the one and touches the other's configuration.
2. Every client's certificate changes before the server's, since certgen and cert-manager write ``ca.crt`` with the next CA alone: an etcd
   that starts at that moment would refuse clients of the old one.
3. The old CA is dropped after nobody shows anything of it. With a shared CA the links run over certificates of their own meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from ..facts import ClusterFacts, TlsSecretFacts
from ..findings import Finding
from ..ownership import labels_of_new_object
from ..steps import NOW, ApiWrite, FromSecret, NewAuthority, Recipe, Step
from .methods import CA_SECRET, leaves_of
from .reissue import WAVE, client_steps, server_steps, write_ca
from .seen import Seen, Wait, digest_of_text, pod_waits, reader_waits, serials, stale_leaves
from .signing import COMMON_NAME
from .state import MARK, Roll, Stage, keys_secret, write_roll

RESTARTED: Final = "cilium.io/caBundleChangeRestartedAt"  # pod annotation that the cilium CLI changes for the same purpose
PROJECTED: Final = timedelta(seconds=150)  # kubelet brings a changed Secret into its pods within two minutes
ROLLOUT: Final = "rolling restart of Deployment clustermesh-apiserver: etcd reads only at its start whose clients it accepts"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was asked for. ``source``: the cluster whose CA the others take; "": each group that shares a CA gets a new one."""

    clusters: tuple[str, ...]  # inventory names, in the mesh's order
    days: int
    source: str = ""
    until: Stage = Stage.DROP


@dataclass(frozen=True, kw_only=True)
class RollPlan:
    """The next steps of a roll. Without steps and waits in a stage, the next plan moves on."""

    stage: Stage | None  # None: there is nothing to roll
    clusters: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    waits: tuple[Wait, ...] = ()
    problems: tuple[Finding, ...] = field(default_factory=tuple)
    proven: bool = False  # everything in this stage is; ``steps`` enter the next one, or end the roll
    ends: bool = False  # ``steps`` end it


def plan_roll(seen: Seen, request: Request) -> RollPlan:
    """The next steps."""
    marked = seen.marked()
    if not marked:
        left = tuple(_delete_keys(seen, host) for host in seen.rolls if _is_left_over(seen, host))
        if left:  # killed between the two last writes
            return RollPlan(stage=Stage.DROP, clusters=tuple(step.cluster for step in left), steps=left, proven=True, ends=True)
        if not request.clusters:
            return RollPlan(stage=None)
    stage = min((roll.stage for roll in marked.values()), key=lambda s: s.place, default=Stage.PREPARE)
    if stage is Stage.PREPARE:
        hosts = tuple(host for host in seen.mesh.clusters if host in marked or host in request.clusters)
        return _prepare(seen, request, hosts, marked)
    return _staged(seen, request, stage, marked)


def _prepare(seen: Seen, request: Request, hosts: tuple[str, ...], marked: dict[str, Roll]) -> RollPlan:
    steps = [step for host in hosts if host not in marked for step in _store(seen, request, host, hosts)]
    waits = seen.links
    proven = not steps and not waits
    if proven and request.until is not Stage.PREPARE:
        steps = [_enter(seen, host, marked[host], Stage.TRUST) for host in hosts]
    return RollPlan(stage=Stage.PREPARE, clusters=hosts, steps=tuple(steps), waits=waits if not steps else (), proven=proven)


def _staged(seen: Seen, request: Request, stage: Stage, marked: dict[str, Roll]) -> RollPlan:
    hosts = tuple(marked)
    steps = [*seen.connect, *(step for host, roll in marked.items() if roll.stage is stage for step in _steps(seen, host, roll))]
    steps.sort(key=lambda step: step.wave)
    waits: tuple[Wait, ...] = ()
    if not steps:
        waits = (*(wait for host, roll in marked.items() for wait in _waits(seen, host, roll, stage)), *seen.links)
        if stage is Stage.DROP:
            waits = (*waits, *_settling(seen, hosts))
        steps = [] if stage is Stage.LEAVES and _unissued(seen, marked) else _restarts(seen, marked, stage)
    proven = not steps and not waits
    ends = proven and stage is Stage.DROP
    if ends:
        steps = [step for host in hosts for step in _finish(seen, host)]
    elif proven and stage is not request.until and stage.place < request.until.place:
        following = list(Stage)[stage.place + 1]
        steps = [_enter(seen, host, roll, following) for host, roll in marked.items() if roll.stage is stage]
    return RollPlan(stage=stage, clusters=hosts, steps=tuple(steps), waits=waits, proven=proven, ends=ends)


def _steps(seen: Seen, host: str, roll: Roll) -> Iterator[Step]:
    """What a stage writes in a cluster besides links."""
    facts = seen.facts[host]
    known, stale = seen.rolls[host], stale_leaves(seen, host)
    if roll.stage is Stage.TRUST:
        # The processes beside etcd read their own trust from the admin certificate's Secret: first that, then whom etcd accepts.
        yield from _bundle(facts, (facts.admin_cert, facts.server_cert), roll)
    elif roll.stage is Stage.CLIENTS:
        clients = tuple(leaf for leaf in stale if leaf.name != facts.server_cert.name)
        yield from client_steps(facts, known.issuing, clients, roll)
        fresh = tuple(leaf for leaf in (facts.admin_cert, facts.server_cert) if leaf not in clients)
        yield from _bundle(facts, fresh, roll)
    elif roll.stage is Stage.LEAVES:
        yield from server_steps(facts, known.issuing, known.job, stale, roll)
        if not stale and not known.job.present:
            yield from _bundle(facts, (facts.server_cert,), roll)
            yield from _alone(facts, roll)
    elif facts.server_cert.digests.get("ca.crt") != digest_of_text(roll.new):
        why = "its mesh etcd is to accept clients of the next CA alone"
        yield write_ca(facts, facts.server_cert, roll.new, why, undo="write both CAs again")


def _bundle(facts: ClusterFacts, leaves: tuple[TlsSecretFacts, ...], roll: Roll) -> Iterator[Step]:
    for leaf in leaves:
        if leaf.present and leaf.digests.get("ca.crt") != digest_of_text(roll.bundle):
            who = "its mesh etcd accepts clients of" if leaf.name == facts.server_cert.name else "the processes beside its mesh etcd trust"
            undo = "the cluster's own certificate job, or helm upgrade, writes its CA alone again"
            yield write_ca(facts, leaf, roll.bundle, f"{who} the old and the next CA, for the time of the roll", undo)


def _alone(facts: ClusterFacts, roll: Roll) -> Iterator[Step]:
    """Those who trust this cluster's server by the Secrets of its own clients do so by the next CA alone again."""
    for leaf in leaves_of(facts):
        if leaf.name != facts.server_cert.name and leaf.digests.get("ca.crt") == digest_of_text(roll.bundle):
            undo = "write both CAs again"
            yield write_ca(facts, leaf, roll.new, "what it is used with shows certificates of the next CA alone", undo)


def _waits(seen: Seen, host: str, roll: Roll, stage: Stage) -> Iterator[Wait]:
    """What is not proven of a cluster yet, in the earliest stage of the roll; ``roll.stage`` may be the one after it."""
    both, new = serials(roll.bundle), serials(roll.new)
    if stage is Stage.DROP:
        yield from reader_waits(seen, host, new, exact=True, client=False)
        yield from pod_waits(seen, host, old=False, new=True)
        return
    trusted = new if roll.stage is Stage.DROP else both
    yield from reader_waits(seen, host, trusted, exact=False, client=stage is not Stage.TRUST)
    yield from pod_waits(seen, host, old=None, new=True, serves="new" if stage is Stage.LEAVES else "")
    if stage is not Stage.TRUST:
        server = seen.facts[host].server_cert.name
        names = [leaf.name for leaf in stale_leaves(seen, host) if stage is Stage.LEAVES or leaf.name != server]
        if names:
            yield Wait(cluster=host, text=f"{', '.join(names)} of {host}: not issued by the next CA yet")
        elif seen.rolls[host].job.present:
            yield Wait(cluster=host, text=f"the Job of {host} that issues certificates again has not ended yet")


def _settling(seen: Seen, hosts: tuple[str, ...]) -> Iterator[Wait]:
    """Links over the files common-etcd-client* come back when the roll is over. Pods of kvstoremesh were started since those files are the
    next CA's; agents that dial the peers themselves were not, and a kubelet may take its time."""
    for host in hosts:
        facts = seen.facts[host]
        changed = facts.remote_cert.changed
        if not facts.runs_kvstoremesh and changed is not None and seen.now - changed < PROJECTED:
            yield Wait(cluster=host, text=f"its new remote certificate may not have reached the agents of {host} yet")


def _unissued(seen: Seen, marked: dict[str, Roll]) -> bool:
    return any(stale_leaves(seen, host) for host in marked)


def _restarts(seen: Seen, marked: dict[str, Roll], stage: Stage) -> list[Step]:
    """Pods whose etcd started before its Secret said what it says now. What a pod really accepts was tried, not inferred."""
    found = []
    for host, roll in marked.items():
        if roll.stage is not stage or not seen.settled(host):
            continue
        pods = [pod for pod in seen.rolls[host].pods if not pod.problem]
        late = any(pod.accepts_old for pod in pods) if stage is Stage.DROP else any(not pod.accepts_new for pod in pods)
        if late:
            found.append(_restart(seen.facts[host], stage))
    return found


def _restart(facts: ClusterFacts, stage: Stage) -> Step:
    whom = "of the next CA alone" if stage is Stage.DROP else "of both CAs"
    return Step(
        wave=WAVE,
        cluster=facts.host,
        verb="patch",
        object=f"Deployment {facts.namespace}/clustermesh-apiserver",
        why=f"its mesh etcd has to start again to accept clients {whom}; the new pod is ready before the old one goes",
        disruption=ROLLOUT,
        undo="kubectl rollout undo, after ca.crt of the server certificate's Secret is the old one again",
        action=ApiWrite(
            method="merge",
            path=f"/apis/apps/v1/namespaces/{facts.namespace}/deployments/clustermesh-apiserver",
            body={"spec": {"template": {"metadata": {"annotations": {RESTARTED: NOW}}}}},
        ),
    )


def _store(seen: Seen, request: Request, host: str, hosts: tuple[str, ...]) -> Iterator[Step]:
    """The next CA beside the present one, then the mark that says so."""
    facts, keys = seen.facts[host], seen.rolls[host].keys
    name = keys_secret(seen.owner)
    if keys.present and (not keys.complete or digest_of_text(keys.old) != facts.ca.digest):
        yield _delete_keys(seen, host, "it does not hold the present CA, so no roll goes on from it")
    elif keys.present:
        roll = Roll(stage=Stage.PREPARE, owner=seen.owner, old=keys.old, new=keys.new)
        yield _mark(facts, roll, why="note that the CA is being rolled, so that every connect trusts both")
    else:
        old: dict[str, Recipe] = {f"old.{part}": FromSecret(host, CA_SECRET, f"ca.{part}") for part in ("crt", "key")}
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": name, "namespace": facts.namespace, "labels": labels_of_new_object(seen.mesh.binding)},
        }
        yield Step(
            wave=WAVE,
            cluster=host,
            verb="create",
            object=f"Secret {facts.namespace}/{name}",
            why=f"keep the present CA, and {_origin(request, seen, host, hosts)} as the next one, until the roll is done",
            undo="delete it, as long as cilium-ca is the old CA",
            action=ApiWrite(
                method="create",
                path=f"/api/v1/namespaces/{facts.namespace}/secrets",
                body=body,
                secret_data={**old, **_next_ca(request, seen, host, hosts)},
            ),
        )


def _sibling(seen: Seen, host: str, hosts: tuple[str, ...]) -> str:
    """Another cluster of the roll with the same present CA, in which the next one is stored already."""
    group = seen.facts[host].ca.digest
    return next((h for h in hosts if h != host and seen.rolls[h].keys.complete and digest_of_text(seen.rolls[h].keys.old) == group), "")


def _origin(request: Request, seen: Seen, host: str, hosts: tuple[str, ...]) -> str:
    if request.source:
        return f"that of {request.source}"
    sibling = _sibling(seen, host, hosts)
    return f"the one that {sibling} has stored" if sibling else "a new one"


def _next_ca(request: Request, seen: Seen, host: str, hosts: tuple[str, ...]) -> dict[str, Recipe]:
    if request.source:
        return {f"new.{part}": FromSecret(request.source, CA_SECRET, f"ca.{part}") for part in ("crt", "key")}
    sibling = _sibling(seen, host, hosts)
    if sibling:
        return {f"new.{part}": FromSecret(sibling, keys_secret(seen.owner), f"new.{part}") for part in ("crt", "key")}
    group = seen.facts[host].ca.digest
    first = next((h for h in hosts if seen.facts[h].ca.digest == group), host)
    parts = (("new.crt", "certificate"), ("new.key", "key"))
    return {key: NewAuthority(first, request.days, part, group, COMMON_NAME) for key, part in parts}


def _enter(seen: Seen, host: str, roll: Roll, stage: Stage) -> Step:
    facts = seen.facts[host]
    following = Roll(stage=stage, owner=roll.owner, old=roll.old, new=roll.new)
    if stage is not Stage.CLIENTS:
        return _mark(facts, following, why=f"stage {roll.stage} is proven on every member; begin {stage}")
    name = keys_secret(seen.owner)
    return _mark(
        facts,
        following,
        why="every reader and every mesh etcd trusts both: the next CA signs from now on",
        undo=f"write ca.crt and ca.key from old.crt and old.key of Secret {name}",
        data={"ca.crt": FromSecret(host, name, "new.crt"), "ca.key": FromSecret(host, name, "new.key")},
    )


def _mark(facts: ClusterFacts, roll: Roll | None, *, why: str, undo: str = "", data: dict[str, Recipe] | None = None) -> Step:
    metadata = {
        "uid": facts.ca.uid,
        "resourceVersion": facts.ca.resource_version,
        "annotations": {MARK: write_roll(roll) if roll else None},
    }
    return Step(
        wave=WAVE,
        cluster=facts.host,
        verb="patch",
        object=f"Secret {facts.namespace}/{CA_SECRET}",
        why=why,
        undo=undo or "the next stage, or the one before it, writes it again",
        action=ApiWrite(
            method="merge",
            path=f"/api/v1/namespaces/{facts.namespace}/secrets/{CA_SECRET}",
            body={"metadata": metadata},
            secret_data=data or {},
        ),
    )


def _finish(seen: Seen, host: str) -> Iterator[Step]:
    yield _mark(seen.facts[host], None, why="the old CA is dropped everywhere: the roll is done", undo="another roll")
    yield _delete_keys(seen, host)


def _delete_keys(seen: Seen, host: str, why: str = "nobody trusts the old CA any more, and the next one is in cilium-ca") -> Step:
    facts, keys, name = seen.facts[host], seen.rolls[host].keys, keys_secret(seen.owner)
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


def _is_left_over(seen: Seen, host: str) -> bool:
    """Does our Secret hold, as the next CA, the one that is in use already?"""
    keys = seen.rolls[host].keys
    return keys.present and bool(keys.new) and digest_of_text(keys.new) == seen.facts[host].ca.digest
