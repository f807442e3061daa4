# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Confined processes that are none: jobs are done in this process, over the same JSON. For tests of what is asked and answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mesh_operator.runs.confined.confinement import Limits
from mesh_operator.runs.dry_run_job import answer


class UnconfinedProcesses:
    """Stands for ConfinedProcesses. ``answer``: what a process does with a job."""

    def __init__(self, answer: Callable[[Mapping[str, Any]], Any] = answer) -> None:
        self.answer = answer
        self.begun: list[tuple[Limits, float]] = []

    @contextmanager
    def open(self, limits: Limits, deadline: float) -> Iterator[UnconfinedProcesses]:
        self.begun.append((limits, deadline))
        yield self

    def ask(self, job: Mapping[str, Any]) -> Any:
        return json.loads(json.dumps(self.answer(json.loads(json.dumps(job)))))
