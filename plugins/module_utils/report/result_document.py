# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The file in which a playbook leaves its result: ``mesh_result``, and how the run ended. docs/schemas/result has its schema. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ..base.redact import one_line
from .failure import UNFINISHED, failure_of

ERROR_LIMIT: Final = 2000  # characters; as the messages of actions
NAME_LIMIT: Final = 200


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """How a run ended: of which playbook and mesh, when, and whether it failed. ``mesh`` is "" where no binding names one."""

    playbook: str
    mesh: str
    time: datetime  # aware
    check_mode: bool
    error: str  # "": the run did not fail

    def to_dict(self) -> dict[str, Any]:
        """Return the key ``run`` of the file."""
        return {
            "playbook": one_line(self.playbook, NAME_LIMIT),
            "mesh": one_line(self.mesh, NAME_LIMIT),
            "time": self.time.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "checkMode": self.check_mode,
            "failed": bool(self.error),
            "error": self.error,
        }


def error_of(runs: Sequence[Mapping[str, Any]], *, ended: bool = True, judged: str = "") -> str:
    """Return why the run failed, in the words of its actions; "" if it did not.

    :param runs: the results of its actions; without one the run ended before them.
    :param ended: whether the playbook's own tasks came to their end.
    :param judged: the sentence with which the playbook itself judges what the actions found.
    """
    found = [why for run in runs if (why := failure_of(run))]
    if not found and judged:
        found = [judged]
    if not found and (not ended or not any("findings" in run for run in runs)):
        found = [UNFINISHED]
    lines = "\n".join(dict.fromkeys(found)).splitlines()
    text = "\n".join(one_line(line, ERROR_LIMIT) for line in lines)
    return text if len(text) <= ERROR_LIMIT else f"{text[: ERROR_LIMIT - 3]}..."


def document(result: Mapping[str, Any], end: RunEnd) -> bytes:
    """Return the file: ASCII, since texts of tenants may hold characters that a terminal acts on, indented, in a fixed order of keys."""
    found = {"schema": result["schema"], "run": end.to_dict(), **{key: value for key, value in result.items() if key != "schema"}}
    return json.dumps(found, indent=2, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"
