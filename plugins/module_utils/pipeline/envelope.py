# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run that works out the envelope of a mesh: it reads the members once, with the numbers of their objects, and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..envelope.cluster_size import ClusterSize, size_of
from ..envelope.envelope import envelope_of, newcomer_of
from ..findings.finding import Severity
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind
from ..mesh.facts.sizes import SizeFacts
from ..observe import Observation
from ..reconcile.scene import observe_scene
from ..services.load_balancer_entries import service_numbers
from ..services.mesh_view import MeshView
from .links import contacts
from .options import PARALLEL
from .outcome import Outcome, failure_findings
from .ports import Ports
from .run import Run
from .shown import EnvelopeMeasured


def measure_envelope(run: Run, one_more: Mapping[str, Any] | None, fail_at: int | None) -> Outcome:
    """Work out the envelope, and judge the gate.

    :param one_more: size of a cluster that may join, as the option; what it leaves out is as in the largest member.
    :raises InvalidInput: when ``one_more`` is not valid; then no cluster was contacted.
    """
    newcomer_of(one_more, {})  # for its errors
    with run.observe(PARALLEL) as observation:
        scene = observe_scene(run.ports.read_traffic, observation, run.mesh, (ItemKind.GLOBAL_SERVICE,), now=run.now, parallel=PARALLEL)
        numbers = sizes_of(run.ports, observation)
        sizes = _sizes(scene, numbers)
        envelope = envelope_of(run.mesh, sizes, newcomer_of(one_more, sizes), unread=_unread(numbers), silent=_silent(scene))
        run.ports.show(EnvelopeMeasured(run.mesh.binding.name, envelope))
        return Outcome(
            findings=failure_findings(observation.failures.values(), Severity.ADVISORY, "Its size is not known."),
            clusters=run.mesh.clusters,
            **contacts(observation),
            error=envelope.gate(fail_at),
            extra={"envelope": envelope.to_dict()},
        )


def sizes_of(ports: Ports, observation: Observation) -> dict[str, SizeFacts]:
    """Return the numbers of objects of each cluster that was observed, by inventory name."""
    clusters = {host: cluster for host, cluster in observation.clusters.items() if host in observation.facts}
    return ports.read_sizes(clusters, parallel=PARALLEL)


def _sizes(scene: Scene, numbers: Mapping[str, SizeFacts]) -> dict[str, ClusterSize]:
    view = MeshView(scene=scene)
    services = {host: service_numbers(view, host) for host in scene.hosts}
    return {host: size_of(facts, numbers.get(host), services.get(host)) for host, facts in scene.facts.items()}


def _unread(numbers: Mapping[str, SizeFacts]) -> dict[str, tuple[str, ...]]:
    return {host: tuple(entry.message for entry in facts.unread) for host, facts in numbers.items() if facts.unread}


def _silent(scene: Scene) -> dict[str, str]:
    return {host: scene.failures[host].clause for host in scene.silent if host in scene.failures}
