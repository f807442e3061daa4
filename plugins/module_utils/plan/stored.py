# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A plan that an earlier run wrote, read back: which hash was approved, and with which options to plan again.

The text may have been edited, or be no plan at all; nothing in it decides what is written. The hash of the new plan decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..base.errors import InvalidInput
from ..mesh.binding.link_policy import ADDRESS_CHOICES
from ..mesh.binding.trust_mode import TRUST_CHOICES

HASH_DIGITS: Final = 64
LEAST_DIGITS: Final = 12

_HASH = re.compile(r"[0-9a-f]{12,64}")
_REMEDY: Final = "Give the JSON that the playbook plan wrote, or its mesh_result."


class _Option(NamedTuple):
    """Option of a plan, with its default for a plan of an earlier release that does not have it."""

    name: str  # name of the option of the actions
    kinds: tuple[type, ...]
    default: Any = None


OPTIONS: Final[Mapping[str, _Option]] = {
    "purpose": _Option("purpose", (str,)),
    "clusters": _Option("clusters", (list,)),
    "accept": _Option("accept", (list,)),
    "trust": _Option("trust", (str,)),
    "nodeAddresses": _Option("node_addresses", (str,)),
    "certificateDays": _Option("certificate_days", (int,)),
    "renewBeforeDays": _Option("renew_before_days", (int,)),
    "repair": _Option("repair", (bool,), False),
    "takeBack": _Option("take_back", (list,), []),
    "maxFailures": _Option("max_failures", (int, type(None))),
}
"""Options of a plan by their key in the plan as data."""

_CHOICES: Final = {"purpose": ("connect", "disconnect"), "trust": TRUST_CHOICES, "nodeAddresses": ADDRESS_CHOICES}


@dataclass(frozen=True, kw_only=True)
class StoredPlan:
    """Plan that was approved. ``data`` is the plan as data; {} if only its hash is known."""

    hash: str  # 64 hex digits, or at least the first 12
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Any]:
        """Options of the plan by the names of the actions' options; {} if only its hash is known."""
        given = self.data.get("options", {})
        return {option.name: given.get(key, option.default) for key, option in OPTIONS.items()} if self.data else {}

    def is_the_same_as(self, fresh: str) -> bool:
        """Return whether ``fresh`` is the hash that was approved."""
        return fresh.startswith(self.hash)


def options_data(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an action as a plan has them. Lists are sorted without repetition, as their order changes nothing."""
    found = {key: parameters.get(option.name, option.default) for key, option in OPTIONS.items()}
    return {key: sorted(set(value)) if isinstance(value, list) else value for key, value in found.items()}


def stored_plan(hash_or_prefix: str, data: Any = None) -> StoredPlan:
    """Parse the approved plan from its hash, its data (``Plan.to_dict`` or a ``mesh_result`` that holds it), or both.

    :raises InvalidInput: when neither is given, one is malformed, or they disagree.
    """
    given = hash_or_prefix.strip().lower()
    if given and _HASH.fullmatch(given) is None:
        raise InvalidInput(
            f"hash is not {LEAST_DIGITS} to {HASH_DIGITS} hexadecimal digits.",
            remedy="Copy it from the output of the playbook plan, or of the same run with --check.",
        )
    if data is None:
        if not given:
            raise InvalidInput("Neither hash nor plan says which plan was approved.", remedy="Run the playbook plan and give its hash.")
        return StoredPlan(hash=given)
    plan = _checked(data)
    if not str(plan["hash"]).startswith(given):
        raise InvalidInput(f"hash is {given[:LEAST_DIGITS]}, and the plan that is given has {plan['hash'][:LEAST_DIGITS]}.", remedy=_REMEDY)
    return StoredPlan(hash=plan["hash"], data=plan)


def _checked(data: Any) -> Mapping[str, Any]:
    """Return the plan as data, after checking that every part is there and of its type."""
    if isinstance(data, Mapping) and isinstance(data.get("plan"), Mapping):
        data = data["plan"]
    if not isinstance(data, Mapping) or _HASH.fullmatch(str(data.get("hash"))) is None or len(str(data["hash"])) != HASH_DIGITS:
        raise InvalidInput("plan is not a plan: it has no hash of 64 hexadecimal digits.", remedy=_REMEDY)
    steps, options, relied_on = data.get("steps"), data.get("options"), data.get("reliedOn")
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        raise InvalidInput("plan has no list of steps.", remedy=_REMEDY)
    if not isinstance(options, Mapping) or not isinstance(relied_on, Mapping):
        raise InvalidInput("plan does not say with which options it was made, and what it relied on.", remedy=_REMEDY)
    for key, option in OPTIONS.items():
        value = options.get(key, option.default)
        if not _is_one_of(value, option.kinds) or (key in _CHOICES and value not in _CHOICES[key]):
            raise InvalidInput(f"plan has no usable option {key}.", remedy=_REMEDY)
    if not all(isinstance(sections, Mapping) for sections in relied_on.values()):
        raise InvalidInput("plan does not say, cluster by cluster, what it relied on.", remedy=_REMEDY)
    return data


def _is_one_of(value: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether ``value`` is of one of ``kinds``. A boolean is no number here; Ansible's numbers are of subclasses."""
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
