# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Trace of the whole path, hop by hop. Pure: all facts are passed in."""

from __future__ import annotations

from collections.abc import Sequence

from ..mesh.traffic_facts import PodMeta
from ..policies.evaluate.world import policy_world
from ..services.mesh_view import NAMESPACE_GLOBAL
from ..services.mesh_view import MeshView as Services
from .endpoints import identity_hop, pods_hop
from .hop import Answer, Explanation, Hop
from .inputs import ExplainInputs
from .network import link_hop, network_hop
from .policy_hops import End, policy_hops
from .question import Question
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
            hops += policy_hops(End(cluster=source.cluster, pods=pods), target, question.protocol, world, inputs)
        hops.append(network_hop(source.cluster, target.cluster, inputs))
    return Explanation(hops=tuple(hops))


def _service_way(question: Question, inputs: ExplainInputs) -> tuple[list[Hop], list[End]]:
    hop, port = service_hop(question, inputs)
    if port is None:
        return [hop], []
    backends_found, backends = backend_hop(question, port, inputs)
    ends = [End(cluster=entry.cluster, pods=_pods_of(entry, question.target.namespace, inputs), port=entry.port) for entry in backends]
    return [hop, backends_found, node_port_hop(question, port, backends, inputs)], ends


def _pods_of(backends: Backends, namespace: str, inputs: ExplainInputs) -> tuple[PodMeta, ...]:
    names = {endpoint.pod for endpoint in backends.ready if endpoint.pod}
    return tuple(pod for pod in inputs.scene.traffic[backends.cluster].pods_by_namespace.get(namespace, ()) if pod.name in names)


def _pod_way(question: Question, inputs: ExplainInputs) -> tuple[list[Hop], list[End]]:
    hop, pods = pods_hop("target", question.target, inputs)
    return [hop], [End(cluster=question.target.cluster, pods=pods, port=question.port)] if pods else []


def _between(question: Question, target: End, inputs: ExplainInputs) -> Sequence[Hop]:
    """Return the hops of what both clusters have to know of each other; none within one cluster."""
    here, there = question.source.cluster, target.cluster
    if here == there:
        return [Hop(name="link", answer=Answer.SKIPPED, cluster=here, summary="both ends are in one cluster")]
    what = "it knows the backends there" if question.target.service else "it knows the addresses there"
    return [
        *(
            _namespace_hop(host, namespace, inputs)
            for host, namespace in ((here, question.source.namespace), (there, question.target.namespace))
        ),
        link_hop(here, there, what, inputs),
        link_hop(there, here, "it knows the identity of the source", inputs),
    ]


def _namespace_hop(host: str, namespace: str, inputs: ExplainInputs) -> Hop:
    """Return the hop of a namespace.

    From 1.20 a namespace that is not global exports neither its backends nor the identities of its pods.
    """
    if Services(scene=inputs.scene).namespace_global(host, namespace):
        return Hop(
            name="namespace",
            answer=Answer.OK,
            cluster=host,
            summary=f"{namespace} of {host} is global, so its data is published to the other clusters",
        )
    text = f"{namespace} of {host} is not global: other clusters know neither its backends nor the identities of its pods"
    fix = f"kubectl annotate --overwrite namespace {namespace} {NAMESPACE_GLOBAL}=true"
    return Hop(name="namespace", answer=Answer.BROKEN, cluster=host, summary=text, fix=fix)
