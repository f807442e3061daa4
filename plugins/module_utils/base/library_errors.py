# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Exceptions of libraries, as errors of the engine.

What a library raises for hostile, half or odd input is more than its documentation says, and changes with its releases. So no place names
the classes that it expects without an answer for all others: one cluster would end the run of all.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from types import TracebackType

from .errors import MeshError

_PANIC = "PanicException"  # of libraries in Rust, such as cryptography; it is no Exception (pyo3, src/panic.rs)


class LibraryErrors(ContextDecorator):
    """Block, or function, out of which comes what ``replacement`` returns in place of any exception.

    MeshError, ``own`` and what ends a process, such as KeyboardInterrupt, come out as they are. Nothing of the exception is chained, as its
    text may quote what was read.
    """

    def __init__(self, replacement: Callable[[BaseException], Exception], *, own: type[Exception] = MeshError) -> None:
        self._replacement, self._own = replacement, own

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        del kind, trace
        if error is None or isinstance(error, (self._own, MeshError)):
            return
        if isinstance(error, Exception) or type(error).__name__ == _PANIC:
            raise self._replacement(error) from None


def raised_by(error: BaseException) -> str:
    """Return the class of an exception and the package that has it, and nothing of its text: "LocationParseError of urllib3"."""
    kind, package = type(error).__name__, type(error).__module__.partition(".")[0]
    return kind if package == "builtins" else f"{kind} of {package}"
