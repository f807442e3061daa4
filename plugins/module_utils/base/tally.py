# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Progress of work that has many parts, which threads do side by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """Number of parts that are done, of how many, and the part under way that began first: where it is and at what; "" if none is."""

    done: int
    total: int
    oldest: str = ""


def no_progress(tally: Tally) -> None:
    """Report nothing: for callers that no person watches, such as tests."""
