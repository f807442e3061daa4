# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""One list and watch against an API that answers as a test says: what reaches the sink, what is asked next, and what /readyz says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Event, Thread
from typing import Any, cast

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    CredentialsInvalid,
    Forbidden,
    MeshError,
    ServerRefused,
    Unreachable,
)
from mesh_operator.source.watch import Source, Watcher
from tests.lab.patience import scaled

PATH = "/clusters/*/apis/networking.edge-portal.eu/v1alpha1/globalservices"
Object = dict[str, Any]


def obj(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def page(*names: str, version: str = "100", token: str = "") -> Object:
    metadata = {key: value for key, value in (("resourceVersion", version), ("continue", token)) if value}
    return {"metadata": metadata, "items": [obj(name, 1) for name in names]}


def event(kind: str, name: str, version: int) -> Object:
    return {"type": kind, "object": obj(name, version)}


def gone(code: int) -> Object:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": "Expired", "message": "canary-5f1e"}}


def refused(status: int) -> ServerRefused:
    return ServerRefused(f"The API server answered {status}.", status=status)


Step = MeshError | Exception | Object | None | list[Any]


class World:
    """The API, the sink, the clock and the chance of one watcher. Each answer is used once. The watcher is stopped when it waits
    after the last one, or by END."""

    def __init__(self, *answers: Step, relist: float = 600.0, **options: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Any]] = []  # ("list", token) and ("watch", version)
        self.seconds: list[int] = []  # of each watch
        self.options: list[Object] = []
        self.seen: list[Any] = []  # what reached the sink
        self.waited: list[float] = []
        self.now = 50.0
        self.stop = Event()
        self.drawn: Callable[[float, float], float] = lambda low, high: high
        self.watcher = Watcher(
            cast(Source, self),
            PATH,
            self,
            self.stop,
            clock=lambda: self.now,
            wait=self._wait,
            relist=relist,
            random=lambda low, high: 1.0 if (low, high) == (0.9, 1.1) else self.drawn(low, high),
            **options,
        )

    def run(self) -> World:
        self.watcher.run()
        return self

    @property
    def state(self) -> Any:
        return self.watcher.state

    # The clock

    def _wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds
        if not self.answers:
            self.stop.set()

    # The API

    def page(self, path: str, *, token: str = "", **options: Any) -> Object | None:
        assert path == PATH
        self.options.append(options)
        return cast("Object | None", self._next("list", token))

    def watch(self, path: str, *, version: str, seconds: int, **options: Any) -> Iterator[Object]:
        assert path == PATH
        self.options.append(options)
        self.seconds.append(seconds)
        answer = self._next("watch", version)
        for one in answer if isinstance(answer, list) else ():
            if isinstance(one, Exception):
                raise one
            if isinstance(one, float):
                self.now += one
            elif one == "stop":
                self.stop.set()
            else:
                yield one

    def _next(self, what: str, detail: str) -> Step:
        self.asked.append((what, detail))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    # The sink

    def replace(self, objects: Iterable[Object]) -> None:
        self.seen.append([one["metadata"]["name"] for one in objects])

    def unserved(self) -> None:
        self.seen.append("unserved")

    def put(self, obj: Object) -> None:
        self.seen.append(("put", obj["metadata"]["name"]))

    def missing(self, obj: Object) -> None:
        self.seen.append(("missing", obj["metadata"]["name"]))


END: list[Any] = ["stop"]  # a watch during which the watcher is stopped


# Lists


def test_all_pages_are_one_list_and_the_watch_starts_at_the_version_of_the_first() -> None:
    world = World(page("a", "b", version="100", token="t1"), page("c", version="107", token="t2"), page("d", version="109"), END).run()
    assert world.asked == [("list", ""), ("list", "t1"), ("list", "t2"), ("watch", "100")]
    assert world.seen == [["a", "b", "c", "d"]]
    assert (world.state.listed_at, world.state.served, world.state.error, world.state.restarts) == (50.0, True, "", 0)


def test_a_token_that_expired_while_paging_starts_the_list_over() -> None:
    world = World(page("a", token="t1"), refused(410), page("a", token="t3"), page("b"), END).run()
    assert [asked for asked in world.asked if asked[0] == "list"] == [("list", ""), ("list", "t1"), ("list", ""), ("list", "t3")]
    assert world.seen == [["a", "b"]]
    assert world.waited[0] <= 1.0


def test_objects_are_taken_as_their_page_comes_and_the_list_ends_with_all_of_its_own_alone() -> None:
    """So a list is in memory once, as what takes its objects keeps them."""
    taken: list[list[str]] = []

    def reception() -> Callable[[Object], Object]:
        taken.append([])

        def take(one: Object) -> Object:
            taken[-1].append(one["metadata"]["name"])
            return {"metadata": {"name": f"kept {taken[-1][-1]}"}}

        return take

    world = World(page("a", "b", token="t1"), refused(410), page("c", token="t2"), page("d"), END, reception=reception).run()
    assert taken == [["a", "b"], ["c", "d"]] and world.seen == [["kept c", "kept d"]]


@pytest.mark.parametrize("unserved", [None, page(version=""), page("ghost", version="")], ids=["404", "no version", "no version, objects"])
def test_what_is_not_served_is_listed_again_and_again_but_not_watched(unserved: Object | None) -> None:
    world = World(*[unserved] * 7, page("a"), END).run()
    assert {what for what, _ in world.asked[:7]} == {"list"} and world.asked[8] == ("watch", "100")
    assert world.seen == ["unserved" if unserved is None else []] * 7 + [["a"]]
    assert world.waited[:7] == [2, 4, 8, 16, 30, 30, 30]
    assert world.state.served and world.state.error == ""


def test_what_is_not_served_counts_as_listed_so_that_readiness_does_not_wait_for_it() -> None:
    world = World(None).run()
    assert world.state.listed_at == 50.0 and not world.state.served


def test_a_resource_that_stops_being_served_is_unknown_and_not_empty() -> None:
    world = World(page("a"), refused(404), None, page("a"), END).run()
    assert [what for what, _ in world.asked] == ["list", "watch", "list", "list", "watch"]
    assert world.seen == [["a"], "unserved", ["a"]]


def test_a_resource_that_stops_being_served_between_two_pages_is_unknown() -> None:
    assert World(page("a", token="t1"), None, page("a"), END).run().seen == ["unserved", ["a"]]


def test_a_watch_of_metadata_and_of_one_name_asks_for_no_more() -> None:
    world = World(page("a"), END, field_selector="metadata.name=a", metadata_only=True).run()
    assert world.options == [{"field_selector": "metadata.name=a", "metadata_only": True}] * 2


@pytest.mark.parametrize("error", [Forbidden("RBAC forbids to list (403)."), CredentialsInvalid("wrong or expired")])
def test_what_is_forbidden_is_reported_and_asked_for_at_most_once_a_minute(error: MeshError) -> None:
    world = World(*[error] * 9).run()
    assert world.waited == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert world.seen == [] and world.state.listed_at is None
    assert world.state.error == str(error) and world.state.restarts == 9
    assert world.state.failing_since == 50.0, "the first of the errors in a row"


def test_an_error_is_over_with_the_next_list() -> None:
    world = World(Unreachable("refused the connection"), page("a"), END).run()
    assert world.state.error == "" and world.state.restarts == 1 and world.state.listed_at == 51.0
    assert world.state.failing_since is None


# Watches


def test_events_reach_the_sink_and_bookmarks_only_move_the_version() -> None:
    events = [event("ADDED", "b", 101), event("MODIFIED", "a", 102), event("DELETED", "b", 103), event("BOOKMARK", "", 140)]
    world = World(page("a"), events, END).run()
    assert world.seen == [["a"], ("put", "b"), ("put", "a"), ("missing", "b")]
    assert world.asked == [("list", ""), ("watch", "100"), ("watch", "140")]


def test_a_watch_that_ends_goes_on_where_it_was_after_a_breath() -> None:
    world = World(page(), [event("ADDED", "a", 101)], [], [event("ADDED", "b", 102)], END).run()
    assert [detail for what, detail in world.asked if what == "watch"] == ["100", "101", "101", "102"]
    assert world.waited[:3] == [1.0] * 3 and world.state.restarts == 0


def test_each_watch_lasts_between_four_and_five_minutes() -> None:
    world = World(page(), *[[] for _ in range(5)], END)
    lengths = iter([240.0, 299.7, 251.3, 300.0, 266.0, 240.0])
    world.drawn = lambda low, high: next(lengths) if (low, high) == (240.0, 300.0) else low
    assert world.run().seconds == [240, 299, 251, 300, 266, 240]


def test_all_is_listed_again_after_ten_minutes_for_which_a_watch_ends_earlier() -> None:
    world = World(page("a"), [300.0], [295.0], [2.0], page("a", "b", version="900"), END).run()
    assert world.seconds[:3] == [300, 299, 3] and all(seconds >= 1 for seconds in world.seconds)
    assert [what for what, _ in world.asked] == ["list", "watch", "watch", "watch", "list", "watch"]
    assert world.seen == [["a"], ["a", "b"]] and world.state.listed_at == pytest.approx(650.0, abs=3)


def test_a_slice_that_is_listed_every_half_minute_is_watched_in_between() -> None:
    world = World(page("a"), [30.0], page("a"), END, relist=30.0).run()
    assert world.seconds == [30, 30]


@pytest.mark.parametrize("first", [[gone(410)], refused(410), refused(404)], ids=["event", "HTTP 410", "HTTP 404"])
def test_a_version_that_is_too_old_leads_to_a_list(first: Step) -> None:
    world = World(page("a"), first, page("a", "b", version="900"), END).run()
    assert world.asked == [("list", ""), ("watch", "100"), ("list", ""), ("watch", "900")]
    assert world.seen == [["a"], ["a", "b"]] and world.waited[0] <= 1.0 and world.state.restarts == 1


def test_a_server_that_calls_every_version_too_old_is_asked_less_and_less_often() -> None:
    steps: list[Step] = [page("a"), [gone(410)]]
    world = World(*steps * 8).run()
    assert world.waited == [1, 2, 4, 8, 16, 32, 60, 60]


def test_an_error_event_is_no_object_and_its_text_is_not_repeated() -> None:
    world = World(page("a"), [event("ADDED", "b", 101), gone(500)]).run()
    assert world.seen == [["a"], ("put", "b")]
    assert "500" in world.state.error and "canary" not in world.state.error


def test_a_broken_watch_is_taken_up_where_it_broke() -> None:
    cut = Unreachable("closed the connection before it answered")
    world = World(page(), [event("ADDED", "a", 101), cut], [event("ADDED", "b", 102), cut], END).run()
    assert [detail for what, detail in world.asked if what == "watch"] == ["100", "101", "102"]
    assert world.waited[:2] == [1.0, 1.0]  # an event in between: not the second failure in a row


def test_after_three_failures_in_a_row_all_is_listed_again() -> None:
    cut = Unreachable("closed the connection before it answered")
    world = World(page(), cut, cut, cut, page("a"), END).run()
    assert [what for what, _ in world.asked] == ["list", "watch", "watch", "watch", "list", "watch"]
    assert world.waited[:3] == [1.0, 2.0, 4.0]


def test_delays_are_drawn_between_half_and_all_of_what_they_could_be() -> None:
    world = World(refused(500), refused(500), refused(500))
    between: list[tuple[float, float]] = []

    def drawn(low: float, high: float) -> float:
        between.append((low, high))
        return low

    world.drawn = drawn
    world.run()
    assert between == [(0.5, 1.0), (1.0, 2.0), (2.0, 4.0)]


def test_a_sink_that_fails_ends_neither_the_thread_nor_the_truth() -> None:
    class Failing(World):
        def put(self, obj: Object) -> None:
            raise KeyError("canary-5f1e")

        def _wait(self, seconds: float) -> None:
            errors.append(self.state.error)
            super()._wait(seconds)

    errors: list[str] = []
    world = Failing(page("a"), [event("ADDED", "b", 101)], page("a", "b"), END).run()
    assert world.asked == [("list", ""), ("watch", "100"), ("list", ""), ("watch", "100")]
    assert world.seen == [["a"], ["a", "b"]] and world.state.restarts == 1
    assert any("KeyError at test_list_watch.py:" in error for error in errors) and "canary" not in str(errors)


# The end


def test_nothing_that_comes_after_the_stop_is_passed_on() -> None:
    world = World(page("a"), [event("ADDED", "b", 101), "stop", event("ADDED", "c", 102)], refused(500)).run()
    assert world.seen == [["a"], ("put", "b")]

    class Stopped(World):
        def page(self, path: str, *, token: str = "", **options: Any) -> Object | None:
            self.stop.set()
            return super().page(path, token=token, **options)

    world = Stopped(page("a", token="t1"), page("b")).run()
    assert world.asked == [("list", "")] and world.seen == [] and world.state.listed_at is None


def test_a_watcher_that_waits_ends_with_its_stop() -> None:
    class Down:
        def page(self, *_: Any, **__: Any) -> Object | None:
            asked.set()
            raise Unreachable("refused the connection")

    asked, stop = Event(), Event()
    watcher = Watcher(cast(Source, Down()), PATH, World(None), stop, clock=lambda: 0.0, random=lambda low, high: 60.0)
    thread = Thread(target=watcher.run, daemon=True)
    thread.start()
    assert asked.wait(scaled(5))
    stop.set()
    thread.join(scaled(5))
    assert not thread.is_alive() and watcher.state.error
