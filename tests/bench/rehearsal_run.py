# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One measurement of a rehearsal, in a process of its own: ``python -m tests.bench.rehearsal_run CLUSTERS SERVICES EXPORTERS``.

A full mesh in which every Service is global in every cluster and has ready backends in that many of them. Every member and every pair of
links is rehearsed. Prints JSON; seconds are CPU seconds of this process, from the scene to the data of the result.
"""

from __future__ import annotations

import json
import resource
import sys
import time

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.loss import LossKind, each_loss
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.rehearsal import RehearsalInputs, rehearse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.stalls import stall_inputs
from tests.testing.traffic_builders import scene, service, slice_facts, traffic

GLOBAL = {"service.cilium.io/global": "true"}


def world(clusters: int, services: int, exporters: int) -> Scene:
    """The mesh. Service number N has its backends in the clusters from N on."""
    hosts = [f"c{number}" for number in range(1, clusters + 1)]
    names = [f"service-{number}" for number in range(services)]
    objects = [service(name, annotations=GLOBAL) for name in names]
    slices = {
        host: tuple(slice_facts(name) for number, name in enumerate(names) if (place - number) % clusters < exporters)
        for place, host in enumerate(hosts)
    }
    return scene(*(traffic(host, services=objects, slices=slices[host]) for host in hosts), version="1.20.2")


def main() -> None:
    clusters, services, exporters = (int(word) for word in sys.argv[1:4])
    current = world(clusters, services, exporters)
    losses = each_loss(current.mesh, (LossKind.MEMBERS, LossKind.LINKS))
    started, wall = time.process_time(), time.monotonic()
    inputs = RehearsalInputs(scene=current, desired=Desired(mesh=current.mesh), stalls=stall_inputs(current, (), None), mesh_check=300)
    found = rehearse(inputs, losses)
    judged = time.process_time()
    data = found.to_dict()
    ended = time.process_time()
    if len(data["losses"]) != len(losses):
        raise SystemExit("Some losses were not rehearsed.")
    seconds = {"rehearse": judged - started, "data": ended - judged}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures = {"seconds": seconds, "losses": len(losses), "clusters": clusters, "services": services, "exporters": exporters}
    print(json.dumps({**figures, "wall": time.monotonic() - wall, "peak": peak}))


if __name__ == "__main__":
    main()
