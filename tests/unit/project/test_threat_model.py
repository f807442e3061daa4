# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/threat-model.md names a test for each promise, and the way to report a vulnerability is that of the repository."""

from __future__ import annotations

from tests.collection_path import CHECKOUT
from tests.unit.project.test_promises import functions


def rows() -> list[tuple[str, str, str]]:
    """(promise, actor, test) of each row."""
    text = (CHECKOUT / "docs" / "threat-model.md").read_text(encoding="utf-8").partition("## Promises")[2].partition("\n## ")[0]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return [(promise, actor, test.strip("`")) for promise, actor, test in found[2:]]


def test_every_promise_names_a_test_that_exists() -> None:
    assert len(rows()) > 20
    for promise, actor, test in rows():
        file, _, function = test.partition("::")
        assert promise and actor and (CHECKOUT / file).is_file() and function in functions(file), test


def test_every_actor_has_a_promise_or_is_said_to_be_trusted() -> None:
    page = (CHECKOUT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    table = page.partition("## Actors")[2].partition("## Assets")[0]
    actors = [line.strip("|").split("|")[0].strip() for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(actors) == 7
    named = " ".join(actor for _promise, actor, _test in rows()).lower()
    without = [actor for actor in actors if " ".join(actor.lower().split()[:2]) not in named]
    assert without == ["Network between operator and members"]  # TLS: kubeconfigs that skip it are refused


def test_reports_go_to_the_repository_of_the_collection() -> None:
    galaxy = (CHECKOUT / "galaxy.yml").read_text(encoding="utf-8")
    repository = next(line.split(": ")[1] for line in galaxy.splitlines() if line.startswith("repository: "))
    assert f"<{repository}/security/advisories/new>" in (CHECKOUT / "SECURITY.md").read_text(encoding="utf-8")
    for page in ("README.md", "docs/README.md", "docs/threat-model.md"):
        assert "SECURITY.md)" in (CHECKOUT / page).read_text(encoding="utf-8"), page
