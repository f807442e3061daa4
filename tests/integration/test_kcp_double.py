# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the double can do that a real kcp does not do when asked: several shards, and faults."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from tests.integration.kcp_samples import BINDINGS, CLUSTERS, INSIDE, PATH_OF_BINDING, cluster_object, mesh
from tests.lab.api import ApiError
from tests.lab.patience import scaled
from tests.lab.tools import ToolUnavailable
from tests.testing.kcp_client import Client
from tests.testing.kcp_double import KcpDouble
from tests.testing.kcp_world import EXPORT, Tenant, World, eventually, open_world


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    try:
        with open_world("double") as world:
            yield world
    except ToolUnavailable as error:
        pytest.skip(f"no kube-apiserver: {error}")


@pytest.fixture(scope="module")
def tenant(world: World) -> Tenant:
    tenant = world.tenant("shop")
    for number in range(5):
        tenant.client.create(mesh(f"mesh-{number}"))
    tenant.client.create(cluster_object("ffm"))
    return tenant


@pytest.fixture
def double(world: World, tenant: Tenant) -> Iterator[KcpDouble]:
    assert world.double is not None
    world.double.lag(0)
    yield world.double
    world.double.lag(0)
    world.double.faults.clear()


class Follower(threading.Thread):
    """A watch on a thread of its own: what it saw, and how it ended."""

    def __init__(self, client: Client, path: str = BINDINGS, seconds: int = 20) -> None:
        super().__init__(daemon=True)
        version = client.call("GET", path).json["metadata"]["resourceVersion"]
        self.events: list[tuple[str, str]] = []
        self.end = ""
        self._watch = client.watch(path, version, seconds=seconds)
        self.start()

    def run(self) -> None:
        try:
            for event in self._watch:
                self.events.append((event["type"], event["object"].get("metadata", {}).get("name", "")))
            self.end = "clean"
        except (urllib3.exceptions.HTTPError, ApiError) as error:
            self.end = type(error).__name__


def follow(world: World, count: int = 1, **options: Any) -> Follower:
    """A watch that is under way at the server, too."""
    follower = Follower(world.virtual("*", **options))
    eventually(lambda: world.faults.watches(plural="clustermeshbindings") >= count, "the watch is under way")
    return follower


def names(client: Client, path: str = BINDINGS) -> set[str]:
    return {one["metadata"]["name"] for one in client.list(path)}


def test_a_workspace_moves_from_one_shard_to_another(world: World, tenant: Tenant, double: KcpDouble) -> None:
    double.add_shard("east")
    far = world.tenant("far", shard="east")
    far.client.create(mesh("there"))
    east, root = sorted(world.wait_urls(2), key=lambda url: url.startswith(double.url))
    on_root, on_east = world.virtual("*", url=root), world.virtual("*", url=east)
    assert names(on_east) == {"there"} and "there" not in names(on_root)
    assert world.virtual(far.cluster, url=root).call("GET", f"{INSIDE}/there").status == 403

    watches = [follow(world, 1, url=root), follow(world, 2, url=east)]
    double.move_workspace(tenant.path, "east")
    assert names(on_east) >= {"there", "mesh-0"}
    assert on_root.call("GET", BINDINGS).status == 404, "no workspace on this shard binds the export now"
    world.wait_urls(1)
    left = sorted(("DELETED", f"mesh-{one}") for one in range(5))
    eventually(lambda: sorted(watches[0].events) == left, "the objects leave one watch")
    eventually(lambda: {name for _, name in watches[1].events} >= {f"mesh-{one}" for one in range(5)}, "and appear on the other")
    assert names(on_east, CLUSTERS) == {"ffm"}

    double.move_workspace(tenant.path, "root")
    far.client.delete(f"{PATH_OF_BINDING}/{EXPORT}")
    eventually(lambda: world.urls() == [root], "the second shard's URL goes, the first one's is back")
    double.faults.cut_watches(clean=True)


def test_urls_come_go_and_change(world: World, double: KcpDouble) -> None:
    before = world.wait_urls()[0]
    double.hide_url("root")
    world.wait_urls(0)
    assert world.virtual("*", url=before).call("GET", BINDINGS).status == 200, "it still answers"
    double.show_url("root")
    assert world.wait_urls() == [before]
    double.add_shard("west")
    westerner = world.tenant("westerner", shard="west")
    old = next(url for url in world.wait_urls(2) if url != before)
    double.move_url("west")
    eventually(lambda: old not in world.urls() and len(world.urls()) == 2, "the slice tells the new address")
    with pytest.raises(urllib3.exceptions.HTTPError):
        world.virtual("*", url=old).call("GET", BINDINGS)
    world.unbind(westerner)
    assert world.wait_urls() == [before]


@pytest.mark.parametrize("clean", [True, False])
def test_watches_are_cut(world: World, double: KcpDouble, clean: bool) -> None:
    follower = follow(world)
    assert double.faults.cut_watches(clean=clean) >= 1
    follower.join(scaled(5))
    assert follower.end == ("clean" if clean else "ProtocolError")


def test_versions_and_pages_expire(world: World, double: KcpDouble) -> None:
    client = world.virtual("*")
    double.faults.expire_watch()
    assert [event["object"]["code"] for event in client.watch(BINDINGS, "1", seconds=1)] == [410]
    double.faults.expire_watch(as_event=False)
    with pytest.raises(ApiError, match="410 Expired"):
        list(client.watch(BINDINGS, "1", seconds=1))
    double.faults.expire_page(plural="clustermeshbindings")
    with pytest.raises(ApiError, match="410 Expired"):
        client.list(BINDINGS, limit=2)
    assert len(client.list(BINDINGS, limit=2)) >= 5, "it was for once"


@pytest.mark.parametrize("status", [403, 404, 503])
def test_an_answer_for_a_while(world: World, tenant: Tenant, double: KcpDouble, status: int) -> None:
    with double.faults.answer(status, plural="clustermeshbindings", verbs=["list"]) as fault:
        assert world.virtual("*").call("GET", BINDINGS).status == status
        assert world.virtual("*").call("GET", CLUSTERS).status == 200
        assert tenant.client.call("GET", INSIDE).status == 200, "only virtual workspaces are concerned"
        assert fault.met == 1
    assert world.virtual("*").call("GET", BINDINGS).status == 200


def test_silence_and_delay(world: World, double: KcpDouble) -> None:
    client = world.virtual("*")
    with double.faults.silence(verbs=["list"]), pytest.raises(urllib3.exceptions.ReadTimeoutError):
        client.call("GET", BINDINGS, read=0.3)
    with double.faults.delay(0.3):
        start = time.monotonic()
        assert client.call("GET", BINDINGS).status == 200
        assert time.monotonic() - start >= 0.3


def test_a_mute_watch_loses_what_happens(world: World, tenant: Tenant, double: KcpDouble) -> None:
    follower = follow(world)
    with double.faults.mute():
        tenant.client.merge(f"{INSIDE}/mesh-0", {"metadata": {"labels": {"seen": "no"}}})
        time.sleep(0.2)
    tenant.client.merge(f"{INSIDE}/mesh-1", {"metadata": {"labels": {"seen": "yes"}}})
    eventually(lambda: follower.events, "the second change is seen")
    assert follower.events == [("MODIFIED", "mesh-1")]
    double.faults.cut_watches()


def test_a_restart_breaks_connections_and_keeps_the_state(world: World, double: KcpDouble) -> None:
    client, known = world.virtual("*"), names(world.virtual("*"))
    follower = follow(world)
    double.restart(down=0.1)
    follower.join(scaled(5))
    assert follower.end == "ProtocolError"
    assert eventually(lambda: names(client), "it is back") == known


def test_a_claim_that_is_withdrawn_hides_the_objects(world: World, tenant: Tenant, double: KcpDouble) -> None:
    client, path = world.virtual("*"), f"{PATH_OF_BINDING}/{EXPORT}"
    known = tenant.client.get(path) or {}
    rejected = json.loads(json.dumps(known["spec"]["permissionClaims"]).replace("Accepted", "Rejected"))
    accepted = known["spec"]["permissionClaims"]
    version = client.call("GET", CLUSTERS).json["metadata"]["resourceVersion"]
    tenant.client.merge(path, {"spec": {"permissionClaims": rejected}})
    eventually(lambda: "ffm" not in names(client, CLUSTERS), "the cluster is hidden")
    assert world.virtual(tenant.cluster).call("GET", CLUSTERS).status == 403
    tenant.client.merge(path, {"spec": {"permissionClaims": accepted}})
    eventually(lambda: "ffm" in names(client, CLUSTERS), "the cluster is shown")
    kinds = [event["type"] for event in client.watch(CLUSTERS, version, seconds=1)]
    assert kinds and kinds[-1] == "MODIFIED"


def test_a_list_of_all_workspaces_lags_behind_a_new_binding_and_a_watch_from_it_misses_nothing(world: World, double: KcpDouble) -> None:
    client = world.virtual("*")
    known = names(client)
    double.lag(3600)
    newcomer = world.tenant("newcomer")
    newcomer.client.create(mesh("late"))
    assert names(world.virtual(newcomer.cluster)) == {"late"}, "lists of one workspace are current"
    stale = client.call("GET", BINDINGS).json
    assert {one["metadata"]["name"] for one in stale["items"]} == known
    assert names(client, CLUSTERS) == {"ffm"}
    events = list(client.watch(BINDINGS, stale["metadata"]["resourceVersion"], seconds=1))
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in events] == [("ADDED", "late")]
    double.lag(0)
    assert names(client) == {*known, "late"}
    world.unbind(newcomer)
    eventually(lambda: names(client) == known, "nothing of the newcomer is left")
