# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What clients of a global Service see while the mesh is changed: requests without a pause, with real agents and real packets."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tests.demo_traffic.scene import CLIENT, NAME, SPACE, scene
from tests.integration.labs import unused_name
from tests.integration.mesh_lab import MeshLab
from tests.integration.real_mesh import TEXTS, answers
from tests.lab import workloads
from tests.lab.follow import ENOUGH
from tests.lab.options import LabOptions
from tests.testing.waiting import equals, wait_for

_LIMIT: Final = 400.0
GLOBAL: Final = {"name": NAME, "selector": {"namespace": SPACE, "name": NAME}}
IN_FLIGHT: Final = 2
"""Requests of a client that asks one after the other: the one that is under way when the peer's addresses go, and one that was sent between
the first and the last of them."""


@dataclass(frozen=True)
class Seen:
    """What a client saw. ``requests``: seconds since its start, and who answered ("" without an answer)."""

    requests: Sequence[tuple[float, str]]

    @property
    def answers(self) -> Counter[str]:
        return Counter(text for _moment, text in self.requests)

    @property
    def lost(self) -> int:
        return self.answers[""]

    @property
    def gap(self) -> float:
        """Longest time between two requests that were answered."""
        moments = [moment for moment, text in self.requests if text]
        return max((later - earlier for earlier, later in itertools.pairwise(moments)), default=0.0)

    @property
    def shown(self) -> str:
        count, seconds = len(self.requests), self.requests[-1][0]
        return f"{count} requests in {seconds:.0f} s: {dict(self.answers)}; {self.lost} lost, longest gap {self.gap:.2f} s"


@contextmanager
def client(lab: MeshLab, cluster: str, *, pod: str = CLIENT, service: str = NAME) -> Iterator[list[Seen]]:
    """Requests of a client of a cluster to the Service, as long as the block lasts; what it saw is in the list afterwards."""
    handle, found = lab.lab.clusters[cluster], list[Seen]()
    address = (handle.api.get(f"/api/v1/namespaces/{SPACE}/services/{service}") or {})["spec"]["clusterIP"]

    def follow() -> None:
        answer = workloads.execute(handle.kubeconfig, SPACE, pod, ["follow", str(_LIMIT), address, "80"], limit=_LIMIT + 20)
        found.append(Seen([(moment, text) for moment, text in json.loads(answer.text)]))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield found
    finally:
        workloads.execute(handle.kubeconfig, SPACE, pod, ["nc", "-v", "-z", "-w", "2", "127.0.0.1", str(ENOUGH)])
        thread.join()


def test_the_life_of_a_mesh_as_a_client_sees_it(real_agents: None, record_property: Any) -> None:
    """A disconnect is the last thing: kvstoremesh takes a peer that it has just lost only after three minutes."""

    def step(playbook: str, after: set[str], **variables: Any) -> Seen:
        with client(lab, "c1") as seen:
            run = lab.play(playbook, **variables)
            assert run.rc == 0, run.output
            wait_for(partial(answers, lab, "c1"), equals(after), what=f"{after} answer after {playbook}")
        record_property(playbook, seen[0].shown)
        print(f"{playbook}: {seen[0].shown}")
        return seen[0]

    own, both = {TEXTS["c1"]}, set(TEXTS.values())
    with MeshLab(LabOptions(name=unused_name(), clusters=2, agents="real")) as lab:
        for cluster in lab.names:
            for body in scene(TEXTS[cluster]):
                lab.api(cluster).create(body)
        workloads.wait_ready(lab.api("c1"), SPACE, CLIENT)
        wait_for(partial(answers, lab, "c1"), equals(own), what="the own server answers")

        connect = step("connect", own)  # restarts the agents, which are given the names of the peers
        assert (connect.lost, set(connect.answers)) == (0, own), connect.shown
        shared = step("services", both, mesh={**lab.mesh(), "globalServices": [GLOBAL]})
        assert (shared.lost, set(shared.answers)) == (0, both), shared.shown
        rolled = step("ca", both, ca_sync_state="rolled")  # restarts clustermesh-apiserver, and replaces all certificates
        assert (rolled.lost, set(rolled.answers)) == (0, both), rolled.shown
        apart = step("disconnect", own)
        assert apart.lost <= IN_FLIGHT, apart.shown
        assert [text for _moment, text in apart.requests if text][-1] == TEXTS["c1"], apart.shown  # one in flight may be the last of all
