# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A confined process from inside: what it may open, read, start and reach; and from outside: that it ends, whatever it does.

Where the kernel has no Landlock, tests of files, signals and programs say so by a skip; all others hold everywhere.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from mesh_operator.runs.confined.confinement import Measures, ProcessLimits, in_memory, measures_here, memory_folder
from mesh_operator.runs.confined.messages import send_job
from mesh_operator.runs.confined.process import Cause, ConfinedProcesses, ConfinedProcessFailed
from tests.collection_path import CHECKOUT
from tests.testing.confined_probe import HANDLER
from tests.testing.known import known
from tests.testing.waiting import wait_for

CANARY = "c4n4ry-of-the-operator"
LIMITS = ProcessLimits(memory=64 * 1024 * 1024, cpu=20)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfinedProcesses]:
    """The fork server of an operator that has a secret in its environment and in an open file that programs inherit."""
    secret = tmp_path_factory.mktemp("etc") / "kubeconfig"
    secret.write_text(CANARY)
    descriptor = os.open(secret, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    os.environ["KCP_TOKEN"] = CANARY
    found = ConfinedProcesses(HANDLER)
    try:
        yield found
    finally:
        found.close()
        del os.environ["KCP_TOKEN"]
        os.close(descriptor)


def ask(processes: ConfinedProcesses, do: str, *arguments: Any, deadline: float = 60.0, limits: ProcessLimits = LIMITS) -> Any:
    with processes.open(limits, deadline) as process:
        return process.ask({"do": do, "with": arguments})


def failure(processes: ConfinedProcesses, do: str, *arguments: Any, deadline: float = 60.0, limits: ProcessLimits = LIMITS) -> Cause:
    with pytest.raises(ConfinedProcessFailed) as failed:
        ask(processes, do, *arguments, deadline=deadline, limits=limits)
    assert "c4n4ry" not in str(failed.value), "the text of an exception may quote a tenant's data"
    return failed.value.cause


def landlock(processes: ConfinedProcesses) -> int:
    """Version of Landlock. Without it the server has said why, and the test that needs it is skipped with that reason."""
    ask(processes, "environment")
    assert processes.measures is not None
    if not processes.measures.landlock:
        [why] = [sentence for sentence in processes.measures.missing if sentence.startswith("No Landlock: ")]
        pytest.skip(why)
    return processes.measures.landlock


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


# From inside


def test_nothing_of_the_operator_is_in_its_environment_or_its_open_files(processes: ConfinedProcesses) -> None:
    environment = ask(processes, "environment")
    known = {"PATH", "LANG", "LC_CTYPE", "HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "MALLOC_ARENA_MAX", "TMPDIR"}
    assert environment.keys() <= known | {"KUBERNETES_SERVICE_HOST", "SSL_CERT_FILE", "SSL_CERT_DIR", "LD_LIBRARY_PATH", "TZ"}
    assert CANARY not in str(environment)
    files = ask(processes, "descriptors")
    assert files.keys() == {"0", "1", "2", "3"}, "standard streams and the socket of its answers"
    assert {files[number][1] for number in "012"} == {os.stat(os.devnull).st_rdev} and stat.S_ISSOCK(files["3"][0])


def documented() -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """What docs/threat-model.md says: row -> result and needed measure of what it tries; row -> value of what it has."""
    page = (CHECKOUT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    section = page.partition("## What a confined process may do\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")]
    tried = {row[0]: (row[1], row[2]) for row in rows if len(row) == 3 and row[1] not in ("Result", "---")}
    return tried, {row[0]: row[1] for row in rows if len(row) == 2 and row[1] not in ("Value", "---")}


def absent(needs: str, measures: Measures) -> str:
    """Return why a measure that a row needs is not there; "" if it is."""
    if needs == "another user":
        return "" if measures.user > 0 else next(sentence for sentence in measures.missing if sentence.startswith("No other user: "))
    if not needs.startswith("Landlock "):
        assert needs == "nothing", needs
        return ""
    if measures.landlock:
        return "" if measures.landlock >= int(needs.split()[1]) else f"this kernel has Landlock {measures.landlock}"
    return next(sentence for sentence in measures.missing if sentence.startswith("No Landlock: "))


def test_it_may_do_what_the_threat_model_lists_and_nothing_else(processes: ConfinedProcesses, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(CANARY)
    files = {"kubeconfig": str(tmp_path / "kubeconfig"), "folder": str(tmp_path), "socket": f"mesh-operator-{os.getpid()}"}
    with socket.socket(socket.AF_UNIX) as abstract, socket.create_server(("127.0.0.1", 0)) as server:
        abstract.bind(f"\0{files['socket']}")
        abstract.listen()
        found = ask(processes, "everything", os.getpid(), files, server.getsockname()[1])
    tried, has = documented()
    measures = known(processes.measures)
    environment = set(has.pop("its environment, of these at most").split())
    assert set(found.pop("its environment").split()) <= environment
    assert len(tried) > 20 and found.keys() == tried.keys() | has.keys(), "the table names all that is tried, and nothing else"
    assert {row: found[row] for row in has} == has
    held = {}
    for row, (result, needs) in tried.items():
        if why := absent(needs, measures):
            print(f"not compared: {row} ({found[row]}). {why}")
        else:
            held[row] = result
    assert {row: found[row] for row in held} == held


def test_it_can_open_no_file_of_the_operator(processes: ConfinedProcesses, tmp_path: Path) -> None:
    landlock(processes)
    (tmp_path / "kubeconfig").write_text(CANARY)
    operator = os.getpid()
    closed = (
        *(str(tmp_path / "kubeconfig"), "/etc/shadow", f"/proc/{operator}/environ", f"/proc/{operator}/mem", f"/proc/{operator}/maps"),
        *("/proc/self/environ", "/proc/1/cmdline"),
    )
    assert {path: found for path, found in ask(processes, "read", *closed).items() if found not in ("EACCES", "EPERM")} == {}
    places = (str(tmp_path), "/", "/dev/shm", "/tmp", "/run", "/proc", "/etc", "/home", "/root", "/var")
    found = ask(processes, "list", *(place for place in places if os.path.isdir(place)))
    assert set(found.values()) == {"EACCES"}, found


def test_it_can_read_what_python_tls_and_the_resolver_need(processes: ConfinedProcesses) -> None:
    present = [
        path for path in ("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/ssl/certs", "/dev/urandom") if os.path.exists(path)
    ]
    needed = (*present, os.path.realpath(os.__file__), os.path.realpath(pytest.__file__))
    assert {path: found for path, found in ask(processes, "read", *needed).items() if found != "read"} == {}


def test_it_can_write_small_files_in_its_own_folder_alone_which_goes_with_it(processes: ConfinedProcesses, tmp_path: Path) -> None:
    folder, found = ask(processes, "private", LIMITS.file_size)
    assert found == "written" and not os.path.exists(folder)
    assert ask(processes, "private", LIMITS.file_size + 4096)[1] == "EFBIG"
    landlock(processes)
    places = (str(tmp_path / "new"), "/dev/shm/mesh-operator-new", "/tmp/mesh-operator-new", f"{os.path.dirname(folder)}/new", os.__file__)
    assert set(ask(processes, "write", *places).values()) == {"EACCES"}


def test_its_folder_is_in_the_private_one_that_the_platform_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_memory("/dev/shm"):
        pytest.skip("No tmpfs is at /dev/shm, so this test has no folder in memory to name.")
    with TemporaryDirectory(dir="/dev/shm") as private:
        monkeypatch.setenv("XDG_RUNTIME_DIR", private)
        monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))  # on a disk, or as good as the named one
        named = memory_folder()
        processes = ConfinedProcesses(HANDLER)
        try:
            folder, found = ask(processes, "private", 4096)
            assert (found, Path(folder).parents[1]) == ("written", Path(named)) and "XDG_RUNTIME_DIR" not in ask(processes, "environment")
        finally:
            processes.close()
        assert os.listdir(private) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root has another user for its dry runs.")
def test_a_folder_of_root_alone_takes_the_other_user_from_dry_runs_and_the_operator_says_so(tmp_path: Path) -> None:
    (tmp_path / "folders").mkdir(mode=0o711)
    tmp_path.chmod(0o700)
    measures = measures_here((), str(tmp_path / "folders"))
    said = f"No other user: the user nobody cannot pass through to {tmp_path}/folders; dry runs have the operator's user."
    assert (measures.user, said in measures.missing) == (-1, True)


MOUNTS = """\
overlay / overlay rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/sda1 /tmp/disk ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
tmpfs /twice tmpfs rw 0 0
/dev/sda1 /twice ext4 rw 0 0
tmpfs /r tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "held"),
    [("/tmp", True), ("/tmp/x/", True), ("/tmp/disk/x", False), ("/run/user/0", True), ("/runs", False), ("/twice", False), ("/", False)],
)
def test_a_folder_is_in_memory_where_the_mount_that_it_is_seen_in_is(tmp_path: Path, folder: str, held: bool) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert in_memory(folder, tmp_path / "mounts") is held


@pytest.mark.parametrize(
    ("in_memory", "runtime", "temporary", "chosen", "said"),
    [
        (("/run", "/tmp", "/dev/shm"), "/run", "/tmp", "/run", ""),
        (("/tmp", "/dev/shm"), "/run", "/tmp", "/tmp", ""),
        (("/tmp", "/dev/shm"), "", "/tmp", "/tmp", ""),
        (("/tmp", "/dev/shm"), "/dev/shm/private", "/tmp", "/tmp", ""),
        (("/dev/shm",), "/run", "/tmp", "/dev/shm", "/dev/shm is the only folder in memory"),
        (("/dev/shm",), "/dev/shm/private", "/tmp", "/dev/shm/private", "/dev/shm is the only folder in memory"),
        ((), "/run", "/tmp", "/tmp", "No folder in memory: keys and kubeconfigs are in /tmp"),
    ],
)
def test_private_files_are_in_memory_and_not_among_semaphores_or_the_operator_says_so(
    monkeypatch: pytest.MonkeyPatch, in_memory: tuple[str, ...], runtime: str, temporary: str, chosen: str, said: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setattr("tempfile.gettempdir", lambda: temporary)
    monkeypatch.setattr(os, "access", lambda place, _how: bool(place))
    monkeypatch.setattr("mesh_operator.runs.confined.confinement.in_memory", lambda place: place.startswith(in_memory))
    monkeypatch.setattr("mesh_operator.runs.confined.landlock.version", lambda: 6)
    assert memory_folder() == chosen
    missing = [why for why in measures_here((), f"{chosen}/mesh-operator-confined-x").missing if not why.startswith("No other user: ")]
    assert [why.startswith(said) and "XDG_RUNTIME_DIR" in why for why in missing] == [True] * bool(said)


def test_it_has_given_up_every_right(processes: ConfinedProcesses) -> None:
    rights = ask(processes, "rights")
    assert (rights["no_new_privs"], rights["dumpable"], rights["session"], rights["threads"]) == (1, 0, True, 1)
    assert rights["capabilities"] == [0] * 6
    bounds = {"CORE": [0, 0], "CPU": [20, 21], "FSIZE": [LIMITS.file_size, LIMITS.file_size], "MEMLOCK": [0, 0], "NOFILE": [1024, 1024]}
    assert rights["limits"] == bounds


def test_it_can_start_no_program_signal_no_process_and_listen_nowhere(processes: ConfinedProcesses) -> None:
    version = landlock(processes)
    assert ask(processes, "execute", "/bin/sh") == "EACCES"
    assert ask(processes, "signal", os.getpid()) == ("EPERM" if version >= 6 else "sent")
    assert ask(processes, "listen") == ("EACCES" if version >= 4 else "bound")


def test_it_can_connect_to_servers(processes: ConfinedProcesses) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert ask(processes, "connect", server.getsockname()[1]) == "connected"


def test_threads_of_a_library_on_a_node_with_many_processors_do_not_use_up_its_memory(processes: ConfinedProcesses) -> None:
    assert ask(processes, "threads", 60, limits=ProcessLimits(memory=192 * 1024 * 1024, cpu=20)) == 60


# From outside


@pytest.mark.parametrize(
    ("do", "cause"),
    [("memory", Cause.MEMORY), ("crash", Cause.CRASHED), ("end", Cause.CRASHED), ("raise", Cause.CRASHED), ("unknown", Cause.CRASHED)],
)
def test_one_that_fails_is_reported_by_its_cause(processes: ConfinedProcesses, do: str, cause: Cause) -> None:
    assert failure(processes, do) is cause


@pytest.mark.slow
def test_one_that_computes_without_end_is_ended_by_the_kernel(processes: ConfinedProcesses) -> None:
    assert failure(processes, "loop", limits=ProcessLimits(memory=LIMITS.memory, cpu=1)) is Cause.CPU


def test_one_that_ignores_every_signal_and_hangs_is_gone_after_its_deadline(processes: ConfinedProcesses) -> None:
    with pytest.raises(ConfinedProcessFailed) as failed, processes.open(LIMITS, 600.0) as process:
        pid = process.ask({"do": "rights"})["pid"]
        process._until = time.monotonic() + 0.5
        process.ask({"do": "hang"})
    assert failed.value.cause is Cause.DEADLINE and gone(pid)


@pytest.mark.parametrize(
    "said",
    [
        ("x", 3, 1 << 40),  # announces a terabyte
        ("[", 100_000),
        ("[],", 500_000),
        ("NaN",),
        ("1" * 5000,),
        ("\udcff".encode("utf-8", "surrogatepass").decode("latin-1"),),
        ("[1, 2",),
    ],
)
def test_an_answer_that_is_none_is_refused(processes: ConfinedProcesses, said: tuple[Any, ...]) -> None:
    assert failure(processes, "say", *said) is Cause.INVALID


def test_a_job_of_the_operator_may_have_more_values_than_an_answer(processes: ConfinedProcesses) -> None:
    """Statuses of 2,000 items over 64 clusters: such a mesh must not fail for good because the operator says too much to its own child."""
    assert ask(processes, "count", [0] * 600_000) == 600_000


def test_sending_a_job_takes_no_second_copy_of_it() -> None:
    intent = {"name": "a", "ports": [{"protocol": "TCP", "port": port} for port in range(256)]}
    job = {"job": "dry_run", "cilium_mesh": {"connectivityIntents": [intent] * 500}}
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as other:
        reading = other.submit(lambda: [len(part) for part in iter(lambda: theirs.recv(1 << 16), b"")])
        tracemalloc.start()
        send_job(ours, job)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        ours.close()
        sent = sum(reading.result())
    assert sent > 4 * 1024 * 1024 and peak < 1024 * 1024


def test_an_answer_that_stops_halfway_ends_at_the_deadline(processes: ConfinedProcesses) -> None:
    assert failure(processes, "say", "{}", 1, 100, deadline=0.5) is Cause.DEADLINE


def test_whatever_it_started_is_gone_with_it(processes: ConfinedProcesses) -> None:
    started = ask(processes, "fork")
    assert len(set(started)) == 3 and all(gone(pid) for pid in started)


def test_processes_side_by_side_do_not_end_each_other(processes: ConfinedProcesses) -> None:
    with processes.open(LIMITS, 60.0) as first:
        kept = first.ask({"do": "rights"})["pid"]
        assert failure(processes, "crash") is Cause.CRASHED
        assert ask(processes, "fork")[0] != kept
        assert first.ask({"do": "rights"})["pid"] == kept
    assert gone(kept)


@pytest.mark.slow
def test_a_server_that_was_killed_takes_its_children_along_and_is_started_anew(processes: ConfinedProcesses) -> None:
    with pytest.raises(ConfinedProcessFailed) as failed, processes.open(LIMITS, 60.0) as process:
        pid = process.ask({"do": "rights"})["pid"]
        known(processes._server).kill()
        process.ask({"do": "hang"})
    assert failed.value.cause is Cause.CRASHED
    wait_for(lambda: gone(pid), what="the child of a killed server is gone")
    assert ask(processes, "rights")["pid"] != pid


def test_an_operator_that_stops_waits_for_no_process() -> None:
    """Else a leader that lost its Lease would wait for the deadline of a hostile mesh."""
    stopping = ConfinedProcesses(HANDLER)
    with ThreadPoolExecutor(1) as worker, pytest.raises(ConfinedProcessFailed), stopping.open(LIMITS, 600.0) as process:
        pid = process.ask({"do": "rights"})["pid"]
        asked = worker.submit(process.ask, {"do": "hang"})
        stopping.close()
        assert gone(pid)
        asked.result()


OPERATOR = """
import sys
from mesh_operator.runs.confined.process import ConfinedProcesses
from mesh_operator.runs.confined.confinement import ProcessLimits
with ConfinedProcesses(sys.argv[1]).open(ProcessLimits(memory=1 << 26, cpu=20), 600.0) as process:
    print(process.ask({"do": "rights"})["pid"], process.ask({"do": "environment"})["TMPDIR"], flush=True)
    process.ask({"do": "hang"})
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_operator_that_dies_leaves_no_process_and_no_folder(number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", OPERATOR, HANDLER]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as operator:
        for line in known(operator.stdout):
            if line.startswith("{"):
                continue  # the log
            pid, folder = line.split()
            break
        operator.send_signal(number)
    wait_for(lambda: gone(int(pid)) and not os.path.exists(os.path.dirname(folder)), what="the process and its folder are gone")


def test_a_server_that_cannot_start_is_a_failure_of_the_mesh_that_asked() -> None:
    broken = ConfinedProcesses("tests.testing.no_such_module:serve")
    try:
        assert failure(broken, "rights") is Cause.NOT_STARTED
    finally:
        broken.close()
    assert failure(broken, "rights") is Cause.NOT_STARTED, "the operator ends"
