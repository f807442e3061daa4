# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Log of the operator: one JSON object per line on stdout, with only the fields of FIELDS, each value short and free of secrets.

An exception is logged by its class and place, never by its text, which may quote an API answer; a library's record by its logger and
level, never by its message.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import traceback
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line

FIELDS: Final = frozenset(
    ("workspace", "namespace", "name", "kind", "run", "state", "reason", "code", "seconds", "changed", "url", "count", "attempt", "node")
) | {"source"}
_logger: Final = logging.getLogger("mesh_operator")


def log(event: str, *, level: int = logging.INFO, error: BaseException | None = None, **fields: Any) -> None:
    """Log one event.

    :param event: a fixed word.
    :param fields: a field that is not in FIELDS is dropped, and so is a value that is neither text nor number.
    """
    shown = {name: _field_text(name, value) for name, value in fields.items() if name in FIELDS} | {"error": _place(error) if error else ""}
    _logger.log(level, event, extra={"fields": {"event": one_line(event)} | {k: v for k, v in shown.items() if v not in (None, "")}})


def setup(level: int = logging.INFO) -> None:
    """Send all logs of this process to stdout in this form, including warnings of libraries and uncaught exceptions."""
    handler = logging.StreamHandler(sys.stdout)
    handler.format = _line  # type: ignore[method-assign]  # one method in the place of a class of its own
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    _logger.setLevel(level)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # it warns of every retry
    logging.raiseExceptions = False  # else a line that cannot be written is shown on stderr, with its text
    sys.excepthook = lambda _kind, error, _trace: log("crashed", level=logging.CRITICAL, error=error)
    threading.excepthook = lambda crash: log("thread_crashed", level=logging.CRITICAL, error=crash.exc_value)


def _line(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    said = getattr(record, "fields", {"event": "library", "name": record.name})
    return json.dumps({"time": time, "level": record.levelname.lower()} | said)


def _field_text(name: str, value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3) if isfinite(value) else None
    if name == "url" and isinstance(value, str):
        value = re.split(r"[/?#]", value.partition("://")[2])[0].rpartition("@")[2]
    return value if isinstance(value, int) else one_line(value)  # bool is an int


def _place(error: BaseException) -> str:
    places = [f" at {frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return type(error).__name__ + "".join(places[-1:])
