# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Plays that the operator runs: a tenant's text stays text, secrets stay in memory, and nothing is left, however a run ends."""

from __future__ import annotations

import base64
import ctypes
import errno
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mesh_operator.runs import runner as runs
from mesh_operator.runs.confined import landlock, playbook_client
from mesh_operator.runs.confined.confinement import Program
from mesh_operator.runs.confined.json_pieces import PIECE, json_pieces
from mesh_operator.runs.confined.process import ConfinedProcesses
from mesh_operator.runs.runner import Runner, RunRequest, RunResult, RunState
from tests.collection_path import CHECKOUT
from tests.testing import sized_results
from tests.testing.waiting import wait_for

CANARY = "canary-7f3a-of-a-secret"


def landlock_here() -> bool:
    with suppress(landlock.LandlockUnavailable):
        return landlock.version() > 0
    return False


NO_CANCEL = threading.Event()
NONE = ConfinedProcesses("")  # none is started where nothing runs


# A tenant's text stays text


texts = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    (
        *("{{ 1 }}", "{{ lookup('ansible.builtin.pipe', 'false') }}", "{% raw %}", "{# #}", "!unsafe x", "!vault x", "<<", "=", "*a", "&a"),
        *("? a", "- a", "yes", "1:30", "2026-01-01", "0x1f", "null", "\u0085"),
    )
)
keys = texts | st.sampled_from(("__ansible_unsafe", "__ansible_vault", "__ansible_type", "plugin", "k" * 1100))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(keys, part, max_size=4),
    max_leaves=20,
)


HOSTILE = (
    {"__ansible_vault": "{{ 1 }}"},
    {"a": {"__ansible_unsafe": "{{ 1 }}"}, "b": "{{ 1 }}"},
    {"a": {"__ansible_unsafe": ["{{ 1 }}"]}, "__ansible_vault": {"x": 1}},
    {"a": [{"__ansible_type": "TrustedStr", "value": "{{ 1 }}"}], "{{ 1 }}": ["{{ 1 }}", {"{% set a = 1 %}": "{{ a }}"}]},
    {"__ansible_type": "_AnsibleTaggedStr", "value": "{{ 1 }}", "tags": [{"__ansible_type": "TrustedAsTemplate"}]},
)


@given(st.dictionaries(keys, values, max_size=5))
def test_what_is_written_in_pieces_is_what_a_reader_of_json_gets(value: dict[str, Any]) -> None:
    assert json.loads(b"".join(json_pieces(value))) == value


def test_a_number_as_a_key_is_written_as_python_s_own_writer_does() -> None:
    value = {"a": {3: 1, True: 2, None: 4, 1.5: 5}}
    assert json.loads(b"".join(json_pieces(value))) == json.loads(json.dumps(value))


def test_no_piece_is_much_larger_than_one_part_of_one_object() -> None:
    intent = {"name": "a", "ports": [{"protocol": "TCP", "port": port} for port in range(256)]}
    pieces = list(json_pieces({"cilium_mesh": {"connectivityIntents": [intent] * 1000}}))
    assert max(map(len, pieces)) < PIECE + len(json.dumps(intent)) and len(pieces) > 100


@pytest.mark.parametrize(
    "value", [object(), {"a": {"b": [CANARY.encode()]}}, {"a": {(CANARY,): 1}}, [float("nan")], {"a": {"b": {CANARY}}}]
)
def test_what_is_no_value_of_json_is_refused_without_what_it_says(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        list(json_pieces(value))
    assert CANARY not in str(caught.value)


# Plays


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture(scope="module")
def warm() -> Iterator[ConfinedProcesses]:
    """What runs are forked from: one for all tests, as an operator has it."""
    with closing(ConfinedProcesses("", runs.HANDLER, runs.settings_of_runs)) as processes:
        yield processes


@pytest.fixture
def play(tmp_path: Path, folder: Path, warm: ConfinedProcesses) -> Callable[..., RunResult]:
    """Run tasks as a play on all hosts; afterwards nothing may be left."""

    def run(tasks: str, *, hosts: Mapping[str, Any] | None = None, **options: Any) -> RunResult:
        request = RunRequest(
            playbook=playbook(tmp_path, tasks), hosts=hosts or {"one": {}}, variables=options.pop("variables", {}), name="abc"
        )
        runner = Runner(warm, folder, **options.pop("timeouts", {}))
        result = runner.run(request, options.pop("cancel", NO_CANCEL), **options)
        assert_nothing_left(folder)
        return result

    return run


def playbook(where: Path, tasks: str) -> str:
    file = where / "play.yml"
    file.write_text(f"- hosts: all\n  gather_facts: false\n  tasks: [{tasks}]\n", encoding="utf-8")
    return str(file)


def publish(what: str) -> str:
    return f"{{name: Publish, run_once: true, set_stats: {{per_host: false, aggregate: false, data: {{mesh_result: {what}}}}}}}"


SHELL = "{name: Shell, debug: {msg: '{{ query(\"ansible.builtin.pipe\", command) }}'}}"  # as a child of Ansible's worker


def processes(folder: Path) -> list[int]:
    """Those that work in a run's folder, or have anything to do with it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            about = b"".join((os.readlink(place / "cwd").encode(), *((place / name).read_bytes() for name in ("environ", "cmdline"))))
        except OSError:
            continue
        if str(folder).encode() in about and int(place.name) != os.getpid():
            found.append(int(place.name))
    return found


def assert_nothing_left(folder: Path) -> None:
    assert list(folder.iterdir()) == []
    assert processes(folder) == []


def until(condition: Callable[[], Any]) -> Any:
    return wait_for(condition, what="the processes of the play are there", every=0.05)


def hostile(mark: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The variable cilium_mesh, and a host's, with an attack at every place for a text, keys of free maps among them."""
    bad = f"{{{{ lookup('ansible.builtin.pipe', 'touch {mark}') }}}}"
    selector = {"namespace": bad, "name": bad, "matchLabels": {bad: bad, "__ansible_vault": bad, "__ansible_unsafe": bad, "!unsafe": bad}}
    item = {
        "name": bad,
        "description": bad,
        "labels": {bad: bad, "{% set x = 1 %}": "{# #}"},
        "selector": selector,
        "list": [bad, [bad, {bad: [bad]}]],
    }
    mesh = {
        "binding": {
            "name": bad,
            "workspace": bad,
            "namespace": bad,
            "clusterRefs": [{"name": bad}],
            "meshConfig": {bad: bad},
            "topology": {"mode": bad},
        },
        "globalServices": [item],
        "connectivityIntents": [{**item, "ports": [{"protocol": bad, "port": bad}]}],
        "exposedServices": [{**item, "hostname": bad, "sourceRanges": [bad]}],
        bad: bad,
    }
    kubeconfig = {
        "clusters": [{"name": bad, "cluster": {"server": bad, "certificate-authority-data": bad}}],
        "users": [{"name": bad, "user": {"token": bad}}],
    }
    return mesh, {"cilium_mesh_kubeconfig": kubeconfig, "cilium_mesh_elb_id": bad, "cilium_mesh_unavailable": bad}


SEEN = "{variables: '{{ cilium_mesh }}', host: '{{ hostvars.one.cilium_mesh_free }}'}"


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.lists(values, min_size=5, max_size=20))
@example(list(HOSTILE))
def test_ansible_gets_every_value_as_it_is_and_evaluates_none_of_it(warm: ConfinedProcesses, value: list[Any]) -> None:
    """Which text is a template is decided by its mark alone; a template that is evaluated is another text, or an error."""
    with tempfile.TemporaryDirectory() as folder:
        request = RunRequest(
            playbook=playbook(Path(folder), publish(SEEN)), hosts={"one": {"cilium_mesh_free": value}}, variables={"cilium_mesh": value}
        )
        result = Runner(warm, Path(folder, "runs")).run(request, NO_CANCEL)
    assert (result.state, result.error) == (RunState.SUCCESSFUL, "")
    assert result.mesh_result == {"variables": value, "host": value}


@pytest.mark.slow
def test_variables_of_a_run_come_before_those_of_its_playbook(play: Callable[..., RunResult]) -> None:
    """As those of --extra-vars do."""
    task = publish("{found: '{{ mesh }}'}")
    result = play(f"{{vars: {{mesh: {{a: 1}}}}, block: [{task}]}}", variables={"mesh": {"b": 2}}, hosts={"one": {"mesh": 3}})
    assert result.mesh_result == {"found": {"b": 2}}


SHOW = '{mesh: \'{{ cilium_mesh }}\', hosts: \'{{ hostvars.one | dict2items | selectattr("key", "match", "cilium_mesh_") | items2dict }}\'}'
USE_KEYS = "{debug: {msg: '{{ item.key }} {{ item.value }}'}, loop: '{{ cilium_mesh.binding.meshConfig | dict2items }}'}"


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing but the way in which texts are written keeps a template from doing harm here."""
    monkeypatch.setattr(runs, "Program", lambda folder, readable: Program(folder=str(tmp_path), readable=readable))


@pytest.mark.slow
@pytest.mark.usefixtures("unconfined")
def test_a_template_at_any_place_of_a_resource_reaches_the_play_as_it_is_and_is_never_run(
    tmp_path: Path, play: Callable[..., RunResult]
) -> None:
    mesh, host = hostile(tmp_path / "MARK")
    result = play(f"{USE_KEYS}, {publish(SHOW)}", hosts={"one": host}, variables={"cilium_mesh": mesh})
    assert result.state is RunState.SUCCESSFUL
    assert result.mesh_result == {"mesh": mesh, "hosts": {name: host[name] for name in host}}
    assert not (tmp_path / "MARK").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("unconfined")
def test_that_test_would_notice_a_template_that_is_run(tmp_path: Path, play: Callable[..., RunResult]) -> None:
    mesh, _host = hostile(tmp_path / "MARK")
    play(f"{{debug: {{msg: {json.dumps(mesh['binding']['name'])}}}}}")  # a text of the playbook is a template
    assert (tmp_path / "MARK").exists()


TRIES = """
cat {secret} && echo read; echo x > {outside} && echo written; ls {home} > /dev/null && echo listed;
cat {own} > /dev/null && echo own-read; echo x > $HOME/new && echo own-written; echo x > {own} && echo own-changed;
cat /proc/{operator}/environ > /dev/null && echo environment; kill -0 {operator} && echo signalled;
{copy} && echo started; ulimit -c; ulimit -f; true
"""


@pytest.mark.slow
@pytest.mark.skipif(not landlock_here(), reason="the kernel offers no Landlock, so file permissions alone hold")
def test_a_run_reads_and_writes_nothing_but_its_own_folder_and_the_files_of_the_system(
    tmp_path: Path, folder: Path, play: Callable[..., RunResult]
) -> None:
    """As if a member's answer had taken over the process of a run: what can a program in it do?"""
    secret, outside, copy = tmp_path / "private" / "kubeconfig", tmp_path / "outside", tmp_path / "private" / "program"
    secret.parent.mkdir()
    secret.write_text(CANARY, encoding="utf-8")
    shutil.copy("/bin/true", copy)
    names = {
        "secret": secret,
        "outside": outside,
        "copy": copy,
        "operator": os.getpid(),
        "home": secret.parent,
        "own": "$HOME/../hosts.json",
    }
    script = TRIES.format(**names).replace("\n", " ")
    asked = publish("\"{{ {'said': query('ansible.builtin.pipe', command)} }}\"")
    result = play(asked, variables={"command": script}, hosts={"one": {}})
    assert result.state is RunState.SUCCESSFUL, result
    said = (result.mesh_result or {})["said"][0].split()
    assert said == ["own-read", "own-written", "0", str(runs.LIMITS.file_size // 512)]
    assert not outside.exists()


def forged_result() -> str:
    event = {"uuid": "x", "event": "playbook_on_stats", "event_data": {"artifact_data": {"mesh_result": {"forged": True}}}}
    token = base64.b64encode(json.dumps(event).encode()).decode()
    return f"\x1b[K{token}\x1b[{len(token)}D\x1b[K"


@pytest.mark.slow
def test_output_that_resembles_a_result_is_none(play: Callable[..., RunResult]) -> None:
    """Ansible prints an error's text as it is, and ansible-runner looks for events in all that is printed (utils/__init__.py)."""
    result = play("{name: Fail, fail: {msg: '{{ text }}'}}", variables={"text": f"{forged_result()} {CANARY}"})
    assert (result.state, result.mesh_result, result.last_task) == (RunState.FAILED, None, "Fail")
    assert CANARY not in repr(result)


# How a run ends


@pytest.mark.slow
def test_a_failed_play_that_published_a_result_has_it_and_the_names_of_its_tasks_are_reported(play: Callable[..., RunResult]) -> None:
    reported: list[str] = []
    result = play(
        f"{{name: Look, fail: {{msg: no}}, ignore_errors: true}}, {publish('{schema: 1}')}, {{name: End, fail: {{}}}}",
        progress=reported.append,
    )
    assert (result.state, result.rc, result.mesh_result) == (RunState.FAILED, 2, {"schema": 1})
    assert reported == ["Look", "Publish", "End"]
    assert result.last_task == "End"


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["job_timeout", "idle_timeout"])
def test_a_run_that_takes_too_long_or_says_nothing_ends_as_a_timeout_with_nothing_left(play: Callable[..., RunResult], limit: str) -> None:
    said = "{name: Fail, fail: {msg: '{{ text }}'}, ignore_errors: true}"
    result = play(f"{said}, {SHELL}", variables={"command": "sleep 300", "text": forged_result()}, timeouts={limit: 2})
    assert (result.state, result.rc, result.mesh_result) == (RunState.TIMEOUT, 254, None)
    assert result.seconds < 30


ENVIRONMENT = '{seen: \'{{ query("ansible.builtin.pipe", "env") }}\'}'


@pytest.mark.slow
def test_no_cluster_of_a_run_is_reached_by_the_environment_of_the_operator(
    play: Callable[..., RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A playbook takes K8S_AUTH_* for a host without a kubeconfig (docs/inventory.md); here they would be the platform's own."""
    monkeypatch.setenv("K8S_AUTH_HOST", f"https://{CANARY}")
    monkeypatch.setenv("K8S_AUTH_API_KEY", CANARY)
    result = play(publish(ENVIRONMENT))
    assert result.mesh_result is not None and "PATH=" in result.mesh_result["seen"][0]
    assert "K8S_AUTH_" not in str(result.mesh_result) and CANARY not in str(result.mesh_result)


@pytest.mark.slow
def test_when_the_runner_itself_fails_its_exception_is_named_and_not_quoted(play: Callable[..., RunResult]) -> None:
    def broken(task: str) -> None:
        raise ValueError(CANARY)

    result = play(SHELL, variables={"command": "sleep 300"}, progress=broken)
    assert (result.state, result.mesh_result, result.error) == (RunState.FAILED, None, "ValueError")
    assert CANARY not in repr(result)


@pytest.mark.slow
def test_an_inventory_that_cannot_be_read_is_no_run_without_hosts(play: Callable[..., RunResult], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "json_pieces", lambda value: [b"{["] if "one" in value else json_pieces(value))
    result = play(publish("{schema: 1}"))
    assert (result.state, result.mesh_result, result.last_task) == (RunState.FAILED, None, "")


@pytest.mark.slow
def test_runs_at_the_same_time_have_nothing_in_common(tmp_path: Path, folder: Path, warm: ConfinedProcesses) -> None:
    runner, tasks = Runner(warm, folder), playbook(tmp_path, publish("{hosts: '{{ groups.all }}', mesh: '{{ mesh }}'}"))
    requests = [RunRequest(playbook=tasks, hosts={f"host-{n}": {}}, variables={"mesh": n}, name="abc") for n in range(2)]
    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(lambda request: runner.run(request, NO_CANCEL), requests))
    assert [result.mesh_result for result in results] == [{"hosts": [f"host-{n}"], "mesh": n} for n in range(2)]
    assert_nothing_left(folder)


# What is there while a run goes on

STUBBORN = (
    "setsid sh -c 'trap \"\" TERM HUP INT; sleep 301' & sleep 300"  # a grandchild in a session of its own that ends for SIGKILL alone
)


def sleeping(folder: Path) -> list[int]:
    """The processes of a run when all of them are there: the client, Ansible, its worker, the shell, and the two that sleep."""
    found = processes(folder)
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in found if Path(f"/proc/{pid}").exists()]
    return found if [b"sleep", b"301", b""] in commands and [b"sleep", b"300", b""] in commands else []


@pytest.mark.slow
def test_a_cancelled_run_ends_at_once_with_all_that_it_started_and_showed_nothing_to_other_users(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_OPERATOR", CANARY)
    monkeypatch.setenv("KUBECONFIG", f"/{CANARY}")
    monkeypatch.setenv("K8S_AUTH_API_KEY", CANARY)
    monkeypatch.setenv("ANSIBLE_CALLBACK_PLUGINS", f"/{CANARY}")
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "minimal")
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)]
    tasks = playbook(tmp_path, SHELL)
    request = RunRequest(
        playbook=tasks,
        hosts={"one": {"cilium_mesh_kubeconfig": {"token": CANARY}}},
        variables={"command": STUBBORN, "secret": CANARY},
        name="abc",
    )
    started = ConfinedProcesses("", runs.HANDLER, runs.settings_of_runs)
    runner, cancel = Runner(started, folder), threading.Event()
    with closing(started), ThreadPoolExecutor(1) as threads, as_process_1():
        running = threads.submit(runner.run, request, cancel)
        try:
            pids = until(lambda: sleeping(folder))
            assert len(pids) >= 5
            for pid in pids:
                assert CANARY.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            (run,) = folder.iterdir()
            assert stat.S_IMODE(run.stat().st_mode) == 0o700
            written = {str(file.relative_to(run)) for file in run.rglob("*") if file.is_file() and CANARY.encode() in file.read_bytes()}
            assert written == {playbook_client.HOSTS, playbook_client.VARIABLES}
            assert not [file for file in run.rglob("job_events/*") if file.name.startswith("1-")]  # ansible-runner keeps no event
            assert Runner(started, folder).sweep() == 0  # another operator on this machine: this one lives
            assert not running.done()
        finally:
            cancel.set()
        result = running.result()
    assert result.state is RunState.CANCELED
    assert_nothing_left(folder)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists() and _parent(pid) == os.getpid()]  # nor as zombies of ours
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)] == handlers


@contextmanager
def as_process_1() -> Iterator[None]:
    """Orphans become children of this process, as they do in a container (prctl(2), PR_SET_CHILD_SUBREAPER)."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(36, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        prctl(36, 0, 0, 0, 0)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except OSError:
        return 0


OPERATOR = """
import sys, threading
from pathlib import Path
from mesh_operator.runs.confined.process import ConfinedProcesses
from mesh_operator.runs.runner import HANDLER, Runner, RunRequest, settings_of_runs
from tests.lab.patience import scaled
from tests.testing.waiting import wait_for
request = RunRequest(playbook=sys.argv[1], hosts={"one": {}}, variables={"command": sys.argv[3]}, name="abc")
Runner(ConfinedProcesses("", HANDLER, settings_of_runs), Path(sys.argv[2])).run(request, threading.Event())
"""


@pytest.mark.slow
def test_what_a_killed_operator_left_is_ended_and_removed_by_the_next(tmp_path: Path, folder: Path) -> None:
    path = os.pathsep.join((str(runs.COLLECTIONS_PATH), str(CHECKOUT / "operator")))
    command = [sys.executable, "-c", OPERATOR, playbook(tmp_path, SHELL), str(folder), STUBBORN]
    operator = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
    try:
        until(lambda: folder.is_dir() and len(sleeping(folder)) >= 5)
        runner = Runner(NONE, folder)
        assert runner.sweep() == 0  # it lives
        operator.kill()
        operator.wait()
        until(lambda: not processes(folder))  # they end with it
        assert runner.sweep() == 1
        assert_nothing_left(folder)
        assert runner.sweep() == 0
    finally:
        operator.kill()
        operator.wait()
        Runner(NONE, folder).sweep()


@pytest.mark.slow
def test_a_folder_in_which_a_process_still_works_is_not_removed(folder: Path) -> None:
    runner = Runner(NONE, folder)
    left = folder / "run-abc-left"
    left.mkdir()
    descriptor = os.open(left, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with subprocess.Popen(["sleep", "60"], pass_fds=[descriptor]) as other:  # as a process that was forked while a run held the lock
        os.close(descriptor)
        assert runner.sweep() == 0
        other.kill()
        other.wait()
        assert runner.sweep() == 1


def test_a_folder_to_which_a_dying_process_still_writes_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = shutil.rmtree, list[Path]()

    def busy_at_first(place: Path) -> None:
        calls.append(place)
        if len(calls) < 3:
            raise OSError(errno.ENOTEMPTY, "Directory not empty")
        real(place)

    folder.mkdir()
    monkeypatch.setattr(shutil, "rmtree", busy_at_first)
    runs._remove(folder)
    assert not folder.exists() and len(calls) == 3


@pytest.mark.slow
def test_a_run_fails_with_what_it_is_forked_from_and_the_next_one_succeeds(
    tmp_path: Path, folder: Path, warm: ConfinedProcesses, play: Callable[..., RunResult]
) -> None:
    runner = Runner(warm, folder)
    waits = "{name: Wait, debug: {msg: no}, until: false, retries: 300, delay: 1}"  # in a worker of Ansible
    request = RunRequest(playbook=playbook(tmp_path, waits), hosts={"one": {}}, name="abc")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(runner.run, request, NO_CANCEL)
        until(lambda: len(processes(folder)) >= 3)
        assert warm._server is not None
        warm._server.kill()
        assert running.result().state is RunState.FAILED
    assert play(publish("{schema: 1}")).mesh_result == {"schema": 1}


def test_a_folder_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        Runner(NONE, folder)


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_folder_that_may_show_credentials_to_others_is_not_used(folder: Path, kind: str) -> None:
    if kind == "file":
        folder.touch(0o700)
    elif kind == "link":
        (folder.parent / "real").mkdir(0o700)
        folder.symlink_to(folder.parent / "real")
    else:
        folder.mkdir()
        folder.chmod(0o750)
    with pytest.raises((PermissionError, FileExistsError), match=r"0750 and not 0700|is no folder|File exists"):
        Runner(NONE, folder)


def test_a_folder_in_a_volume_of_a_pod_with_fs_group_is_used(folder: Path) -> None:
    """Its parent has the bit setgid, which the folder inherits: 02700."""
    folder.parent.chmod(0o2770)
    Runner(NONE, folder)
    assert folder.stat().st_mode & 0o7777 == 0o2700


def test_runs_are_in_memory_unless_another_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Path] = []
    monkeypatch.setattr(Path, "mkdir", lambda self, **_: made.append(self))
    monkeypatch.setattr(Path, "lstat", lambda self: os.stat(tmp_path))
    Runner(NONE)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    Runner(NONE)
    assert made == [Path(f"/dev/shm/mesh-operator-{os.getuid()}"), tmp_path / f"mesh-operator-{os.getuid()}"]


# Results of meshes

PUBLISH = "{name: Publish, run_once: true, edge_portal.cilium_mesh.mesh_publish: {links: [linked], items: [itemed]}}"


def published(services: int, clusters: int) -> dict[str, Any]:
    """Variables of a run of a mesh whose items are as they should be."""
    found = sized_results.result(services, 0, clusters)
    mesh, status = sized_results.asked(found), {"globalServices": found["status"]["globalServices"]}
    linked = {"status": found["status"]["binding"], "findings": [], "changed": True, "plan": {"steps": [{"id": 1}]}}
    itemed = {"status": status, "findings": found["advice"], "requeue_seconds": 300, "plan": {"steps": [{"id": 2}]}}
    return {"cilium_mesh": {"binding": {"name": "edge"}, **mesh}, "cilium_mesh_previous_status": {}, "linked": linked, "itemed": itemed}


@pytest.mark.slow
def test_the_result_of_a_mesh_comes_without_its_items_and_they_beside_it(play: Callable[..., RunResult]) -> None:
    result = play(PUBLISH, variables=published(3, 4))
    assert result.state is RunState.SUCCESSFUL and result.mesh_result is not None, result
    assert result.mesh_result["status"] == {"binding": sized_results.binding(4)} and result.mesh_result["changed"] is True
    assert "plan" not in result.mesh_result and [len(result.items), result.items.later] == [3, 0]
    status = result.items.get("globalServices/s1") or {}
    assert (status["phase"], len(status["endpointSummary"]), len(status["findings"])) == ("Exported", 4, 1)


@pytest.mark.slow
def test_a_run_of_more_than_fits_into_one_event_has_a_result(play: Callable[..., RunResult]) -> None:
    """2,000 items of 64 clusters are 45 MiB; ansible-runner would write them into one event."""
    result = play(PUBLISH, variables=published(1000, 64))
    assert result.state is RunState.SUCCESSFUL and result.mesh_result is not None, result
    assert len(result.items) > 600 and len(result.items) + result.items.later == 1000


@pytest.mark.slow
def test_a_run_whose_parts_were_tampered_with_has_no_result_and_the_status_says_so(play: Callable[..., RunResult]) -> None:
    tampered = {"command": "echo '{}' >> $TMPDIR/items.jsonl", **published(3, 4)}
    result = play(f"{PUBLISH}, {SHELL}", variables=tampered)
    assert (result.state, result.mesh_result, len(result.items)) == (RunState.FAILED, None, 0)
    assert "its result was refused: one of its parts" in result.without_result()
