# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The Job of a probe: when it may be made, what it tries, and what its end says about the intent."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..items.kinds import ItemKind, ItemRef
from ..items.models import ConnectivityIntent
from ..items.owned import object_name
from ..items.scene import Scene
from ..items.system import is_system_namespace
from .codes import JOB_LEFT
from .job import Ended, Target, Tried, job_body, tcp_port
from .one import Probing, note
from .outcome import PROVEN, REFUTES
from .pairs import Case, link_ready
from .pods import PodSeen
from .trying import attempt
from .verdict import Judgement

_FLOWS_LATER = 1.0  # seconds until an agent shows a flow


def try_job(probing: Probing, cases: Sequence[Case]) -> None:
    """One Job for the open pairs of one source cluster; at most one for the intent in a run."""
    open_cases = [case for case in cases if case.open]
    why_not = _forbidden(probing)
    if why_not:
        note(open_cases, why_not)
        return
    host = open_cases[0].source
    about = [case for case in open_cases if case.source == host]
    note([case for case in open_cases if case.source != host], f"the Job of this run was tried in {host}")
    like = _like(probing, host)
    if isinstance(like, str):
        note(about, like)
        return
    if is_system_namespace(like.namespace, probing.scene.facts[host]):
        note(about, f"no Job was tried: nothing is started in {like.namespace}, where the cluster itself runs")
        return
    tried = _targets(probing, about)
    if tried:
        _run(probing, like, tried)


def judged_by(intent: ConnectivityIntent, scene: Scene, case: Case, end: Ended, delivered: bool) -> Judgement:
    """What the end of a connection says. A reset may come from the pod or from a device on the way, so by itself it decides nothing.

    :param delivered: Hubble saw the packets arrive.
    """
    if end.tried is Tried.CONNECTED:
        return Judgement(result=PROVEN if intent.action == "Allow" else REFUTES, why="a connection was made")
    if end.tried is Tried.REFUSED:
        return Judgement(why="the connection was refused: nothing listens there, or a device on the way refuses")
    if end.tried is not Tried.TIMEOUT:
        return Judgement(why=f"the connection could not be tried: {end.words}" if end.words else "the connection could not be tried")
    if intent.action != "Allow":
        return Judgement(why="a connection timed out, which alone is no proof of a denial")
    if delivered:
        return Judgement(result=REFUTES, why="packets were delivered and no answer came back")
    if link_ready(scene, case.source, case.destination):
        return Judgement(result=REFUTES, why="a connection to a ready pod timed out while the link is ready")
    return Judgement(why="a connection timed out, and the link between the clusters is not known to be ready")


def _forbidden(probing: Probing) -> str:
    """Why no Job may be made for this intent; "" when one may."""
    intent = probing.intent
    if intent.probe.method == "hubble":
        return "no Job was tried (method hubble)"
    if intent.source is None:
        return "no Job was tried: Isolate has no source"
    if not _image(probing):
        return "no Job was tried: no image is set (probe.image)"
    if intent.ports and not any(rule.protocol in ("TCP", "ANY") for rule in intent.ports):
        return "no Job was tried: it can only try TCP"
    return "" if probing.left > probing.limits.job_seconds / 2 else "no Job was tried: time was up"


def _image(probing: Probing) -> str:
    return probing.intent.probe.image or probing.ground.image


def _like(probing: Probing, host: str) -> PodSeen | str:
    """The pod whose identity the probe takes, or why there is none. Without any pod, plain labels will do; expressions will not."""
    selection = probing.intent.source
    pods = [pod for pod in probing.side(host, source=True) or () if pod.has_identity]
    if pods:
        return min(pods, key=lambda pod: (not pod.ready, pod.name))
    if selection is None or not selection.labels or selection.expressions or selection.all_namespaces:
        return f"no Job was tried: there is no pod of the source in {host} whose labels it could take"
    return PodSeen(namespace=selection.namespace, name="", labels=selection.labels)


def _targets(probing: Probing, about: Sequence[Case]) -> list[tuple[Case, Target]]:
    """A ready pod and a port for each pair, as many as the limits allow."""
    found: list[tuple[Case, Target]] = []
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
                target = Target(cluster=case.destination, pod=f"{pod.namespace}/{pod.name}", address=pod.address, port=port)
                found.append((case, target))
            else:
                case.notes.append("no Job was tried: neither the intent nor the pod names a TCP port")
    return found


def _run(probing: Probing, like: PodSeen, tried: Sequence[tuple[Case, Target]]) -> None:
    intent, limits = probing.intent, probing.limits
    wait = min(probing.settled(), limits.settle)
    if wait > 0:
        time.sleep(wait)
    ref = ItemRef(ItemKind.INTENT, intent.name)
    source = tried[0][0].source
    body = job_body(
        probing.scene.binding,
        ref,
        object_name(probing.scene.binding, ref, "probe"),
        like,
        [target for _case, target in tried],
        image=_image(probing),
        command=intent.probe.command,
        expects=Tried.CONNECTED if intent.action == "Allow" else Tried.TIMEOUT,
        limits=limits,
    )
    deadline = min(probing.ends, time.monotonic() + limits.job_seconds + 5)
    result = attempt(probing.ground.clusters[source], probing.scene.binding, body, limits, deadline=deadline)
    if result.left:
        probing.code = JOB_LEFT
    cases = [case for case, _target in tried]
    for case in cases:
        case.method = "job"
    if not result.ends:
        note(cases, result.problem or "the Job came to nothing")
        return
    time.sleep(_FLOWS_LATER)
    probing.look(cases, again=True)
    for (case, target), end in zip(tried, result.ends, strict=True):
        where = f"Job {like.namespace}/{body['metadata']['name']} in {source}"
        case.lines.append(f"{where} -> {target.pod} in {target.cluster} {target.shown}: {end.words or end.tried.value}")
        delivered = case.judgement.result == PROVEN and intent.action == "Allow"
        verdict = judged_by(intent, probing.scene, case, end, delivered)
        if case.open or end.tried is Tried.CONNECTED or (delivered and end.tried is Tried.TIMEOUT):
            flows = case.judgement.flows
            case.judged(Judgement(result=verdict.result, why=verdict.why, flows=flows), "job")
