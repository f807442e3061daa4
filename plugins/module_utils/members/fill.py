# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values that a plan has placeholders for, as they are known only after a part of it was written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..plan.steps import ApiWrite, MemberToken, Step


def filled(step: Step, values: Mapping[str, str]) -> Step:
    """Return the step with each placeholder in its body replaced by its value."""
    if not values or not isinstance(step.action, ApiWrite):
        return step
    return replace(step, action=replace(step.action, body=_filled(step.action.body, values)))


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(entry, values) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_filled(entry, values) for entry in value]
    return values.get(value, value) if isinstance(value, str) else value


def tokens_of(steps: Iterable[Step]) -> list[MemberToken]:
    """Return the tokens that the steps need, each once."""
    found = [
        recipe
        for step in steps
        if isinstance(step.action, ApiWrite)
        for recipe in step.action.secret_data.values()
        if isinstance(recipe, MemberToken)
    ]
    return list(dict.fromkeys(found))
