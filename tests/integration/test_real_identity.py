# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters that were never meshed get a name and an id, with real agents: what their clients see, and what peers take their pods for."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from tests.demo_traffic.scene import CLIENT, NAME, SERVICE, SPACE, scene
from tests.integration.labs import unused_name
from tests.integration.mesh_lab import MeshLab
from tests.integration.real_mesh import TEXTS, answers, services
from tests.integration.test_real_traffic import client
from tests.lab import workloads
from tests.lab.api import Object
from tests.lab.options import LabOptions
from tests.testing.waiting import equals, wait_for

OPEN: Final = "open"
VISITOR: Final = "visitor"
RANGE: Final = 1 << 16  # numbers of identities that belong to one cluster, with 255 clusters
PAUSE: Final = 10  # seconds from the start of an agent until the next one is restarted, at least
AGENTS: Final = "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium"
ONE_BY_ONE: Final[Object] = {"spec": {"minReadySeconds": PAUSE, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}}
"""A rollout in which each agent is alone in its new state for a while, as in a cluster of many nodes."""
CLIENT_ALONE: Final[Object] = {
    "apiVersion": "cilium.io/v2",
    "kind": "CiliumNetworkPolicy",
    "metadata": {"name": "client-alone", "namespace": SPACE},
    "spec": {
        "endpointSelector": {"matchLabels": {"app": NAME}},
        "ingress": [{"fromEndpoints": [{"matchLabels": {"app": CLIENT}}]}],
    },
}
DENY: Final[Object] = {
    "name": "no-client",
    "action": "Deny",
    "source": {"namespace": SPACE, "name": CLIENT, "clusters": ["c2", "c3"]},
    "destination": {"namespace": SPACE, "name": NAME, "clusters": ["c1"]},
}


def owners(lab: MeshLab, cluster: str) -> set[int]:
    """The clusters, by id, in whose range the identities of a cluster's pods are."""
    found = lab.api(cluster).list(f"/apis/cilium.io/v2/namespaces/{SPACE}/ciliumendpoints")
    return {int(row["status"]["identity"]["id"]) // RANGE for row in found}


def two_nodes() -> list[Object]:
    """A client near one server and far from another, with a policy that admits it to both; a visitor of a far server without a policy."""
    opened = {**SERVICE, "metadata": {"name": OPEN, "namespace": SPACE}, "spec": {**SERVICE["spec"], "selector": {"app": OPEN}}}
    first, second = "c2-node1", "c2-node2"
    return [
        SERVICE,
        CLIENT_ALONE,
        workloads.pod("near", {"app": NAME}, ["serve", "near"], node=first),
        workloads.pod("far", {"app": NAME}, ["serve", "far"], node=second),
        workloads.pod(CLIENT, {"app": CLIENT}, workloads.PAUSE, node=first),
        opened,
        workloads.pod(OPEN, {"app": OPEN}, ["serve", OPEN], node=second),
        workloads.pod(VISITOR, {"app": VISITOR}, workloads.PAUSE, node=first),
    ]


def test_a_new_name_and_id_as_clients_and_peers_see_it(real_agents: None, record_property: Any) -> None:
    """c2 has neither a name nor an id, c3 has a name: of that the id alone changes, and its identities keep their numbers."""
    options = LabOptions(
        name=unused_name(), clusters=3, cilium_names=("c1", "default", "c3"), cluster_ids=(1, 0, 0), nodes=(1, 2, 1), agents="real"
    )
    own = {"c2": {"near", "far"}, "c3": {"hello from c3"}}
    with MeshLab(options) as lab:
        bodies = {"c1": scene(TEXTS["c1"]), "c2": two_nodes(), "c3": scene("hello from c3")}
        for cluster, found in bodies.items():
            for body in found:
                lab.api(cluster).create(body)
        lab.api("c2").patch(AGENTS, ONE_BY_ONE)
        for cluster, texts in own.items():
            workloads.wait_ready(lab.api(cluster), SPACE, CLIENT)
            wait_for(partial(answers, lab, cluster), equals(texts), what=f"the servers of {cluster} answer")
        for pod in (OPEN, VISITOR):
            workloads.wait_ready(lab.api("c2"), SPACE, pod)
        with ExitStack() as stack:
            admitted, named = (stack.enter_context(client(lab, cluster)) for cluster in own)
            free = stack.enter_context(client(lab, "c2", pod=VISITOR, service=OPEN))
            run = lab.play("identity", cluster_identity_policy="assign")
            assert run.rc == 0, run.output
            for cluster, texts in own.items():
                wait_for(partial(answers, lab, cluster), equals(texts), what=f"the servers of {cluster} answer as before")
        for what, (seen,) in {"admitted by a policy": admitted, "without a policy": free, "the name stays": named}.items():
            record_property(what, seen.shown)
            print(f"{what}: {seen.shown}")
        lost = [moment for moment, text in admitted[0].requests if not text]
        print(f"admitted by a policy: lost from {lost[0]:.1f} s to {lost[-1] + 1:.1f} s")
        assert (free[0].lost, named[0].lost) == (0, 0), "the datapath goes on"
        assert PAUSE / 2 < lost[-1] + 1 - lost[0] < PAUSE * 3, "they are those of the time in which only one of two agents has the new name"
        assert {text for _moment, text in admitted[0].requests[-20:]} == own["c2"]
        assert (owners(lab, "c2"), owners(lab, "c3")) == ({2}, {0})

        run = lab.play("connect")
        assert run.rc == 0, run.output
        run = services(lab)
        assert run.rc == 0, run.output
        for cluster, texts in own.items():
            wanted = texts | {TEXTS["c1"]}
            wait_for(partial(answers, lab, cluster), wanted.issubset, what=f"c1 answers to {cluster}")
        run = lab.play("policies", mesh={**lab.mesh(), "connectivityIntents": [DENY]})
        assert run.rc == 0, run.output
        wait_for(partial(answers, lab, "c2"), lambda found: TEXTS["c1"] not in found, what="c1 refuses the client of c2")
        assert TEXTS["c1"] in answers(lab, "c3", 16), "c1 does not know whose the client of c3 is"
