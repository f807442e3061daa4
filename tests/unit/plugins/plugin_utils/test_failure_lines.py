# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last lines of a run that failed: few, within the terminal, with everything that a person needs to go on."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.failure import UNFINISHED, failure_of, lead_of
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.failure_lines import LINES, failure_name, failure_text
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.fitted import WHOLE, Line, fitted, to_copy

COMMAND = "kubectl --namespace kube-system rollout restart deployment/clustermesh-apiserver daemonset/cilium"


def finding(code: str = "CM-EP-02", **fields: Any) -> dict[str, Any]:
    return {
        "code": code,
        "severity": "blocking",
        "accepted": False,
        "cluster": "c1",
        "peer": "",
        "summary": "The peers of c1 have no address to dial",
        "evidence": "Service kube-system/clustermesh-apiserver",
        "fix": f"Give the Service an address.\n{COMMAND}",
        "anchor": f"docs/runbooks/{code}.md",
        **fields,
    }


def failed(message: str, *findings: dict[str, Any]) -> dict[str, Any]:
    """The result of a task with ``failed_when: false`` whose action failed."""
    return {"msg": message, "failed": False, "failed_when_result": False, "findings": list(findings), "plan": {"steps": []}, "status": None}


def test_what_failed_on_what_why_the_fix_the_page_and_how_to_see_more() -> None:
    text = failure_text([failed("2 blocking findings (CM-EP-02); nothing was written.", finding(), finding(cluster="c2"))], width=80)
    assert text.splitlines() == [
        "CM-EP-02, c1",
        "  The peers of c1 have no address to dial",
        "  read: Service kube-system/clustermesh-apiserver",
        "  fix:  Give the Service an address.",
        f"        {COMMAND}",
        "  so:   2 blocking findings (CM-EP-02); nothing was written.",
        "  page: docs/runbooks/CM-EP-02.md",
        "  more: 1 more finding; -v shows everything, cilium_mesh_result_file keeps it",
    ]
    assert failure_name([failed("x", finding())]) == "CM-EP-02, c1"


def test_a_run_that_did_not_fail_says_nothing_and_one_that_failed_in_ansible_itself_is_a_failure() -> None:
    good = {"failed": False, "failed_when_result": False, "findings": []}
    assert failure_of(good) == "" == failure_text([good], width=80)
    assert failure_of({"failed": False, "failed_when_result": False}) == UNFINISHED, "it is no result of an action of the collection"
    assert failure_of({"failed": True, "findings": []}) == UNFINISHED
    assert failure_of({"failed": True, "msg": "why"}) == "why" and "why" in failure_text([{"failed": True, "msg": "why"}], width=80)
    assert failure_text([good], judged="There are 2 changes.", width=80) == "There are 2 changes."


def test_the_finding_is_the_one_that_the_message_is_about() -> None:
    silent = finding("CM-API-01", severity="remediable", cluster="c2")
    other = finding("CM-ENC-01", severity="remediable", cluster="c1")
    item = finding("CM-GS-01", severity="remediable", item="globalServices/web")
    impact = finding("CM-INT-30", severity="remediable", item="globalServices/web")
    accepted = finding("CM-OWN-01", accepted=True)
    cases = {
        "No answer from 1 member (c2), and none may be silent.": silent,
        "Of 2 items: 1 in phase Error (globalServices/web).": item,
        "CM-ENC-01: something": other,
        "m: Connecting": None,
    }
    for message, expected in cases.items():
        assert lead_of(failed(message, accepted, impact, other, silent, item)) == expected, message
    assert lead_of(failed("m: Connecting", silent, finding())) == finding()


def test_two_failures_share_the_lines_and_the_same_one_stands_once() -> None:
    links, items = failed("CM-PLAN-01: a", finding("CM-PLAN-01", cluster="")), failed("CM-PLAN-01: b", finding("CM-PLAN-01", cluster=""))
    assert failure_text([links, items], width=80).count("CM-PLAN-01.md") == 1
    both = failure_text([links, failed("1 in phase Error", finding("CM-GS-03", cluster="c2"))], width=80)
    assert "CM-PLAN-01" in both and "CM-GS-03, c2" in both and len(both.splitlines()) <= LINES


def test_commands_are_never_cut_however_little_room_there_is() -> None:
    long = "Word after word. " * 40
    fix = f"{long}\n{COMMAND}\n{COMMAND} --now"
    text = failure_text([failed(long, finding(summary=long, evidence=long, fix=fix))], width=80)
    lines = text.splitlines()
    assert [line.strip() for line in lines if "kubectl" in line] == [COMMAND, f"{COMMAND} --now"]
    assert sum(-(-len(line) // 80) for line in lines) <= LINES, text
    only = failure_text([failed("CM-EP-02: The peers of c1 have no address to dial", finding(fix=COMMAND))], width=80)
    assert f"  fix:  {COMMAND}" in only.splitlines()


def test_the_fix_is_cut_last_and_nothing_is_with_v() -> None:
    fix = f"Give it an address that other clusters reach, or list the range of its address in cilium_mesh_endpoint_networks.\n{COMMAND}"
    result = failed("2 blocking findings (CM-EP-02).", finding(summary="Why it failed. " * 12, evidence="What was read. " * 9, fix=fix))
    short, whole = (failure_text([result], width=80, whole=whole) for whole in (False, True))
    assert "cilium_mesh_endpoint_networks." in short and "so:" not in short and len(short.splitlines()) <= LINES
    assert " ..." in short and " ..." not in whole and " ".join(whole.split()).count("What was read.") == 9


TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF), max_size=900)
RESULTS = st.lists(
    st.builds(
        failed,
        TEXTS,
        st.builds(finding, summary=TEXTS, evidence=TEXTS, fix=st.sampled_from(["", "Wait.", f"Do it.\n{COMMAND}"]) | TEXTS.map(str.title)),
    ),
    min_size=1,
    max_size=2,
)


@given(RESULTS, st.integers(40, 200))
def test_it_is_short_and_fits_whatever_is_in_it(results: list[dict[str, Any]], width: int) -> None:
    text = failure_text(results, width=width)
    lines = text.splitlines()
    assert len(lines) <= LINES
    longest = {max((len(word) for word in line.split()), default=0) for line in lines}
    assert all(len(line) <= max(width, 8 + max(longest)) + 4 or to_copy(line.strip()) for line in lines), (
        "only what cannot be broken is wider"
    )
    assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}


@given(
    st.text(st.characters(codec="ascii", categories=("L", "N", "Zs")), min_size=1, max_size=300), st.integers(0, 60), st.integers(30, 120)
)
def test_no_word_of_a_line_is_lost_and_lines_to_copy_stay_whole(text: str, hang: int, width: int) -> None:
    lines = fitted(Line(text, hang=min(hang, len(text))), width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert fitted(Line(text, hang=WHOLE), width) == [text] == fitted(Line(text), None)


def test_a_column_is_continued_below_itself_or_has_lines_of_its_own() -> None:
    head = "  blocking  CM-EP-02  c1  "
    assert fitted(Line(head + "one two three four", hang=len(head)), 52) == [head + "one two three four"]
    assert fitted(Line(head + "one two three four five six", hang=len(head)), 52) == [
        head + "one two three four five",
        " " * len(head) + "six",
    ]
    assert fitted(Line(head + "one two three four", hang=len(head)), 40) == [head.rstrip(), "      one two three four"]
