# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How long each group of tests takes in the deep run: ``python -m tests.testing.group_weights REPORT ...``.

A group is what one worker runs as a whole (tests/integration/labs.py). The heaviest begin first, and shards are divided by the sums. With
the JUnit reports of all shards (``make test-all SHARD=1/4 ARGS="--junitxml 1.xml"``) the command writes the seconds anew.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.collection_path import CHECKOUT

MEASURED: Final = CHECKOUT / "tests" / "group_weights.json"
LIGHT: Final = 5
"""Seconds of a group that the record does not name: a file of unit tests, with the many examples of the deep run."""
KEPT: Final = 30
"""Seconds from which a group is recorded: lighter ones move no shard and delay no run."""


def read(place: Path = MEASURED) -> dict[str, int]:
    """Return the seconds of the recorded groups, by name."""
    found = json.loads(place.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def measured(reports: Iterable[Path]) -> dict[str, int]:
    """Return the seconds of every group that takes `KEPT` or more, the heaviest first.

    :param reports: JUnit reports of runs in groups, which name the group behind ``@`` at the end of each test.
    :raises ValueError: a report is of another kind of run.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        for test in ElementTree.parse(report).getroot().iter("testcase"):
            name, at, group = test.get("name", "").rpartition("@")
            if not at:
                raise ValueError(f"{report} is of a run without groups: {name or group} names none")
            sums[group.removesuffix("]")] += float(test.get("time", "0"))  # pytest 9.2 closes the brackets of a row once more, at the end
    heaviest = sorted(sums.items(), key=lambda entry: -entry[1])
    return {group: round(seconds) for group, seconds in heaviest if seconds >= KEPT}


def main(arguments: Sequence[str]) -> None:
    if not arguments:
        sys.exit("name the JUnit reports of all shards")
    MEASURED.write_text(json.dumps(measured(map(Path, arguments)), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
