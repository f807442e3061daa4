# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Job strategy of a probe: when a Job may be made, what it tries, and what its end says about the intent."""

from __future__ import annotations

from collections.abc import Sequence

from ..items.models import ConnectivityIntent
from ..items.owned import object_name
from ..items.scene import Scene
from ..items.system import is_system_namespace
from .intent_probe import IntentProbe, add_note
from .job import ConnectionResult, ContainerEnd, JobTarget, job_body, tcp_port
from .outcome import JOB_LEFT, PROVEN, REFUTES
from .pairs import Case, link_ready
from .pods import ProbedPod
from .verdict import Judgement

_FLOWS_LATER = 1.0  # seconds until an agent shows a flow


def try_job(probing: IntentProbe, cases: Sequence[Case]) -> None:
    """Run one Job for the open pairs of one source cluster; at most one for the intent in a run."""
    open_cases = [case for case in cases if case.open]
    why_not = _forbidden(probing)
    if why_not:
        add_note(open_cases, why_not)
        return
    host = open_cases[0].source
    about = [case for case in open_cases if case.source == host]
    add_note([case for case in open_cases if case.source != host], f"the Job of this run was tried in {host}")
    like = _like(probing, host)
    if isinstance(like, str):
        add_note(about, like)
        return
    if is_system_namespace(like.namespace, probing.scene.facts[host]):
        add_note(about, f"no Job was tried: the probe starts nothing in {like.namespace}, a namespace of the cluster itself")
        return
    tried = _targets(probing, about)
    if tried:
        _run(probing, like, tried)


def judge_connection(intent: ConnectivityIntent, scene: Scene, case: Case, end: ContainerEnd, delivered: bool) -> Judgement:
    """Return what the end of a connection says about the pair.

    A reset may come from the pod or from a device on the path, so by itself it decides nothing.

    :param delivered: Hubble observed that the packets arrived.
    """
    if end.tried is ConnectionResult.CONNECTED:
        return Judgement(result=PROVEN if intent.action == "Allow" else REFUTES, why="a connection was made")
    if end.tried is ConnectionResult.REFUSED:
        return Judgement(why="the connection was refused: no process listens there, or a device in between refuses it")
    if end.tried is not ConnectionResult.TIMEOUT:
        return Judgement(why=f"the connection could not be tried: {end.words}" if end.words else "the connection could not be tried")
    if intent.action != "Allow":
        return Judgement(why="a connection timed out, which alone is no proof of a denial")
    if delivered:
        return Judgement(result=REFUTES, why="packets were delivered and no answer came back")
    if link_ready(scene, case.source, case.destination):
        return Judgement(result=REFUTES, why="a connection to a ready pod timed out while the link is ready")
    return Judgement(why="a connection timed out, and the link between the clusters is not known to be ready")


def _forbidden(probing: IntentProbe) -> str:
    """Return why no Job may be made for this intent; "" when one may."""
    intent = probing.intent
    if intent.probe.method == "hubble":
        return "no Job was tried (method hubble)"
    if intent.source is None:
        return "no Job was tried: Isolate has no source"
    if not _image(probing):
        return "no Job was tried: no image is set (probe.image)"
    if intent.ports and not any(rule.protocol in ("TCP", "ANY") for rule in intent.ports):
        return "no Job was tried: it can only try TCP"
    return "" if probing.left > probing.limits.job_seconds / 2 else "no Job was tried: the time for probes was used up"


def _image(probing: IntentProbe) -> str:
    return probing.intent.probe.image or probing.context.image


def _like(probing: IntentProbe, host: str) -> ProbedPod | str:
    """Return the pod whose identity the probe takes, or why there is none.

    Without any pod, plain labels are enough; expressions are not.
    """
    selection = probing.intent.source
    pods = [pod for pod in probing.side(host, source=True) or () if pod.has_identity]
    if pods:
        return min(pods, key=lambda pod: (not pod.ready, pod.name))
    if selection is None or not selection.labels or selection.expressions or selection.all_namespaces:
        return f"no Job was tried: there is no pod of the source in {host} whose labels it could take"
    return ProbedPod(namespace=selection.namespace, name="", labels=selection.labels)


def _targets(probing: IntentProbe, about: Sequence[Case]) -> list[tuple[Case, JobTarget]]:
    """Return a ready pod and a port for each pair, as many as the limits allow."""
    found: list[tuple[Case, JobTarget]] = []
    for case in about:
        pods = [p for p in probing.side(case.destination, source=False) or () if p.ready and p.has_identity and p.address]
        if not pods:
            case.notes.append(f"no Job was tried: no ready pod with an address was found in {case.destination}")
        elif len(found) == probing.limits.targets:
            case.notes.append(f"the Job tries no more than {probing.limits.targets} clusters")
        else:
            pod = min(pods, key=lambda p: (not tcp_port(probing.intent.ports, p.tcp_ports), p.name))
            port = tcp_port(probing.intent.ports, pod.tcp_ports)
            if port:
                target = JobTarget(cluster=case.destination, pod=f"{pod.namespace}/{pod.name}", address=pod.address, port=port)
                found.append((case, target))
            else:
                case.notes.append("no Job was tried: neither the intent nor the pod names a TCP port")
    return found


def _run(probing: IntentProbe, like: ProbedPod, tried: Sequence[tuple[Case, JobTarget]]) -> None:
    intent, limits = probing.intent, probing.limits
    wait = min(probing.settled(), limits.settle)
    if wait > 0:
        probing.is_at("waits until its policies are in force")
        probing.clocks.sleep(wait)
    ref = intent.ref
    source = tried[0][0].source
    probing.is_at(f"waits for its Job in {source}")
    body = job_body(
        probing.scene.binding,
        ref,
        object_name(probing.scene.binding, ref, "probe"),
        like,
        [target for _case, target in tried],
        image=_image(probing),
        command=intent.probe.command,
        expects=ConnectionResult.CONNECTED if intent.action == "Allow" else ConnectionResult.TIMEOUT,
        limits=limits,
    )
    deadline = min(probing.ends, probing.clocks.clock() + limits.job_seconds + 5)
    result = probing.context.evidence.run_job(source, probing.scene.binding, body, limits, deadline=deadline)
    if result.left:
        probing.code = JOB_LEFT
    cases = [case for case, _target in tried]
    for case in cases:
        case.method = "job"
    if not result.ends:
        add_note(cases, result.problem or "the Job had no result")
        return
    probing.clocks.sleep(_FLOWS_LATER)
    probing.judge_by_flows(cases, again=True)
    for (case, target), end in zip(tried, result.ends, strict=True):
        where = f"Job {like.namespace}/{body['metadata']['name']} in {source}"
        case.lines.append(f"{where} -> {target.pod} in {target.cluster} {target.shown}: {end.words or end.tried.value}")
        delivered = case.judgement.result == PROVEN and intent.action == "Allow"
        verdict = judge_connection(intent, probing.scene, case, end, delivered)
        if case.open or end.tried is ConnectionResult.CONNECTED or (delivered and end.tried is ConnectionResult.TIMEOUT):
            flows = case.judgement.flows
            case.judged(Judgement(result=verdict.result, why=verdict.why, flows=flows), "job")
