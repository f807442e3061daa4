# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Confined processes that are none: jobs are done in this process, over the same JSON. For tests of what is asked and answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mesh_operator.runs.confined.confinement import ProcessLimits
from mesh_operator.runs.confined.fork_server import parts_first
from mesh_operator.runs.confined.messages import PART, Invalid
from mesh_operator.runs.confined.process import Cause, ConfinedProcessFailed, Take
from mesh_operator.runs.dry_run_job import answer


class UnconfinedProcesses:
    """Stands for ConfinedProcesses. ``answer``: what a process does with a job."""

    def __init__(self, answer: Callable[[Mapping[str, Any]], Any] = answer) -> None:
        self.answer = answer
        self.begun: list[tuple[ProcessLimits, float]] = []

    @contextmanager
    def open(self, limits: ProcessLimits, deadline: float) -> Iterator[UnconfinedProcesses]:
        self.begun.append((limits, deadline))
        yield self

    def ask(self, job: Mapping[str, Any], take: Take | None = None) -> Any:
        found = self.answer(json.loads(json.dumps(job)))
        if isinstance(found, Generator):
            try:
                found = self._taken(found, take)
            except Invalid as invalid:
                raise ConfinedProcessFailed(Cause.INVALID, str(invalid)) from None
        return json.loads(json.dumps(found))

    def _taken(self, found: Generator[Any, None, Any], take: Take | None) -> Any:
        messages = parts_first(found)
        while True:
            try:
                message = next(messages)
            except StopIteration as ended:
                return ended.value
            content = json.dumps(message).encode()
            assert take is not None
            take(json.loads(content)[PART], content)
