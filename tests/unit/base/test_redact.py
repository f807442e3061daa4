# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Foreign text becomes fit to print."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import MASK, mask, one_line
from tests.testing.made_certificates import make
from tests.testing.rows import in_one_test, one_test

PEM = make("x").key.decode()
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJlLWNhbmFyeQ"


@in_one_test
@pytest.mark.parametrize(
    "text",
    [
        PEM,
        PEM[:90],
        *(f"failed with {JWT} in it", "Authorization: Bearer canary-token-1", "dial https://root:canary@10.0.0.1:2379 failed"),
        *('password: "canary"', "token=canary", f"data {'QUJD' * 20} end"),
    ],
    ids=["pem", "half-a-pem", "jwt", "bearer", "url", "password", "token", "base64"],
)
def test_secrets_are_masked(text: str) -> None:
    shown = mask(text)
    assert MASK in shown
    for part in ("canary", PEM[40:80], "eyJzdWI", "QUJDQUJD"):
        assert part not in shown


def test_ordinary_sentences_stay_as_they_are() -> None:
    text = 'dial tcp 10.0.0.1:2379: connect: connection refused (cluster "c1", CN=Cilium CA)'
    assert one_line(text) == text


def test_terminal_escapes_bidi_overrides_and_new_lines_do_not_survive() -> None:
    assert one_line("a\x1b[31mred\nb\u202ec\u200bd\te\r\nf") == "a[31mred bcd e f"


def test_long_text_is_cut() -> None:
    assert one_line("ab " * 100, 10) == "ab ab a..."


@one_test("value", None, 3, True, ["x"], {"a": 1}, b"bytes")
def test_what_is_not_text_becomes_nothing(value: object) -> None:
    assert one_line(value) == ""


@given(st.text(), st.integers(4, 300))
def test_any_text_becomes_one_short_printable_line(text: str, limit: int) -> None:
    shown = one_line(text, limit)
    assert len(shown) <= limit
    assert not any(unicodedata.category(c).startswith("C") or c in "\n\r\u2028\u2029" for c in shown)
