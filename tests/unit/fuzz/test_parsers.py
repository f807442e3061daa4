# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parsers of foreign bytes hold what tests/fuzz/parsers.py says of them, for each kept input and for mutations of these."""

from __future__ import annotations

import resource
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.mutations import mutated
from tests.fuzz.parser import CORPUS, Defect, Form, Parser
from tests.fuzz.parsers import PARSERS
from tests.testing.properties import examples
from tests.testing.rows import one_test


@pytest.mark.parametrize("name", PARSERS)
def test_kept_inputs_raise_nothing_unexpected_and_stay_in_bounds(name: str) -> None:
    parser = PARSERS[name]
    assert parser.corpus, "it has no kept input"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in parser.corpus:
        parser.check(path.read_bytes())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10  # KiB -> MiB
    assert grown <= parser.memory


@pytest.mark.parametrize("name", PARSERS)
def test_mutations_of_kept_inputs_raise_nothing_unexpected_and_stay_in_bounds(name: str) -> None:
    parser = PARSERS[name]
    corpus = [path.read_bytes() for path in parser.corpus]

    @examples(parser.tries)
    @given(seed=st.integers(0, 2**32))
    def holds(seed: int) -> None:
        parser.check(mutated(Random(seed), corpus, parser.form))

    holds()


@one_test("name", *PARSERS)
def test_at_least_one_kept_input_is_accepted_so_that_mutations_get_past_the_first_check(name: str) -> None:
    parser = PARSERS[name]

    def accepted(data: bytes) -> bool:
        try:
            return parser.parse(data) is not None
        except parser.raises:
            return False

    assert any(accepted(path.read_bytes()) for path in parser.corpus)


def test_the_corpus_has_a_folder_for_each_parser_and_no_other() -> None:
    assert {path.name for path in CORPUS.iterdir()} == PARSERS.keys()


@pytest.mark.parametrize(
    ("parse", "words"),
    [
        (lambda data: 1 / 0, "ZeroDivisionError"),
        (lambda data: "x" * 10**6, "characters come of"),
        pytest.param(lambda data: sum(range(3 * 10**7)), "of CPU time", marks=pytest.mark.slow),
    ],
)
def test_a_parser_that_breaks_a_promise_is_a_defect(parse: object, words: str) -> None:
    parser = Parser(name="own", writer="a test", files=(), parse=parse, seconds=0.2)  # type: ignore[arg-type]  # a function of each case
    with pytest.raises(Defect, match=words):
        parser.check(b"")


def test_mutations_are_the_same_for_the_same_seed_and_mostly_differ_from_what_they_were_made_of() -> None:
    for form, kept in ((Form.JSON, b'{"a": [1, {"b": "c"}]}'), (Form.YAML, b"a: [1, {b: c}]\n"), (Form.BYTES, b"abc")):
        made = [mutated(Random(seed), [kept], form) for seed in range(100)]
        assert made == [mutated(Random(seed), [kept], form) for seed in range(100)]
        assert len(set(made) - {kept}) > 60
