# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The options of the actions, as Ansible's validator takes them, and the ranges of numbers, which it does not know.

The documentation of the modules is their source. To parse it for every task would take tens of milliseconds, so arguments.py is generated
from it, and a test holds that it is current.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.input_problems import clip, suggest
from ..module_utils.kubeconfig.core_options import ALIASES
from ..module_utils.kubeconfig.core_options import NAMES as CREDENTIALS
from .arguments import ARGUMENTS, HANDED
from .option_words import Spec

_LISTED: Final = "the options are"


def spec_of(module: str) -> Spec:
    """Return the options of a module in the form of ``ArgumentSpecValidator``, with ``minimum`` and ``maximum`` of each number.

    A file that is no action, such as the base of several, has none.
    """
    return dict(ARGUMENTS.get(module, {}))


def option_problems(module: str, spec: Spec, params: Mapping[str, Any], task_vars: Container[str]) -> list[str]:
    """Return one problem for each number that is not in its range, or not more than another one that it has to exceed.

    It names the options, and the variables that a role or playbook read.

    :param module: the module as the task names it, without the collection.
    """

    def shown(name: str) -> str:
        given = [variable for variable in HANDED.get(module, {}).get(name, ()) if variable in task_vars]
        return f"{name} ({given[0]})" if given else name

    found = []
    for name, option in spec.items():
        value = params.get(name)
        if value is None or "minimum" not in option:
            continue
        other = option.get("above", "")
        if not option["minimum"] <= value <= option["maximum"]:  # also false for a float that is not a number
            found.append(f"{shown(name)} is {value}; use {option['minimum']} to {option['maximum']}")
        elif other and params.get(other) is not None and not value > params[other]:
            found.append(f"{shown(name)} is {value}; it must be more than {shown(other)}, which is {params[other]}")
    return found


def unknown_options(given: Mapping[str, Any], spec: Spec) -> InvalidInput:
    """Return the error about options that the module does not have, each with the one that was probably meant."""
    names = sorted(str(name) for name in given if name not in spec)
    meant = [suggest(name, tuple(spec), _LISTED) for name in names]
    known = next((text for text in meant if text.startswith(_LISTED)), "")
    # No colon behind a name: "api_key: …" is masked as a secret (base/redact.py).
    problems = [clip(name) if text.startswith(_LISTED) else f"{clip(name)} ({text})" for name, text in zip(names, meant, strict=True)]
    remedy = (
        f"{known[:1].upper()}{known[1:]}. ansible-doc says what they mean." if known else "See ansible-doc of this module for its options."
    )
    if {*CREDENTIALS, *ALIASES}.intersection(names):
        why = "The credentials of a cluster are variables of its host: cilium_mesh_kubeconfig, or cilium_mesh_auth with these options"
        remedy = f"{why} (docs/inventory.md). {remedy}"
    return InvalidInput(f"The module has no options of these names: {', '.join(problems)}.", remedy=remedy)
