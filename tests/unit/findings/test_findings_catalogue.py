# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The catalogue of findings is complete, every call site keeps to it, and the docs say the same."""

from __future__ import annotations

import re

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base import errors
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import MeshError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import TO_DISCONNECT
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.registry import check, registered
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE, FAMILIES
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Cure, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.wording import finding
from tests.collection_path import CHECKOUT
from tests.testing.code_table import (
    INDEX,
    RUNBOOKS,
    documented,
    documented_header,
    documented_settings,
    header,
    index,
    page,
    settings_table,
    table,
)
from tests.testing.rows import one_test

PAGES = {file.stem for file in RUNBOOKS.glob("CM-*.md")}
STALE = "run: make findings"


def codes_named_outside_the_catalogue() -> set[str]:
    """Every code that stands as a literal in the plugins or playbooks."""
    files = [file for file in (CHECKOUT / "plugins").rglob("*.py") if file.name != "catalogue.py"]
    files += (CHECKOUT / "playbooks").glob("*.yml")
    return {code for file in files for code in re.findall(r"\bCM-[A-Z]+-[0-9]{2}\b", file.read_text(encoding="utf-8"))}


def test_every_code_has_a_row_and_every_row_a_use() -> None:
    assert codes_named_outside_the_catalogue() == set(CATALOGUE)


def test_every_code_has_a_runbook_page_and_every_page_a_code() -> None:
    assert set(CATALOGUE) == PAGES


def test_codes_are_well_formed_and_their_families_have_names() -> None:
    assert all(re.fullmatch(r"CM-[A-Z]+-\d\d", code) for code in CATALOGUE)
    assert {row.family for row in CATALOGUE.values()} == set(FAMILIES)
    assert list(CATALOGUE) == sorted(CATALOGUE, key=lambda code: (list(FAMILIES).index(CATALOGUE[code].family), code))


def test_titles_distinguish_the_codes() -> None:
    titles = [row.title for row in CATALOGUE.values()]
    assert sorted(titles) == sorted(set(titles))
    assert not [title for title in titles if title != title.strip(" .") or "|" in title]


def test_every_error_has_a_row_and_blocks_unless_the_caller_can_do_without() -> None:
    found = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MeshError)]
    kinds = [kind for kind in found if kind is not errors.KeptBack]  # the write that failed blocks; what is kept because of it follows
    assert CATALOGUE[errors.KeptBack.code].severity is Severity.REMEDIABLE
    assert {CATALOGUE[kind.code].severity for kind in kinds} == {Severity.BLOCKING}
    assert all(Severity.REMEDIABLE in CATALOGUE[kind.code].cases for kind in kinds)
    assert not {kind.code for kind in kinds} & set(registered())


def test_a_case_differs_from_the_usual_severity() -> None:
    assert not [row.code for row in CATALOGUE.values() if row.severity in row.cases]


def test_only_a_check_can_make_a_cluster_ineligible() -> None:
    assert {code for code, row in CATALOGUE.items() if row.cure is Cure.REINSTALL} <= set(registered())


def test_disconnect_uses_severities_that_the_rows_list() -> None:
    assert {code: CATALOGUE[code].severity_in(severity) for code, severity in TO_DISCONNECT.items()} == TO_DISCONNECT


def test_findings_are_made_in_one_place() -> None:
    files = [file for file in (CHECKOUT / "plugins").rglob("*.py") if re.search(r"\bFinding\(", file.read_text(encoding="utf-8"))]
    assert [file.name for file in files] == ["wording.py"]


def test_a_finding_has_the_severity_of_its_row_or_of_a_case_that_the_row_lists() -> None:
    assert finding("CM-CIDR-01", summary="s").severity is Severity.BLOCKING
    assert finding("CM-DRIFT-02", summary="s", severity=Severity.REMEDIABLE).severity is Severity.REMEDIABLE
    with pytest.raises(ValueError, match="CM-CIDR-01 can be advisory"):
        finding("CM-CIDR-01", summary="s", severity=Severity.ADVISORY)
    with pytest.raises(KeyError):
        finding("CM-NONE-01", summary="s")


@pytest.mark.parametrize("code", ["CM-NONE-01", "CM-GS-01"])
def test_a_check_needs_a_row_whose_scope_is_one_of_a_check(code: str) -> None:
    with pytest.raises(ValueError, match=f"no check {code}"):
        check(code)


def test_texts_of_a_finding_are_printable_and_of_a_sane_length() -> None:
    made = finding("CM-CIDR-01", summary="a\x1bb" + "s" * 900, evidence="one\ntwo" + "e" * 9000)
    assert made.summary.startswith("a?b") and len(made.summary) == 500
    assert made.evidence.startswith("one?two") and len(made.evidence) == 2000
    assert finding("CM-CIDR-01", summary="s", evidence=["one", "two\x07"]).evidence == "one\ntwo?"


def test_the_table_of_findings_is_current() -> None:
    assert documented() == table(), STALE


def test_the_table_of_settings_is_current() -> None:
    assert documented_settings() == settings_table(), STALE


def test_the_index_of_the_runbooks_is_current() -> None:
    assert INDEX.read_text(encoding="utf-8") == index(), STALE


@one_test("code", *sorted(PAGES))
def test_a_runbook_page_says_what_why_and_what_to_do(code: str) -> None:
    assert documented_header(code) == header(CATALOGUE[code]), STALE
    text = page(code).read_text(encoding="utf-8")
    for heading in ("## What it means", "## How it is found", "## Why it matters", "## What to do"):
        assert heading in text, heading


def test_links_between_pages_lead_somewhere() -> None:
    for code in sorted(PAGES):
        assert set(re.findall(r"\]\((CM-[A-Z0-9-]+)\.md\)", page(code).read_text(encoding="utf-8"))) <= PAGES - {code}
