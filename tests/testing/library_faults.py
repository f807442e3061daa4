# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Calls of the engine into libraries, met one by one, and one of them failing with an exception of any class.

    met = calls_into_libraries(act)                       # every place from which a library is called, and what it calls
    with failing(place, Odd("canary")):                   # the same again, and the first call there raises
        act()

Python's own hook for profilers sees each call, of functions in C and Rust too, and what it raises comes out of the call (Objects of
``sys.setprofile``: "Error in the profile function will cause itself unset", so a fault strikes once). Nothing of the engine or of a
library is replaced.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from tests.collection_path import CHECKOUT

ENGINE: Final = "/plugins/module_utils/"
LIBRARIES: Final = frozenset(
    {
        "urllib3",
        "websocket",
        "cryptography",
        "kubernetes",
        "yaml",
        "grpc",
        "google",
        "ssl",
        "socket",
        "http",
        "subprocess",
        "email",
        "ansible",
    }
)
"""Packages, and modules of Python, that read what others wrote or speak with others. Ansible puts itself before socket.getaddrinfo."""
BELOW: Final = {"_ssl": "ssl", "_socket": "socket", "_yaml": "yaml", **dict.fromkeys(("_rust", "keys", "ec", "rsa"), "cryptography")}
"""Modules in C and Rust, as they name themselves, by the library whose part they are."""


class Place(NamedTuple):
    """Line of the engine, and the function of a library that it calls."""

    file: str  # below plugins/module_utils
    line: int
    called: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.called}"


class PanicException(BaseException):
    """In place of the one of libraries in Rust, which cannot be made (pyo3, src/panic.rs)."""


class Odd(Exception):
    """Exception of which no documentation tells."""


def calls_into_libraries(act: Callable[[], Any]) -> set[Place]:
    """Return every place from which ``act``, and the threads that it starts, call a library."""
    met: set[Place] = set()
    with _watching(met.add):
        act()
    return met


@contextmanager
def failing(place: Place, error: BaseException) -> Iterator[list[Place]]:
    """Let the first call at a place raise. The list has the place once it did."""
    struck: list[Place] = []

    def strike(met: Place) -> None:
        if met == place and not struck:
            struck.append(met)
            raise error

    with _watching(strike):
        yield struck


@contextmanager
def _watching(see: Callable[[Place], None]) -> Iterator[None]:
    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            caller, library, called = frame, _of_c(argument), getattr(argument, "__qualname__", "?")
        elif event == "call" and frame.f_back is not None:
            caller, library, called = frame.f_back, _of_file(frame.f_code.co_filename), frame.f_code.co_qualname
        else:
            return
        if library and ENGINE in caller.f_code.co_filename and not called.endswith("__del__"):  # what that raises is ignored by Python
            see(Place(caller.f_code.co_filename.partition(ENGINE)[2], caller.f_lineno, f"{library}.{called}"))

    before = sys.getprofile()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def _of_c(function: Any) -> str:
    """Return the library of a function in C; "" if it is of none."""
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or type(owner).__module__
    if not isinstance(module, str):
        return ""
    top = module.partition(".")[0]
    return BELOW.get(top, top if top in LIBRARIES else "")


_known: dict[str, str] = {}


def _of_file(path: str) -> str:
    """Return the library of a file of Python; "" if it is of none."""
    if path not in _known:
        parts = Path(path).with_suffix("").parts
        found = next((part for part in reversed(parts[-8:]) if part in LIBRARIES), "")
        _known[path] = found if ENGINE not in path and "/tests/" not in path else ""
    return _known[path]


def calls_in_sources() -> Iterator[tuple[str, int, int, str]]:
    """Yield file, first and last line, and name of every call of the engine whose name begins with that of a library.

    Exceptions that the engine makes are left out.
    """
    for path in sorted((CHECKOUT / ENGINE.strip("/")).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not _IMPORT.search(text):
            continue
        tree = ast.parse(text)
        bound = dict(_bound(tree))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            if name.partition(".")[0] in bound and not name.endswith(("Error", "Exception")):
                yield str(path.relative_to(CHECKOUT / ENGINE.strip("/"))), node.lineno, node.end_lineno or node.lineno, name


_IMPORT: Final = re.compile(rf"^ *(?:import|from) (?:{'|'.join(sorted(LIBRARIES))})\b", re.MULTILINE)


def _bound(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that imports bind to a library or to something in it, and the library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [(alias.asname or alias.name, node.module or "") for alias in node.names]
        else:
            continue
        yield from ((name, top) for name, module in names if (top := module.partition(".")[0]) in LIBRARIES)
