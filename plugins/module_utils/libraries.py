# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Python packages that the engine is written on and that a machine may lack: one clear error instead of a traceback.

They are imported at the top of a file, because Ansible's parent process then pays for that once and its workers not at all; so a package
that is missing must not be noticed before somebody reports it:

    if TYPE_CHECKING:
        import urllib3
    else:
        urllib3 = optional("urllib3")
"""

from __future__ import annotations

import importlib
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
"""Import name -> the name to install."""

_missing: dict[str, str] = {}  # name to install -> why it could not be imported


class _StandInType(type):
    """Type of what stands for a missing module and all that is in it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks a class for
            raise AttributeError(name)
        return cls

    def __call__(cls, *arguments: Any, **options: Any) -> NoReturn:
        del arguments, options
        raise _error()

    def __bool__(cls) -> bool:
        return False


class _StandIn(Exception, metaclass=_StandInType):
    """An exception class that nobody can raise.

    So it serves wherever a name out of a library may stand: before a dot, as a base class, in an annotation, in ``isinstance`` and in
    ``except``. It is false. Calling it, or a class derived from it, raises MissingLibrary.
    """


def optional(module: str) -> Any:
    """The module ``module`` (``cryptography.x509``), or a stand-in whose use raises MissingLibrary."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        asked, lacking = module.partition(".")[0], (error.name or "").partition(".")[0]
        # One of them may need another; what they need besides, pip installs with them.
        package = _PACKAGES.get(lacking) or _PACKAGES.get(asked, asked)
        _missing[package] = one_line(str(error), 120)
        return _StandIn


def require() -> None:
    """Raise MissingLibrary when a package is missing: for an entry point, so that nothing is begun that cannot be ended."""
    if _missing:
        raise _error()


def _error() -> MissingLibrary:
    names = sorted(_missing)
    why = "; ".join(dict.fromkeys(_missing[name] for name in names))
    interpreter = sys.executable or "python3"
    return MissingLibrary(
        f"{interpreter} cannot import the Python {'package' if len(names) == 1 else 'packages'} {', '.join(names)}: {why}.",
        remedy=f"Install what is missing there: {shlex.join([interpreter, '-m', 'pip', 'install', *names])}",
    )
