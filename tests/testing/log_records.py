# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is logged while a context lasts. The plugin of pytest for that is off (pyproject.toml), as it takes a third of a short test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Kept(logging.Handler):
    """Keeps every record."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def text(self) -> str:
        return "\n".join(map(self.format, self.records))


@contextmanager
def log_records(name: str = "", level: int = logging.DEBUG) -> Iterator[Kept]:
    """Keep what is logged to this logger and below it, from this level on; "" is the root."""
    logger, kept = logging.getLogger(name), Kept()
    before = logger.level
    logger.addHandler(kept)
    logger.setLevel(level)
    try:
        yield kept
    finally:
        logger.setLevel(before)
        logger.removeHandler(kept)
