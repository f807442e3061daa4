# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of the waivers of a binding: one that has ended, ends soon, or has no effect because it lasts too long."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from ..findings.wording import show
from ..mesh.binding.waivers import LONGEST, Waiver
from .context import CheckContext
from .flaw import Flaw
from .registry import check

SOON: Final = timedelta(days=14)


def _evidence(context: CheckContext, waiver: Waiver) -> str:
    return f"{waiver.kind} of binding {context.mesh.binding.name}, until {waiver.until:%Y-%m-%dT%H:%M:%SZ}: {show(waiver.reason)}"


@check("CM-WAIV-01")
def waivers_have_not_ended(context: CheckContext) -> Iterator[Flaw]:
    """Report a waiver whose time is over."""
    for waiver in context.mesh.binding.waivers:
        if waiver.until <= context.now:
            yield Flaw(
                summary=f"The waiver {waiver.label} has ended, and what it waived protects the mesh again",
                evidence=_evidence(context, waiver),
                fix="Remove it if what it was for is done. Otherwise give it a new end, with a reason that says what is still to be done.",
            )


@check("CM-WAIV-02")
def waivers_do_not_end_soon(context: CheckContext) -> Iterator[Flaw]:
    """Report a waiver that ends within ``SOON``."""
    for waiver in context.mesh.binding.waivers:
        if context.now < waiver.until <= context.now + SOON:
            yield Flaw(
                summary=f"The waiver {waiver.label} ends on {waiver.until:%Y-%m-%d}",
                evidence=_evidence(context, waiver),
                fix="Do what it was for before then, or give it a new end: a finding that blocks again keeps changes from being written.",
            )


@check("CM-WAIV-03")
def waivers_do_not_last_too_long(context: CheckContext) -> Iterator[Flaw]:
    """Report a waiver that has no effect because it would last longer than a waiver may."""
    for waiver in context.mesh.binding.waivers:
        if waiver.until > context.now + LONGEST:
            yield Flaw(
                summary=f"The waiver {waiver.label} has no effect, since it would last for more than {LONGEST.days} days",
                evidence=_evidence(context, waiver),
                fix=f"Set its until to a time within {LONGEST.days} days.",
            )
