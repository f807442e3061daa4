# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pages say the same of how long the targets take, and it is what was measured."""

from __future__ import annotations

import json
import re

import pytest

from tests.collection_path import CHECKOUT
from tests.testing.run_times import BEGIN, END, MEASURED, PAGES, WHAT, block, with_block


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_block_that_is_made_of_the_measured_seconds(page: str) -> None:
    text, measured = (CHECKOUT / page).read_text(encoding="utf-8"), json.loads(MEASURED.read_text(encoding="utf-8"))
    assert with_block(text, block(measured)) == text, "python -m tests.testing.run_times writes it anew"
    assert measured["seconds"].keys() <= WHAT.keys()


def test_no_other_line_of_these_pages_says_how_long_a_target_takes() -> None:
    for page in PAGES:
        text = (CHECKOUT / page).read_text(encoding="utf-8")
        rest = text.partition(BEGIN)[0] + text.partition(END)[2]
        said = [line for line in rest.splitlines() if re.search(r"make (test|lint|sanity|molecule)|\.ci/run", line)]
        assert [line for line in said if re.search(r"\d+ (s|seconds|minutes)\b", line)] == []


def test_a_target_that_was_not_measured_is_said_to_be_so_and_a_page_without_marks_is_refused() -> None:
    text = block({"machine": "here", "seconds": {"make test": 310, "make test-fast": 58}})
    assert "5 minutes |" in text and "58 s |" in text and "not measured" in text and "How long, here" in text
    with pytest.raises(ValueError, match="the page lacks"):
        with_block("nothing", text)
