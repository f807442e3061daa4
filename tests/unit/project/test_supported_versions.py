# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The range of Cilium versions is stated once, in mesh/versions/minors.py. README, docs and lab say the same."""

from __future__ import annotations

import re

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import KNOWN, SUPPORTED, CiliumVersion
from tests.collection_path import CHECKOUT
from tests.lab.options import PROFILES
from tests.lab.profiles.charts import CHARTS
from tests.testing.rows import one_test

STATEMENTS = {
    "README.md": (f"Cilium {SUPPORTED}",),
    "docs/lab.md": (f"`{SUPPORTED.first}` to `{SUPPORTED.last}`",),
    "docs/policies.md": (f"from Cilium {SUPPORTED.first}",),
    "docs/policy-evaluation.md": (f"before {SUPPORTED.first} and after {SUPPORTED.last}", f"{SUPPORTED} with both values"),
    "docs/quickstart.md": (f"Cilium {SUPPORTED.first} or newer",),
    "docs/verify.md": (f"Cilium {SUPPORTED}", f"{KNOWN}"),
    "docs/runbooks/CM-VER-03.md": (f"older than {KNOWN.first} or newer than {KNOWN.last}", f"{KNOWN}"),
}
"""Page -> what it says of the range, word for word."""


@one_test("page", *STATEMENTS)
def test_a_page_states_the_range_that_the_code_supports(page: str) -> None:
    text = " ".join((CHECKOUT / page).read_text(encoding="utf-8").split())
    assert [statement for statement in STATEMENTS[page] if statement not in text] == []


def test_no_page_states_another_range() -> None:
    pages = [CHECKOUT / "README.md", *(CHECKOUT / "docs").glob("*.md")]
    stated = {found for page in pages for found in re.findall(r"Cilium (1\.\d\d to 1\.\d\d)", page.read_text(encoding="utf-8"))}
    assert stated == {str(SUPPORTED)}


def test_the_lab_plays_every_version_that_is_supported() -> None:
    assert tuple(str(minor) for minor in SUPPORTED.minors) == PROFILES
    for minor, chart in CHARTS.items():
        version = CiliumVersion.from_tag(chart.patch)
        assert version is not None and str(version.release) == minor
