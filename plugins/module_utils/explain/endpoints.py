# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Hops of the two ends: cluster, namespace, pods and their identities."""

from __future__ import annotations

from ..base.tables import count
from ..mesh.traffic_facts import PodMeta
from .hop import Answer, Hop
from .inputs import PODS_LOOKED_AT, ExplainInputs, pods_of
from .question import QuestionSide


def pods_hop(name: str, side: QuestionSide, inputs: ExplainInputs) -> tuple[Hop, tuple[PodMeta, ...]]:
    """Return the hop of one end (``name``: source or target), and its first pods for the hops that follow."""
    traffic = inputs.traffic(side.cluster)
    if traffic is None:
        text = f"{side.cluster} does not answer: {inputs.why_silent(side.cluster)}"
        return Hop(name=name, answer=Answer.UNKNOWN, cluster=side.cluster, summary=text), ()
    if side.namespace not in traffic.namespaces:
        text = f"there is no namespace {side.namespace} in {side.cluster}"
        return Hop(name=name, answer=Answer.BROKEN, cluster=side.cluster, summary=text, fix="Correct the namespace or the cluster."), ()
    unread = traffic.could_not_read("pods")
    if unread is not None:
        return Hop(name=name, answer=Answer.UNKNOWN, cluster=side.cluster, summary=unread.message, fix=unread.remedy), ()
    pods = pods_of(traffic, side)
    if not pods:
        text = f"{side.cluster} has no {side}"
        return Hop(name=name, answer=Answer.BROKEN, cluster=side.cluster, summary=text, fix="Start it, or correct the selector."), ()
    shown = ", ".join(pod.name for pod in pods[:PODS_LOOKED_AT])
    more = f" and {len(pods) - PODS_LOOKED_AT} more" if len(pods) > PODS_LOOKED_AT else ""
    text = f"{count(len(pods), 'pod')} in {side.cluster}"
    return Hop(name=name, answer=Answer.OK, cluster=side.cluster, summary=text, evidence=(shown + more,)), pods


def identity_hop(cluster: str, pods: tuple[PodMeta, ...], inputs: ExplainInputs) -> Hop:
    """Return the hop of the source's identity. Without one, every policy that names the source lets nothing through."""
    if cluster in inputs.unread_identities:
        return Hop(name="identity", answer=Answer.UNKNOWN, cluster=cluster, summary=inputs.unread_identities[cluster])
    asked = [pod for pod in pods if (cluster, pod.namespace, pod.name) in inputs.identities]
    rows = {pod.name: inputs.identities[cluster, pod.namespace, pod.name] for pod in asked}
    if not rows:
        return Hop(
            name="identity", answer=Answer.UNKNOWN, cluster=cluster, summary="no pod of the source was found, so no identity is known"
        )
    missing = [name for name, identity in rows.items() if identity is None]
    waiting = [name for name, identity in rows.items() if identity is not None and (identity.id == 0 or identity.state != "ready")]
    lines = tuple(f"{name}: identity {row.id}, {row.state or 'no state'}" for name, row in rows.items() if row is not None)
    if waiting:
        text = f"{', '.join(waiting)} has no identity yet, or is not ready for Cilium"
        fix = f"Check the agent on its node: kubectl --namespace {pods[0].namespace} describe ciliumendpoint {waiting[0]}"
        return Hop(name="identity", answer=Answer.BROKEN, cluster=cluster, summary=text, evidence=lines, fix=fix)
    if missing:
        text = f"{', '.join(missing)} has no CiliumEndpoint: it runs on the host's network, or Cilium does not manage it"
        return Hop(name="identity", answer=Answer.UNKNOWN, cluster=cluster, summary=text, evidence=lines)
    return Hop(name="identity", answer=Answer.OK, cluster=cluster, summary="the source has an identity", evidence=lines)
