# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is in the repository is at home on every machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.collection_path import CHECKOUT
from tests.testing.rows import one_test

# Written in parts, so that this file does not hold them.
HOMES = ("/ro" + "ot/", "/wo" + "rk/")
MACHINE_PATHS = re.compile("|".join((*(rf"(?<![\w.$)}}-]){home}" for home in HOMES), re.escape(str(CHECKOUT)) + r"(?![\w-])")))
REGISTRIES = re.compile("|".join(("py" + r"pi\.org", "pythonhosted" + r"\.org", "galaxy" + r"\.ansible\.com", "--(extra-)?index-url")))
LOCKS = tuple(f"requirements/{name}.txt" for name in ("build", "dev", "collections", "operator", "operator-build", "image", "fuzz"))


def tracked() -> list[Path]:
    """Files that git knows or would take in, as a list of paths."""
    if not (CHECKOUT / ".git").exists():
        pytest.skip("this is no git checkout, so there is no list of the files that belong to it")
    command = ["git", "-C", str(CHECKOUT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return [path for path in (CHECKOUT / name for name in listed if name) if path.is_file()]


def findings(pattern: re.Pattern[str], parts: tuple[str, ...] = ("",)) -> list[str]:
    """``file: match`` of each place in a text file that the pattern matches.

    :param parts: every match has one of them; a pattern that looks behind takes forty times as long as a search for its parts.
    """
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if any(part in text for part in parts):
            found += [f"{path.relative_to(CHECKOUT)}: {match.group()}" for match in pattern.finditer(text)]
    return found


def test_no_file_names_a_path_of_a_machine() -> None:
    assert findings(MACHINE_PATHS, (*HOMES, str(CHECKOUT))) == []


def test_no_file_names_the_host_of_a_package_registry() -> None:
    assert findings(REGISTRIES) == []


# What silences a checker, and the reason after it: at least three words. Written in parts, as above.
SILENCED = re.compile("# (" + "type" + r": ignore(?:\[[\w, -]*\])?|" + "no" + r"qa(?:: [A-Z]+[0-9]+(?:, ?[A-Z]+[0-9]+)*)?)(?P<reason>.*)")


def test_nothing_silences_a_checker_without_the_reason_beside_it() -> None:
    without = [
        f"{path.relative_to(CHECKOUT)}:{number}: {line.strip()}"
        for path in tracked()
        if path.suffix == ".py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := SILENCED.search(line)) and len(re.findall(r"[\w']+", found["reason"])) < 3
    ]
    assert without == []


@one_test("lock", *LOCKS)
def test_every_package_of_the_lock_is_pinned_with_hashes(lock: str) -> None:
    text = (CHECKOUT / lock).read_text(encoding="utf-8")
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", re.sub(r"(?m)^#.*\n", "", text))
    pinned = [entry for entry in entries if entry.strip()]
    assert pinned
    for entry in pinned:
        assert re.match(r"[\w.-]+==[\w.]+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_the_lock_holds_everything_that_is_asked_for() -> None:
    text = (CHECKOUT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    locked = {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"(?m)^([\w.-]+)==", text)}
    for line in (CHECKOUT / "requirements" / "dev.in").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"[\w.-]+", line):
            assert match.group().lower() in locked
