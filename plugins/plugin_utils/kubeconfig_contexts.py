# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reader of the context names of a kubeconfig, and of nothing else in it. Errors never quote the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from ..module_utils.base.yaml_reader import loader


class UnreadableKubeconfig(Exception):
    """A kubeconfig that cannot be read. The message has the path and the line, and never text of the file."""


@dataclass(frozen=True)
class Contexts:
    """Context names of a kubeconfig in the order of the file; ``current`` is "" when unset."""

    names: tuple[str, ...]
    current: str


def read_contexts(file: str) -> Contexts:
    """Read the context names of a kubeconfig.

    :raises UnreadableKubeconfig: when the file cannot be read, is no kubeconfig, or has a context without a name or two of one name.
    """
    document = _load(file)
    if not isinstance(document, Mapping) or not isinstance(document.get("contexts"), list):
        raise UnreadableKubeconfig(f"{file} is not a kubeconfig: it has no list of contexts.")
    named = [entry.get("name") if isinstance(entry, Mapping) else None for entry in document["contexts"]]
    if not all(isinstance(name, str) and name for name in named):
        raise UnreadableKubeconfig(f"kubeconfig {file} has a context without a name.")
    names = [str(name) for name in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UnreadableKubeconfig(f"kubeconfig {file} names the context {twice[0]!r} twice.")
    current = document.get("current-context")
    return Contexts(names=tuple(names), current=current if isinstance(current, str) else "")


def _load(file: str) -> Any:
    try:
        with open(file, "rb") as stream:
            return yaml.load(stream, loader())
    except OSError as error:
        raise UnreadableKubeconfig(f"kubeconfig {file} cannot be read: {error.strerror}.") from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise UnreadableKubeconfig(f"kubeconfig {file} is not YAML{line}.") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UnreadableKubeconfig(f"kubeconfig {file} is not YAML.") from None
