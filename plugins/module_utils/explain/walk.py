# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The whole way, hop by hop. Pure: everything that was read is passed in."""

from __future__ import annotations

from collections.abc import Sequence

from ..items.facts import PodMeta
from ..policies.evaluate.world import world_of
from ..services.world import NAMESPACE_GLOBAL
from ..services.world import World as Services
from .ends import identity_hop, pods_hop
from .hop import Answer, Explanation, Hop
from .network import link_hop, network_hop
from .policy_hops import End, policy_hops
from .question import Question
from .seen import Seen
from .service_hops import Backends, backend_hop, node_port_hop, service_hop


def walk(question: Question, seen: Seen) -> Explanation:
    """Every hop from the source to the target, in the order in which a packet meets them; those that the way does not lead over too."""
    source = question.source
    first, pods = pods_hop("source", source, seen)
    hops: list[Hop] = [first]
    if source.cluster in seen.scene.traffic and pods:
        hops.append(identity_hop(source.cluster, pods, seen))
    found, targets = _service_way(question, seen) if question.target.service else _pod_way(question, seen)
    hops += found
    world = world_of(seen.scene)
    for target in targets:
        hops += _between(question, target, seen)
        if pods:
            hops += policy_hops(End(cluster=source.cluster, pods=pods), target, question.protocol, world, seen)
        hops.append(network_hop(source.cluster, target.cluster, seen))
    return Explanation(hops=tuple(hops))


def _service_way(question: Question, seen: Seen) -> tuple[list[Hop], list[End]]:
    hop, port = service_hop(question, seen)
    if port is None:
        return [hop], []
    backends_found, backends = backend_hop(question, port, seen)
    ends = [End(cluster=entry.cluster, pods=_pods_of(entry, question.target.namespace, seen), port=entry.port) for entry in backends]
    return [hop, backends_found, node_port_hop(question, port, backends, seen)], ends


def _pods_of(backends: Backends, namespace: str, seen: Seen) -> tuple[PodMeta, ...]:
    names = {endpoint.pod for endpoint in backends.ready if endpoint.pod}
    return tuple(pod for pod in seen.scene.traffic[backends.cluster].pods_by_namespace.get(namespace, ()) if pod.name in names)


def _pod_way(question: Question, seen: Seen) -> tuple[list[Hop], list[End]]:
    hop, pods = pods_hop("target", question.target, seen)
    return [hop], [End(cluster=question.target.cluster, pods=pods, port=question.port)] if pods else []


def _between(question: Question, target: End, seen: Seen) -> Sequence[Hop]:
    """What both clusters have to know of each other; nothing within one."""
    here, there = question.source.cluster, target.cluster
    if here == there:
        return [Hop(name="link", answer=Answer.SKIPPED, cluster=here, summary="both ends are in one cluster")]
    what = "it knows the backends there" if question.target.service else "it knows the addresses there"
    return [
        *(
            _namespace_hop(host, namespace, seen)
            for host, namespace in ((here, question.source.namespace), (there, question.target.namespace))
        ),
        link_hop(here, there, what, seen),
        link_hop(there, here, "it knows who the source is", seen),
    ]


def _namespace_hop(host: str, namespace: str, seen: Seen) -> Hop:
    """From 1.20 a namespace that is not global tells other clusters nothing: neither its backends nor the identities of its pods."""
    if Services(scene=seen.scene).namespace_global(host, namespace):
        return Hop(name="namespace", answer=Answer.OK, cluster=host, summary=f"{namespace} of {host} is told to the other clusters")
    text = f"{namespace} of {host} is not global: nobody outside of {host} knows its backends and who its pods are"
    fix = f"kubectl annotate --overwrite namespace {namespace} {NAMESPACE_GLOBAL}=true"
    return Hop(name="namespace", answer=Answer.BROKEN, cluster=host, summary=text, fix=fix)
