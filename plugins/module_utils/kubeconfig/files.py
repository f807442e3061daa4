# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs in files. Messages name a file and the line, and quote nothing of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..base.optional_imports import optional
from ..base.redact import one_line
from ..base.yaml_reader import loader
from .document import Kubeconfig, merge_kubeconfigs, parse_kubeconfig
from .invalid import KubeconfigInvalid, KubeconfigUnreadable, RefusedSubject

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")

VARIABLE: Final = "KUBECONFIG"
VAULT: Final = b"$ANSIBLE_VAULT;"
"""How a file begins that ansible-vault encrypted."""


def default_paths() -> tuple[str, ...]:
    """Return the files that kubectl reads where none is named: those of KUBECONFIG, else ``~/.kube/config``."""
    listed = split_paths(os.environ.get(VARIABLE, ""))
    return listed or (os.path.expanduser("~/.kube/config"),)


def split_paths(text: str) -> tuple[str, ...]:
    """Return the paths of a list in the form of KUBECONFIG, each once; ``~`` is the home of the user."""
    return tuple(dict.fromkeys(os.path.expanduser(path) for path in text.split(os.pathsep) if path))


def read_kubeconfigs(paths: Sequence[str]) -> Kubeconfig:
    """Return the kubeconfigs of several files as one. A file that is not there counts for nothing beside others that are.

    :raises KubeconfigInvalid: when there is none, or one cannot be read or used; the message names the file.
    """
    found = [one for path in paths if (one := _read(path)) is not None]
    if not found:
        raise KubeconfigUnreadable("does not exist", subject=_file(os.pathsep.join(paths)))
    return merge_kubeconfigs(found)


def is_vaulted(path: str) -> bool:
    """Return whether ansible-vault encrypted a file. One that cannot be read is not known to be."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(len(VAULT)) == VAULT
    except OSError:
        return False


def _file(path: str) -> RefusedSubject:
    return RefusedSubject(f"Kubeconfig {one_line(path, 200)}", "The kubeconfig")


def _read(path: str) -> Kubeconfig | None:
    """Return the kubeconfig of one file; None if it is not there."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KubeconfigUnreadable(f"cannot be read: {error.strerror}", subject=_file(path), remedy="Check its permissions.") from None
    try:
        return parse_kubeconfig(document_of(content), os.path.dirname(os.path.abspath(path)))
    except KubeconfigInvalid as invalid:
        raise KubeconfigUnreadable(f"cannot be used: {invalid.message}", subject=_file(path), remedy=invalid.remedy) from None


def document_of(content: bytes | str) -> Any:
    """Return the document that a kubeconfig has, as data.

    :raises KubeconfigInvalid: when it is no YAML; the message quotes nothing of it.
    """
    try:
        return yaml.load(content, loader())
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise KubeconfigInvalid(f"is not YAML{line}") from None
    except (yaml.reader.ReaderError, UnicodeError):
        raise KubeconfigInvalid("is neither in UTF-8 nor in UTF-16 with its mark") from None
    except Exception:  # constructors of PyYAML trust explicit tags, and raise anything
        raise KubeconfigInvalid("is not YAML") from None
