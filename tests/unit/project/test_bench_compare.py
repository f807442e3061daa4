# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The comparison of two commits measures both in turns, by one benchmark, and says by how much each figure differs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import compare

STAND_IN = """
import json, pathlib, sys
from product import SECONDS
file = pathlib.Path(sys.argv[sys.argv.index("--json") + 1])
with open({log!r}, "a") as log:
    log.write(f"{{SECONDS}} {version}\\n")
file.write_text(json.dumps({{"planning": [{{"title": "first", "cpu": SECONDS, "met": True}}]}}))
"""


def test_figures_are_named_by_their_rows() -> None:
    figures = {"a": [{"kind": "first", "clusters": 2, "cpu": 1.5, "met": True}], "b": [4, None], "text": "x"}
    assert dict(compare.leaves(figures)) == {
        ("a", "first 2", "clusters"): 2.0,
        ("a", "first 2", "cpu"): 1.5,
        ("b", "0"): 4.0,
    }


def test_medians_are_compared_and_what_one_commit_does_not_have_is_left_out() -> None:
    first = [{"cpu": 1.0, "zero": 0}, {"cpu": 9.0, "zero": 0, "once": 1}, {"cpu": 2.0, "zero": 0}]
    second = [{"cpu": 1.0, "zero": 5, "new": 1}, {"cpu": 1.0, "zero": 5, "new": 1}]
    rows = compare.compared(first, second)
    assert rows == [("cpu", 2.0, 1.0, 0.5), ("zero", 0.0, 5.0, None)]
    text = compare.as_text(rows, ("old", "new"))
    assert [line.split()[0] for line in text.splitlines()] == ["old", "cpu", "zero"] and "0.50" in text


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two commits: the product takes half as long in the second one, and the benchmark has changed."""
    folder = tmp_path / "project"

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)

    (folder / "tests" / "bench").mkdir(parents=True)
    (folder / "tests" / "__init__.py").touch()
    (folder / "tests" / "bench" / "__init__.py").touch()
    git("init", "--quiet")
    for version, seconds in (("old", 4), ("new", 2)):
        (folder / "product.py").write_text(f"SECONDS = {seconds}\n", encoding="utf-8")
        stand_in = STAND_IN.format(log=str(tmp_path / "log"), version=version)
        (folder / "tests" / "bench" / "__main__.py").write_text(stand_in, encoding="utf-8")
        git("add", ".")
        git("commit", "--quiet", "--message", version)
        git("tag", version)
    monkeypatch.setattr(compare, "CHECKOUT", folder)
    return folder


@pytest.mark.parametrize(("more", "benchmark_of_old"), [([], "new"), (["--own"], "old")])
def test_two_commits_are_measured_in_turns_by_one_benchmark(
    project: Path, more: list[str], benchmark_of_old: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compare", "old", "new", "--only", "planning", "--turns", "2", *more])
    compare.main()
    assert (project.parent / "log").read_text(encoding="utf-8").splitlines() == [
        f"4 {benchmark_of_old}",
        "2 new",
        "2 new",
        f"4 {benchmark_of_old}",
    ]
    assert "planning / first / cpu" in (shown := capsys.readouterr().out) and shown.rstrip().endswith("0.50")


def test_a_commit_that_there_is_not_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["compare", "old", "missing", "--only", "planning"])
    with pytest.raises(SystemExit, match="missing"):
        compare.main()
