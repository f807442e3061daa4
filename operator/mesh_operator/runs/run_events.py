# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Events of a run, which ansible-runner's callback writes into files, read within bounds: the process of a run may be taken over."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base import redact

from .confined.messages import Invalid, decoded

LARGEST: Final = 16 * 1024 * 1024  # bytes of an event. The result of a mesh is in one, and is as large as the answer of a dry run
MOST: Final = 20_000  # events of a run: pexpect keeps the marks of all of them in memory. A run of a mesh has some 200

_FOLDER: Final = "job_events"  # of ansible-runner's callback
_UUID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")  # Python's, or Ansible's own (utils/vars.py, get_unique_id)


class EventRefused(Exception):
    """Event beyond the bounds. The text is the project's own, and a clause."""


@dataclass
class Events:
    """Data kept of a run's events. The last result counts: the genuine one comes after all that a run prints.

    ``folder``: in which ansible-runner's callback writes; ``progress``: called with the name of each task.
    """

    folder: Path
    progress: Callable[[str], None]
    last_task: str = ""
    mesh_result: Mapping[str, Any] | None = None
    _count: int = 0

    def take(self, uuid: object) -> None:
        """Read one event.

        :param uuid: as the run's output names it.
        :raises EventRefused: when it is beyond the bounds.
        """
        self._count += 1
        if self._count > MOST:
            raise EventRefused(f"it had more than {MOST} events")
        event = self._read(uuid) if isinstance(uuid, str) and _UUID.fullmatch(uuid) else {}
        data = event.get("event_data")
        if not isinstance(data, Mapping):
            return
        if event.get("event") == "playbook_on_task_start":
            self.last_task = redact.one_line(data.get("task"))
            self.progress(self.last_task)
        elif event.get("event") == "playbook_on_stats":
            published = data.get("artifact_data")
            result = published.get("mesh_result") if isinstance(published, Mapping) else None
            self.mesh_result = result if isinstance(result, Mapping) else None

    def complete(self) -> None:
        """Look at what no event was read of, after a run without a result.

        :raises EventRefused: when one was too large to be written.
        """
        with suppress(OSError), os.scandir(self.folder / _FOLDER) as left:
            if any(file.stat(follow_symlinks=False).st_size > LARGEST for file in left):
                raise EventRefused(_too_large())

    def _read(self, uuid: str) -> Mapping[str, Any]:
        """Read a file that a process may have made that wants to harm the operator. What is no file is no event."""
        file = self.folder / _FOLDER / f"{uuid}-partial.json"
        try:
            # Not a link to another file, and nothing that has to be waited for.
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return {}
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return {}
        with os.fdopen(descriptor, "rb") as opened:
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise EventRefused(_too_large())
        file.unlink(missing_ok=True)
        try:
            event = decoded(content)
        except Invalid as invalid:
            raise EventRefused(f"one of its events was refused: {invalid}") from None
        return event if isinstance(event, dict) else {}


def _too_large() -> str:
    return f"one of its events, of which the last one holds the result, was larger than {LARGEST // 1024 // 1024} MiB"
