# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What stands in the log: one JSON object a line, listed fields, nothing of what secrets and API servers say."""

from __future__ import annotations

import ast
import json
import logging
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_operator.base import log as log_module
from mesh_operator.base.log import FIELDS, log, setup
from tests.collection_path import CHECKOUT


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, sys.excepthook, threading.excepthook, logging.raiseExceptions)
    yield
    root.handlers[:], root.level = before[0], before[1]
    sys.excepthook, threading.excepthook, logging.raiseExceptions = before[2:]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.err == ""
    return [json.loads(line) for line in captured.out.splitlines()]


def boom() -> None:
    raise ValueError("password=hunter2")


def test_a_line_has_time_level_event_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    log("run_ended", workspace="2xk1", name="eu", seconds=1.23456, changed=True, count=0)
    (line,) = lines(capsys)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "event": "run_ended",
        "workspace": "2xk1",
        "name": "eu",
        "seconds": 1.235,
        "changed": True,
        "count": 0,
    }


def test_fields_that_are_not_listed_and_values_of_other_types_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    log("event", body="x", kubeconfig="y", name={"a": 1}, reason=["b"], code=None, kind="")
    assert set(lines(capsys)[0]) == {"time", "level", "event"}


def test_of_a_url_only_host_and_port_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    log("endpoint_found", url="https://user:pass@kcp.example:6443/services/apiexport/root:org/networking?token=x")
    log("endpoint_found", url="https://kcp.example?token=x")
    log("endpoint_found", url="https://[")
    assert [line.get("url") for line in lines(capsys)] == ["kcp.example:6443", "kcp.example", "["]


def test_secrets_are_masked_and_long_or_hostile_values_become_one_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    log("event", name="a\nb\x1b[31m\u202e", reason="x y " * 5000, code="token: abcdef")
    (line,) = lines(capsys)
    assert line["name"] == "a b[31m"
    assert len(line["reason"]) == 200
    assert "abcdef" not in line["code"]


def test_an_exception_is_reported_by_class_and_place_never_by_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    try:
        boom()
    except ValueError as error:
        log("failed", level=logging.ERROR, error=error)
    (line,) = lines(capsys)
    assert line["level"] == "error"
    assert line["error"].startswith("ValueError at test_log.py:")
    assert "hunter2" not in json.dumps(line)


def test_of_what_libraries_log_only_who_and_how_bad_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    logging.getLogger("some.library").warning("Retrying after %s", "/api/v1/secrets?token=abc")
    logging.getLogger("some.library").info("not shown")
    (line,) = lines(capsys)
    assert {key: line[key] for key in ("level", "event", "name")} == {
        "level": "warning",
        "event": "library",
        "name": "some.library",
    }
    assert "abc" not in json.dumps(line)


def test_an_uncaught_exception_of_any_thread_is_a_line_without_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    setup()
    thread = threading.Thread(target=boom)
    thread.start()
    thread.join()
    try:
        boom()
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    first, second = lines(capsys)
    assert (first["event"], second["event"]) == ("thread_crashed", "crashed")
    assert all(line["error"].startswith("ValueError at test_log.py:") for line in (first, second))


@given(
    st.dictionaries(st.sampled_from(sorted(FIELDS)), st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.binary()), max_size=5)
)
def test_whatever_is_said_is_one_line_of_json(fields: dict[str, Any]) -> None:
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(log_module._line(record))

    handler = Keep()
    logger = logging.getLogger("mesh_operator")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        log("event", **fields)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert len(said) == 1
    assert len(said[0].splitlines()) == 1
    json.loads(said[0], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_an_event_is_written_in_one_place_so_that_it_has_the_same_fields_for_meshes_and_fleets() -> None:
    events = Counter[str]()
    for file in (CHECKOUT / "operator" / "mesh_operator").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "log":
                events[ast.unparse(node.args[0])] += 1
    assert events["'run_ended'"] == events["'dry_run_failed'"] == 1
    assert [event for event, places in events.items() if places > 1] == []
