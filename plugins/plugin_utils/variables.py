# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Unknown variables: names that begin like the collection's, or differ from one by a letter, and that no playbook or role reads.

Ansible takes any variable, so that a misspelled one has no effect and no message (docs/decisions/0038). Pure: names in, problems out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.input_problems import clip, is_list, suggest
from .arguments import OWN_NAMES, PREFIXES, VARIABLES
from .play import HOST_VARIABLES

OTHERS: Final = "cilium_mesh_other_variables"
"""The variable that lists names, or patterns, of variables that begin like the collection's and belong to others."""

KNOWN: Final = frozenset((*VARIABLES, *HOST_VARIABLES, *OWN_NAMES))
OFFERED: Final = tuple(sorted({*VARIABLES, *HOST_VARIABLES}))
"""Names that a user may have meant."""

_NAME: Final = re.compile(r"[a-z]\w*")

_GUARD: Final = re.compile(r"mesh_(?:\w+?_)??(hash|plan_hash|approve_refused|fail_on_changes)")
"""Half remembered names of the variables without which a run writes what no person approved."""


def unknown_variables(task_vars: Mapping[str, Any], hosts: Mapping[str, Iterable[str]], others: Any = None) -> list[str]:
    """Return one problem for each unknown variable, with what was probably meant.

    :param task_vars: the variables of the task, which are those of the play, of its first host, and extra variables.
    :param hosts: inventory name -> names of the variables of that host.
    :param others: value of ``cilium_mesh_other_variables``.
    :raises InvalidInput: when ``others`` is no list of texts.
    """
    foreign = _patterns(others)
    where: dict[str, list[str]] = {name: [] for name in task_vars if _is_unknown(name, foreign) and not _is_result(task_vars[name])}
    for host, names in hosts.items():
        for name in names:
            if name not in task_vars and _is_unknown(name, foreign):
                where.setdefault(name, []).append(host)
    return [_problem(name, places) for name, places in sorted(where.items())]


def _patterns(others: Any) -> tuple[str, ...]:
    if others in (None, ""):
        return ()
    if not is_list(others) or not all(isinstance(entry, str) for entry in others):
        raise InvalidInput(f"{OTHERS} is not a list of names.", remedy="Write a list of names of variables, or of patterns with *.")
    return tuple(others)


def _is_unknown(name: Any, foreign: tuple[str, ...]) -> bool:
    if not isinstance(name, str) or name in KNOWN:
        return False
    return _is_like_ours(str(name)) and not any(fnmatchcase(name, pattern) for pattern in foreign)


@cache
def _is_like_ours(name: str) -> bool:
    """Return whether a name begins like the collection's, or differs by a letter from one of them. Hosts have mostly the same names."""
    return (
        name.startswith(PREFIXES)
        or _GUARD.fullmatch(name) is not None
        or (_NAME.fullmatch(name) is not None and not _variants(name).isdisjoint(_variants_of_offered()))
    )


def _is_result(value: Any) -> bool:
    """Return whether a value is the result of a task, which a playbook registers under a name of its own."""
    return isinstance(value, Mapping) and "changed" in value and ("failed" in value or "msg" in value or "invocation" in value)


@cache
def _variants_of_offered() -> frozenset[str]:
    return frozenset(variant for name in OFFERED for variant in _variants(name))


@cache
def _variants(name: str) -> frozenset[str]:
    """Return the name, and the name without each of its letters: two names that share one differ by one or two letters."""
    return frozenset((name, *(name[:place] + name[place + 1 :] for place in range(len(name)))))


def _problem(name: str, hosts: list[str]) -> str:
    where = f" of host {clip(hosts[0])}" + (f" and {len(hosts) - 1} more" if len(hosts) > 1 else "") if hosts else ""
    variants = _variants(name)
    near = [known for known in OFFERED if not variants.isdisjoint(_variants(known))]
    if not near and (guard := _GUARD.fullmatch(name)):
        near = [f"cilium_mesh_{guard[1]}"]
    hint = suggest(name, OFFERED, "") if not near else f"did you mean {' or '.join(near[:3])}?"
    close = hint if hint.startswith("did you mean") else "no variable of this collection has a name like it"
    return f"variable {clip(name)}{where} is not known; {close}"
