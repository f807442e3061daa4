# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Imports of Python packages that may be missing: one clear error instead of a traceback.

They are imported at the top of a file, because Ansible's parent process then pays for that once and its workers not at all. A missing
package must therefore raise no error before a caller can report it:

    if TYPE_CHECKING:
        import urllib3
    else:
        urllib3 = optional("urllib3")

What only few runs need, and takes long to import, is imported at its first use (``deferred``).
"""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import sys
from typing import Any, Final, NoReturn

from .errors import MissingLibrary
from .redact import one_line

_PACKAGES: Final = {
    "cryptography": "cryptography",
    "kubernetes": "kubernetes",
    "urllib3": "urllib3",
    "websocket": "websocket-client",
    "yaml": "PyYAML",
}
"""Name to install by import name."""

_missing: dict[str, str] = {}  # name to install -> why it could not be imported


class _StandInType(type):
    """Metaclass of the stand-in for a missing module and everything in it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # attributes that Python itself looks up on a class
            raise AttributeError(name)
        return cls

    def __call__(cls, *arguments: Any, **options: Any) -> NoReturn:
        del arguments, options
        raise _error()

    def __bool__(cls) -> bool:
        return False


class _StandIn(Exception, metaclass=_StandInType):
    """Exception class that is never raised.

    So it serves wherever a name out of a library may stand: before a dot, as a base class, in an annotation, in ``isinstance`` and in
    ``except``. It is false. Calling it, or a class derived from it, raises MissingLibrary.
    """


def optional(module: str) -> Any:
    """Import a module such as ``cryptography.x509``, or return a stand-in whose use raises MissingLibrary."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        _note(module, error)
        return _StandIn


class _Deferred:
    """Module that is imported when the first name of it is asked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(importlib.import_module(self._module), name)
        except ImportError as error:
            _note(self._module, error)
            raise _error() from None


def deferred(module: str) -> Any:
    """Return a module such as ``kubernetes.client.rest`` that is imported at its first use, or a stand-in if its package is missing.

    The use raises MissingLibrary if the package is there and cannot be imported.
    """
    package = module.partition(".")[0]
    try:
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    except ImportError as error:
        _note(module, error)
        return _StandIn
    return _Deferred(module)


def _note(module: str, error: ImportError) -> None:
    asked, lacking = module.partition(".")[0], (error.name or "").partition(".")[0]
    # One of these packages may need another of them; pip installs all other dependencies with them.
    package = _PACKAGES.get(lacking) or _PACKAGES.get(asked, asked)
    _missing[package] = one_line(str(error), 120)


def require() -> None:
    """Check that every package given to ``optional`` was imported. Entry points call it, so that a run fails before it begins.

    :raises MissingLibrary: when a package is missing; the message names all that are.
    """
    if _missing:
        raise _error()


def _error() -> MissingLibrary:
    names = sorted(_missing)
    why = "; ".join(dict.fromkeys(_missing[name] for name in names))
    interpreter = sys.executable or "python3"
    return MissingLibrary(
        f"{interpreter} cannot import the Python {'package' if len(names) == 1 else 'packages'} {', '.join(names)}: {why}.",
        remedy=f"Install what is missing there:\n{shlex.join([interpreter, '-m', 'pip', 'install', *names])}",
    )
