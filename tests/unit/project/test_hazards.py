# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""docs/karmada-hazards.md names a test that exists for each hazard, and says of every other one that nothing holds it."""

from __future__ import annotations

import re
from typing import Final

from tests.collection_path import CHECKOUT
from tests.unit.project.test_promises import functions

PAGE: Final = CHECKOUT / "docs" / "karmada-hazards.md"
NAMED: Final = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
NOT_GUARDED: Final = "Not guarded"
ON_A_MODEL: Final = "Held on a model alone"
REAL: Final = ("tests/integration/", "tests/unit/fleet/test_fleet_goldens.py")
"""Where a test is that runs on a real Karmada, or holds byte for byte what one is given."""

KNOWN: Final = {
    "an OverridePolicy rewrites any field of any object": "T1",
    "an override takes over the object of another tenant": "T2",
    "an annotation beats Abort": "T3",
    "templates meet no admission": "T5 T6",
    "an object goes into a namespace that local users made": "N7",
    "a Cluster sends the token of a member to any address": "T12 T13 N9 N13",
    "a patch of a Secret shows it": "T14",
    "a label blocks deletions": "T4",
    "a selector without a name takes all": "T9",
    "a selector of labels matches clusters of others": "T7 N16",
    "Karmada has all rights in members": "N8",
    "namespaces go to all members": "T8",
    "names of Clusters are global and short": "T11",
    "two kinds of one name share a ResourceBinding": "T10",
    "tokens end": "J8 J9",
    "one cluster joins twice": "J1",
    "a join takes long if the Cluster comes first": "N5",
    "a member that leaves loses namespaces of local users": "J2",
    "a member that leaves loses its workloads": "J3",
    "rights stay in a member that left": "J4",
    "a join fails while the namespace before it goes": "J7",
    "a dead member leaves, and all stays in it": "J5 N4",
    "a preserved object keeps a dead member for ever": "J6",
    "an API server that is no Karmada looks empty": "J10",
    "statuses of an unreachable member stay good": "S1 S4 N1",
    "statuses of a suspended member stay good": "S3",
    "a report is about the template before": "S2",
    "a row of a cluster that left lingers": "N6",
    "a refusal has the text of the member": "S7",
    "an object exists in the member": "R15 N12",
    "a refused token looks like a dead member": "S8 N2",
    "a name that no Cluster has is no error": "S9",
    "a spread by zone is ignored": "S10",
    "defaults of a placement surprise": "U2",
    "no waves, no history, no order of reads": "R1 R2 R3",
    "two forms of suspension exclude each other": "R4",
    "a policy goes before its template": "R5",
    "another program deletes a policy": "R13",
    "a cluster that leaves a placement loses copies at once": "R8 N3",
    "objects of one workload are scheduled apart": "R16",
    "reports of kinds without a status are about anything": "N17",
    "nothing moves from a dead member, or back": "R6 R9",
    "failover of applications ends nowhere": "R7",
    "preserved objects become conflicts": "R10",
    "a MultiClusterService fools Cilium": "R11",
    "kinds that a member does not serve, or without interpreter": "R12",
    "controllers are dead and no status says so": "S5",
    "the API server is dead": "S6",
    "the webhook is dead": "R14",
    "labels that Karmada adds look like changes": "U3",
    "versions differ": "U1 N15",
}
"""Every hazard that was seen or read, and the numbers under which the page has it."""


def sections() -> dict[str, str]:
    """Text of each section, by its heading, in the order of the page."""
    _, *found = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(found[::2], found[1::2], strict=True))


def rows() -> list[list[str]]:
    """Cells of each hazard that a test holds."""
    return [row for name in sections() if name not in (NOT_GUARDED, ON_A_MODEL) for row in table(name)]


def table(section: str) -> list[list[str]]:
    """Cells of the table of a section."""
    lines = [line for line in sections()[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith(("| No. |", "| ---"))]


def not_guarded() -> list[str]:
    """Numbers of the hazards that no test holds."""
    return re.findall(r"^- \*\*(N\d+)\. ", sections()[NOT_GUARDED], flags=re.MULTILINE)


def test_every_test_that_the_page_names_exists() -> None:
    named = set(NAMED.findall(PAGE.read_text(encoding="utf-8")))
    assert len(named) > 40
    assert sorted((file, name) for file, name in named if not (CHECKOUT / file).is_file() or name not in functions(file)) == []


def test_every_hazard_says_what_stands_against_it_and_names_a_test() -> None:
    found = rows()
    assert len(found) > 40
    assert [row for row in found if len(row) != 4 or not all(row[:3]) or not NAMED.search(row[3])] == []
    assert [row[3] for row in found if NAMED.sub("", row[3]).strip(" ,")] == [], "nothing but names of tests, all of which are checked"


def test_every_hazard_that_is_known_is_on_the_page_and_every_one_of_the_page_is_known() -> None:
    numbers = [row[0] for row in rows()] + not_guarded()
    known = [number for found in KNOWN.values() for number in found.split()]
    assert sorted(numbers) == sorted(set(numbers)) == sorted(set(known))


def test_a_hazard_is_held_on_a_real_karmada_or_byte_for_byte_or_the_page_says_why_it_is_not() -> None:
    on_a_model = [row[0] for row in rows() if not any(file.startswith(REAL) for file, _ in NAMED.findall(row[3]))]
    explained = table(ON_A_MODEL)
    assert [row[0] for row in explained] == on_a_model
    assert [row for row in explained if len(row) != 2 or not row[1].endswith(".") or len(row[1]) < 40] == []


def test_what_no_test_holds_is_in_the_last_section_and_names_none() -> None:
    *_, last = sections()
    assert last == NOT_GUARDED
    assert "\n- **" in sections()[last] and not NAMED.search(sections()[last])
