# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The process with the Lease has no wait without an end: what blocks names its time, or stands here with what ends it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from tests.collection_path import CHECKOUT

OPERATOR: Final = CHECKOUT / "operator" / "mesh_operator"
CHILDREN: Final = {"fork_server.py", "playbook_job.py", "playbook_client.py", "dry_run_job.py"}
"""Programs of children, which the operator ends."""

TIMED: Final = {"exception", "wait", "join", "result", "acquire", "communicate", "get"}
"""Methods that wait for ever without an argument; those of texts and mappings have one."""

FOREVER: Final = {"recv", "recv_fds", "accept", "flock", "run", "check_output", "urlopen", "getaddrinfo", "create_connection"}
"""Functions that wait for ever without a timeout of their own or of their socket."""

ENDED: Final[Mapping[tuple[str, str], str]] = {
    ("runs/confined/process.py", "self._server.wait()"): "the fork server was killed",
    ("runs/confined/process.py", "self.connection.recv(4096)"): "its socket has the timeout ENDING",
    (
        "runs/confined/process.py",
        "requests.recv(65536)",
    ): "its socket has the timeout STEP, and the loop ends after STARTING or with the operator",
    (
        "runs/confined/messages.py",
        "connection.recv(min(length - len(found), 1 << 20))",
    ): "its socket has the time that is left until the deadline",
    ("source/resource_writer.py", "writes.popleft().exception()"): "its requests have deadlines",
    ("source/resource_writer.py", "write.exception()"): "as above",
    ("runs/runner.py", "fcntl.flock(descriptor, how)"): "it is held while a folder is made or swept; a sweep waits for no run",
    ("runs/runner.py", "runner.run()"): "ansible-runner has --job-timeout and --idle-timeout, and asks whether the turn has ended",
    ("runs/unit_runs.py", "runner.run(request, cancel)"): "as above",
}


def waits() -> Iterator[tuple[str, str]]:
    """File and text of each call that may wait for ever."""
    for path in sorted(OPERATOR.rglob("*.py")):
        if path.name in CHILDREN:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            timed = any(keyword.arg == "timeout" for keyword in node.keywords)
            bare = node.func.attr in TIMED and not node.args and not timed
            if bare or (node.func.attr in FOREVER and not timed):
                yield str(path.relative_to(OPERATOR)), ast.unparse(node)


def test_every_wait_of_the_operator_has_an_end() -> None:
    assert set(waits()) == set(ENDED)
