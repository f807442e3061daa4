# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings about links that are not ready: every stage has a fix, and no link is in two findings or in none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.link_findings import (
    ERRORS_SHOWN,
    late_findings,
    late_sentence,
)

SILENT = {LinkStage.READY, LinkStage.UNKNOWN, LinkStage.NOT_ASKED}
"""Stages that are good, or have a finding of their own."""


def row(cluster: str, peer: str, stage: str, error: str = "") -> Mapping[str, Any]:
    return {"cluster": cluster, "peer": peer, "stage": stage, "error": error}


@pytest.mark.parametrize("stage", LinkStage)
def test_every_stage_that_is_not_good_has_a_finding_with_a_fix(stage: LinkStage) -> None:
    found = late_findings([row("c1", "c2", stage, "reset")])
    assert bool(found) == (stage not in SILENT)
    for finding in found:
        assert (finding.cluster, finding.peer) == ("c1", "c2") and finding.fix
        assert stage in finding.summary and finding.evidence == "c1 -> c2: reset"


def test_a_link_that_nothing_has_written_waits_for_no_reader_and_needs_a_run() -> None:
    links = [row("c1", "c2", "secret_not_projected"), row("c2", "c1", "secret_not_projected"), row("c1", "c3", "dialling", "refused")]
    unwritten, waiting, dialling = late_findings(links, {("c1", "c2"), ("c1", "c3")})
    assert unwritten.summary == "The link c1 -> c2 is not written in the cluster that reads" and "connect" in unwritten.fix
    assert "restart" not in unwritten.fix and "restart" in waiting.fix
    assert (waiting.cluster, dialling.evidence) == ("c2", "c1 -> c3: refused")


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("efgh"), st.sampled_from(list(LinkStage))), max_size=30))
def test_each_link_is_counted_once(links: list[tuple[str, str, LinkStage]]) -> None:
    found = late_findings([row(*link) for link in links])
    late = [link for link in links if link[2] not in SILENT]
    assert len(found) == len({stage for _cluster, _peer, stage in late})
    counted = sum(1 if finding.summary.startswith("The link") else int(finding.summary.partition(" ")[0]) for finding in found)
    assert counted == len(late)


def test_of_many_errors_the_first_are_shown_and_the_rest_is_counted() -> None:
    found = late_findings([row(f"c{n}", "peer", "tls", f"error {n}") for n in range(10)])
    assert len(found) == 1 and found[0].cluster == "" and len(found[0].others) == 10
    lines = found[0].evidence.splitlines()
    assert lines == [*(f"c{n} -> peer: error {n}" for n in range(ERRORS_SHOWN)), f"and {10 - ERRORS_SHOWN} more errors"]


def test_the_sentence_begins_with_the_code_and_names_the_links() -> None:
    found = late_findings([row("c1", "c2", "dialling")])
    assert late_sentence(found, "m: Connecting.") == "CM-LINK-02: m: Connecting. The link c1 -> c2 is not ready, in stage dialling."
    assert late_sentence((), "m: Connecting.") == "m: Connecting."
