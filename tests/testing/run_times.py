# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How long the targets take, in one block that several pages have: ``python -m tests.testing.run_times [TARGET=SECONDS ...]``.

The seconds are measured ones, of the machine that tests/run_times.json names. With arguments the command takes them over; in any case it
writes the block anew into each page of `PAGES`, between its two marks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tests.collection_path import CHECKOUT
from tests.testing.properties import PROFILES

MEASURED: Final = CHECKOUT / "tests" / "run_times.json"
PAGES: Final = ("README.md", "CONTRIBUTING.md", "tests/README.md", "docs/testing.md")
BEGIN: Final = "<!-- run times: written by python -m tests.testing.run_times -->"
END: Final = "<!-- end of run times -->"
WHAT: Final[Mapping[str, str]] = {
    "make test-fast": f"the unit tests of the gate, {PROFILES['fast']} examples of each property",
    "make test": "these, and one scenario on real servers of each area of the product",
    ".ci/run": "the gate: linters, `make test`, `ansible-test sanity`, one scenario of molecule",
    "first build of the servers": "once on a machine, before the first test on servers",
    "make test-all": "the deep run: every test and the full matrix, 1,000 examples; `SHARD=2/4` runs one of four parts",
}
_SOON: Final = 100  # seconds up to which they are given as such


def block(measured: Mapping[str, object]) -> str:
    """Return the lines between the marks, for the content of `MEASURED`."""
    seconds = measured["seconds"]
    assert isinstance(seconds, Mapping)
    rows = [f"| {_code(target)} | {what} | {_long(seconds.get(target))} |" for target, what in WHAT.items()]
    head = [f"| Target | What runs | How long, {measured['machine']} |", "| --- | --- | --- |"]
    return "\n".join(["", *head, *rows, ""])


def with_block(page: str, text: str) -> str:
    """Return a page whose text between the marks is ``text``.

    :raises ValueError: the page lacks a mark.
    """
    before, begin, rest = page.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN!r} or {END!r}")
    return f"{before}{begin}{text}\n{end}{after}"


def main(arguments: Sequence[str]) -> None:
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    for argument in arguments:
        target, _, seconds = argument.partition("=")
        if target not in WHAT or not seconds.isdecimal():
            sys.exit(f"{argument!r} is no TARGET=SECONDS; targets are {', '.join(WHAT)}")
        measured["seconds"][target] = int(seconds)
    MEASURED.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    for name in PAGES:
        place = CHECKOUT / name
        place.write_text(with_block(place.read_text(encoding="utf-8"), block(measured)), encoding="utf-8")


def _code(target: str) -> str:
    return f"`{target}`" if "make" in target or "/" in target else target


def _long(seconds: int | None) -> str:
    if seconds is None:
        return "not measured as a whole"
    return f"{seconds} s" if seconds <= _SOON else f"{round(seconds / 60)} minutes"


if __name__ == "__main__":
    main(sys.argv[1:])
