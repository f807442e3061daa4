# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Hops between two clusters: the links of the mesh, and the network that carries the packets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..mesh.cilium_config import routing_mode, tunnel
from .hop import Answer, Hop
from .inputs import ExplainInputs


def link_hop(local: str, peer: str, purpose: str, inputs: ExplainInputs) -> Hop:
    """Return the hop of the link over which ``local`` reads ``peer``. ``purpose`` says what it learns there."""
    row = inputs.links.get((local, peer))
    if row is None:
        if not inputs.scene.mesh.linked(local, peer):
            text = f"{local} has no link to {peer}: the topology of the mesh has none"
            fix = "Add the pair to binding.topology, or choose another topology."
            return Hop(name="link", answer=Answer.BROKEN, cluster=local, summary=text, fix=fix)
        return Hop(name="link", answer=Answer.UNKNOWN, cluster=local, summary=f"the link {local} -> {peer} was not measured")
    evidence = _evidence(row)
    if row.get("ready"):
        text = f"{local} -> {peer} is ready, so {purpose}"
        return Hop(name="link", answer=Answer.OK, cluster=local, summary=text, evidence=evidence)
    if row.get("stage") == "unknown":
        return Hop(
            name="link", answer=Answer.UNKNOWN, cluster=local, summary=f"{local} -> {peer}: no reader gave an answer", evidence=evidence
        )
    text = f"{local} -> {peer} is not ready (stage {row.get('stage')}), so it is not certain that {purpose}"
    return Hop(
        name="link",
        answer=Answer.BROKEN,
        cluster=local,
        summary=text,
        evidence=evidence,
        fix="Run the playbook status; see docs/results.md.",
    )


def network_hop(source: str, target: str, inputs: ExplainInputs) -> Hop:
    """Return the hop of the packets' path, which the API servers do not know."""
    if source == target:
        return Hop(name="network", answer=Answer.SKIPPED, cluster=source, summary="both ends are in one cluster")
    lines = []
    for host in (source, target):
        facts = inputs.scene.facts.get(host)
        if facts is None or facts.config is None:
            continue
        mode = routing_mode(facts)
        need = f"{tunnel(facts)} between all nodes" if mode == "tunnel" else "routes to all pod CIDRs, every port of pods"
        lines.append(f"{host}: routing-mode {mode}, which needs {need}")
    text = "whether packets pass between the nodes of both clusters is not visible through the API"
    fix = "Look for drops with hubble, or let a ConnectivityIntent probe the connection (docs/probe.md)."
    return Hop(name="network", answer=Answer.UNKNOWN, cluster=source, summary=text, evidence=tuple(lines), fix=fix)


def _evidence(row: Mapping[str, Any]) -> tuple[str, ...]:
    lines = [f"stage {row.get('stage')}, agents ready {row.get('nodesReady')}/{row.get('nodesTotal')}, proof {row.get('proof') or 'none'}"]
    return (*lines, str(row["error"])) if row.get("error") else tuple(lines)
