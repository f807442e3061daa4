# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Trace of the whole path, hop by hop: its two ends, and the links and the network between their clusters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..base.json_fields import mapping
from ..base.tables import count
from ..mesh.facts.traffic import PodMeta
from ..mesh.node_ports import pod_network_ports
from ..mesh.versions.cilium_config import routing_mode
from ..policies.evaluate.world import policy_world
from ..services.mesh_view import NAMESPACE_GLOBAL
from ..services.mesh_view import MeshView as Services
from .hop import Explanation, Hop, HopVerdict
from .inputs import PODS_READ, ExplainInputs, pods_of
from .policy_hops import PathEnd, policy_hops
from .question import Question, QuestionSide
from .service_hops import Backends, backend_hop, node_port_hop, service_hop


def trace_path(question: Question, inputs: ExplainInputs) -> Explanation:
    """Return every hop from the source to the target, in the order in which a packet meets them, skipped ones included."""
    source = question.source
    first, pods = pods_hop("source", source, inputs)
    hops: list[Hop] = [first]
    if source.cluster in inputs.scene.traffic and pods:
        hops.append(identity_hop(source.cluster, pods, inputs))
    found, targets = _service_way(question, inputs) if question.target.service else _pod_way(question, inputs)
    hops += found
    world = policy_world(inputs.scene)
    for target in targets:
        hops += _between(question, target, inputs)
        if pods:
            hops += policy_hops(PathEnd(cluster=source.cluster, pods=pods), target, question.protocol, world, inputs)
        hops.append(network_hop(source.cluster, target.cluster, inputs))
    return Explanation(hops=tuple(hops))


def _service_way(question: Question, inputs: ExplainInputs) -> tuple[list[Hop], list[PathEnd]]:
    hop, port = service_hop(question, inputs)
    if port is None:
        return [hop], []
    backends_found, backends = backend_hop(question, port, inputs)
    ends = [PathEnd(cluster=entry.cluster, pods=_pods_of(entry, question.target.namespace, inputs), port=entry.port) for entry in backends]
    return [hop, backends_found, node_port_hop(question, port, backends, inputs)], ends


def _pods_of(backends: Backends, namespace: str, inputs: ExplainInputs) -> tuple[PodMeta, ...]:
    names = {endpoint.pod for endpoint in backends.ready if endpoint.pod}
    return tuple(pod for pod in inputs.scene.traffic[backends.cluster].pods_by_namespace.get(namespace, ()) if pod.name in names)


def _pod_way(question: Question, inputs: ExplainInputs) -> tuple[list[Hop], list[PathEnd]]:
    hop, pods = pods_hop("target", question.target, inputs)
    return [hop], [PathEnd(cluster=question.target.cluster, pods=pods, port=question.port)] if pods else []


def _between(question: Question, target: PathEnd, inputs: ExplainInputs) -> Sequence[Hop]:
    """Return the hops of what both clusters have to know of each other; none within one cluster."""
    here, peer = question.source.cluster, target.cluster
    if here == peer:
        return [Hop(name="link", answer=HopVerdict.SKIPPED, cluster=here, summary="both ends are in one cluster")]
    what = "it knows the backends there" if question.target.service else "it knows the addresses there"
    return [
        *(
            _namespace_hop(host, namespace, inputs)
            for host, namespace in ((here, question.source.namespace), (peer, question.target.namespace))
        ),
        link_hop(here, peer, what, inputs),
        link_hop(peer, here, "it knows the identity of the source", inputs),
    ]


def _namespace_hop(host: str, namespace: str, inputs: ExplainInputs) -> Hop:
    """Return the hop of a namespace.

    A namespace that is not global exports no identities of its pods (from 1.19) and none of its Services (from 1.20).
    """
    services = Services(scene=inputs.scene)
    if services.namespace_known(host, namespace):
        return Hop(
            name="namespace",
            answer=HopVerdict.OK,
            cluster=host,
            summary=f"{namespace} of {host} is global, so its data is published to the other clusters",
        )
    # Where the Services are exported, packets arrive, and policies of the other cluster take them for those of strangers.
    exported = services.namespace_global(host, namespace)
    unknown = "the identities of its pods" if exported else "its backends and the identities of its pods"
    return Hop(
        name="namespace",
        answer=HopVerdict.UNKNOWN if exported else HopVerdict.BROKEN,
        cluster=host,
        summary=f"{namespace} of {host} is not global: other clusters do not know {unknown}",
        fix=f"kubectl annotate --overwrite namespace {namespace} {NAMESPACE_GLOBAL}=true",
    )


def pods_hop(name: str, side: QuestionSide, inputs: ExplainInputs) -> tuple[Hop, tuple[PodMeta, ...]]:
    """Return the hop of one end (``name``: source or target), and its first pods for the hops that follow."""
    traffic = inputs.traffic(side.cluster)
    if traffic is None:
        text = f"{side.cluster} does not answer: {inputs.why_silent(side.cluster)}"
        return Hop(name=name, answer=HopVerdict.UNKNOWN, cluster=side.cluster, summary=text), ()
    if side.namespace not in traffic.namespaces:
        text = f"there is no namespace {side.namespace} in {side.cluster}"
        return Hop(name=name, answer=HopVerdict.BROKEN, cluster=side.cluster, summary=text, fix="Correct the namespace or the cluster."), ()
    unread = traffic.could_not_read("pods")
    if unread is not None:
        return Hop(name=name, answer=HopVerdict.UNKNOWN, cluster=side.cluster, summary=unread.message, fix=unread.remedy), ()
    pods = pods_of(traffic, side)
    if not pods:
        text = f"{side.cluster} has no {side}"
        return Hop(name=name, answer=HopVerdict.BROKEN, cluster=side.cluster, summary=text, fix="Start it, or correct the selector."), ()
    shown = ", ".join(pod.name for pod in pods[:PODS_READ])
    more = f" and {len(pods) - PODS_READ} more" if len(pods) > PODS_READ else ""
    text = f"{count(len(pods), 'pod')} in {side.cluster}"
    return Hop(name=name, answer=HopVerdict.OK, cluster=side.cluster, summary=text, evidence=(shown + more,)), pods


def identity_hop(cluster: str, pods: tuple[PodMeta, ...], inputs: ExplainInputs) -> Hop:
    """Return the hop of the source's identity. Without one, every policy that names the source lets nothing through."""
    if cluster in inputs.unread_identities:
        return Hop(name="identity", answer=HopVerdict.UNKNOWN, cluster=cluster, summary=inputs.unread_identities[cluster])
    asked = [pod for pod in pods if (cluster, pod.namespace, pod.name) in inputs.identities]
    rows = {pod.name: inputs.identities[cluster, pod.namespace, pod.name] for pod in asked}
    if not rows:
        return Hop(
            name="identity", answer=HopVerdict.UNKNOWN, cluster=cluster, summary="no pod of the source was found, so no identity is known"
        )
    missing = [name for name, identity in rows.items() if identity is None]
    waiting = [name for name, identity in rows.items() if identity is not None and (identity.id == 0 or identity.state != "ready")]
    lines = tuple(f"{name}: identity {row.id}, {row.state or 'no state'}" for name, row in rows.items() if row is not None)
    if waiting:
        text = f"{', '.join(waiting)} has no identity yet, or is not ready for Cilium"
        fix = f"Check the agent on its node: kubectl --namespace {pods[0].namespace} describe ciliumendpoint {waiting[0]}"
        return Hop(name="identity", answer=HopVerdict.BROKEN, cluster=cluster, summary=text, evidence=lines, fix=fix)
    if missing:
        text = f"{', '.join(missing)} has no CiliumEndpoint: it runs on the host's network, or Cilium does not manage it"
        return Hop(name="identity", answer=HopVerdict.UNKNOWN, cluster=cluster, summary=text, evidence=lines)
    return Hop(name="identity", answer=HopVerdict.OK, cluster=cluster, summary="the source has an identity", evidence=lines)


def link_hop(local: str, peer: str, purpose: str, inputs: ExplainInputs) -> Hop:
    """Return the hop of the link over which ``local`` reads ``peer``. ``purpose`` says what it learns there."""
    row = inputs.links.get((local, peer))
    if row is None:
        if not inputs.scene.mesh.linked(local, peer):
            text = f"{local} has no link to {peer}: the topology of the mesh has none"
            fix = "Add the pair to binding.topology, or choose another topology."
            return Hop(name="link", answer=HopVerdict.BROKEN, cluster=local, summary=text, fix=fix)
        return Hop(name="link", answer=HopVerdict.UNKNOWN, cluster=local, summary=f"the link {local} -> {peer} was not measured")
    evidence = _evidence(row)
    if row.get("ready"):
        text = f"{local} -> {peer} is ready, so {purpose}"
        return Hop(name="link", answer=HopVerdict.OK, cluster=local, summary=text, evidence=evidence)
    if row.get("stage") == "unknown":
        return Hop(
            name="link", answer=HopVerdict.UNKNOWN, cluster=local, summary=f"{local} -> {peer}: no reader gave an answer", evidence=evidence
        )
    text = f"{local} -> {peer} is not ready (stage {row.get('stage')}), so it is not certain that {purpose}"
    return Hop(
        name="link",
        answer=HopVerdict.BROKEN,
        cluster=local,
        summary=text,
        evidence=evidence,
        fix="Run the playbook status; see docs/results.md.",
    )


def network_hop(source: str, target: str, inputs: ExplainInputs) -> Hop:
    """Return the hop of the packets' path between the nodes of both clusters, from the node health of the agents.

    It is known of the nodes whose agents were asked, and of the time of their probes. A way that only some nodes have is unknown.
    """
    if source == target:
        return Hop(name="network", answer=HopVerdict.SKIPPED, cluster=source, summary="both ends are in one cluster")
    ways = {link: _paths(inputs, *link) for link in ((source, target), (target, source))}
    lines = [*(_path_line(*link, paths) for link, paths in ways.items()), *_needs(source, target, inputs)]
    lines += [f"not reached: {pair}" for paths in ways.values() for pair in paths.get("failed", ())]
    fix = "Look for drops with hubble, or let a ConnectivityIntent probe the connection (docs/probe.md)."
    answer, text = _judged(source, target, ways)
    if answer is HopVerdict.BROKEN:
        facts = inputs.scene.facts.get(source)
        needed = pod_network_ports(facts) if facts is not None else "the traffic of pods"
        fix = f"Let {needed} pass between all nodes of both clusters, in both directions (CM-NET-08)."
    return Hop(
        name="network",
        answer=answer,
        cluster=source,
        summary=text,
        evidence=tuple(line for line in lines if line),
        fix="" if answer is HopVerdict.OK else fix,
    )


def _judged(source: str, target: str, ways: Mapping[tuple[str, str], Mapping[str, Any]]) -> tuple[HopVerdict, str]:
    """Return the answer of the hop and its sentence, from the paths of both directions."""
    between = f"nodes of {source} and {target}"
    for (here, peer), paths in ways.items():
        if paths.get("asked") and not paths.get("reached") and paths.get("blocked") in _LOST:
            return HopVerdict.BROKEN, f"no packet of a pod passes from the nodes of {here} to those of {peer}"
    if any(paths.get("blocked") in _LOST for paths in ways.values()):
        return HopVerdict.UNKNOWN, f"packets pass between some {between}, so it depends on the nodes of the pods"
    probed = [paths for paths in ways.values() if paths.get("asked")]
    if not probed:
        why = next((paths["message"] for paths in ways.values() if paths.get("message")), "the agents were not asked")
        return HopVerdict.UNKNOWN, f"whether packets pass between the {between} is not known: {why}"
    if not all(paths.get("podsProbed") for paths in probed):
        return HopVerdict.UNKNOWN, f"the {between} reach each other; the way of pods was not probed"
    return HopVerdict.OK, f"packets pass between the {between}, as their agents have probed"


_LOST: Final = ("node", "pod_network")


def _paths(inputs: ExplainInputs, local: str, peer: str) -> Mapping[str, Any]:
    return mapping(inputs.links.get((local, peer)), "nodePaths")


def _path_line(local: str, peer: str, paths: Mapping[str, Any]) -> str:
    if not paths.get("asked"):
        return ""
    return f"{local} -> {peer}: {paths['reached']} of {paths['asked']} paths between nodes pass, oldest probe {paths['oldestProbe'] or '-'}"


def _needs(source: str, target: str, inputs: ExplainInputs) -> list[str]:
    lines = []
    for host in (source, target):
        facts = inputs.scene.facts.get(host)
        if facts is not None and facts.config is not None:
            lines.append(f"{host}: routing-mode {routing_mode(facts)}, which needs {pod_network_ports(facts)} between all nodes")
    return lines


def _evidence(row: Mapping[str, Any]) -> tuple[str, ...]:
    lines = [f"stage {row.get('stage')}, agents ready {row.get('nodesReady')}/{row.get('nodesTotal')}, proof {row.get('proof') or 'none'}"]
    return (*lines, str(row["error"])) if row.get("error") else tuple(lines)
