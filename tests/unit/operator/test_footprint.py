# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The estimate of memory is what CPython allocates, whatever the shape of a value."""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_operator.source.footprint import footprint

LEAST, MOST = 1 / 1.3, 2.0  # times what was allocated
TIMES = 5  # so many values are parsed, each from a text of its own as an event of a watch is
MANY = 2_000


def allocated(text: str) -> float:
    """Bytes that one value takes which is parsed from the text."""
    gc.disable()
    kept = [[{str(number): float(number)}, [number]] for number in range(200)]  # CPython keeps freed containers for the next ones
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        values = [json.loads(text) for _ in range(TIMES)]
        return (tracemalloc.get_traced_memory()[0] - before) / len(values)
    finally:
        tracemalloc.stop()
        gc.enable()
        kept.clear()


def check(value: Any) -> None:
    text = json.dumps(value)
    taken, estimate = allocated(text), footprint(json.loads(text))
    assert LEAST * taken <= estimate + 64 and estimate <= MOST * taken + 256, (estimate, taken, text[:200])


SHAPES: dict[str, Any] = {
    "empty objects": [{}] * MANY,
    "empty lists": [[[], []]] * MANY,
    "objects of one key": [{"a": 1}] * MANY,
    "objects of eleven keys": [{f"key-{number}": number for number in range(11)}] * 500,
    "small integers": [1] * MANY,
    "integers": [30_000] * MANY,
    "integers of 40 digits": [10**40] * MANY,
    "floats": [1.5] * MANY,
    "truth": [True, False, None] * MANY,
    "single characters": ["a"] * MANY,
    "single characters of Latin 1": ["\u00e9"] * MANY,
    "short texts": ["ab"] * MANY,
    "texts of Latin 1": ["\u00e9\u00e8 and more"] * MANY,
    "texts of two bytes a character": ["\u0431\u0432\u0433"] * MANY,
    "texts of four bytes a character": ["\U0001f600" * 20] * 500,
    "one long text": "x" * 500_000,
    "many keys": {f"k{number}": number for number in range(MANY)},
    "keys of two bytes a character": {f"\u0431{number}" * 20: 0 for number in range(500)},
    "an item with its status": {
        "metadata": {"name": "web", "namespace": "default", "annotations": {"kcp.io/cluster": "2k5m8k3p1q7z"}, "resourceVersion": "18342"},
        "spec": {"meshRef": {"name": "edge"}, "ports": [{"port": 8443, "protocol": "TCP"}] * 3},
        "status": {"phase": "Exported", "conditions": [{"type": "Ready", "status": "True", "message": "Every cluster has it."}] * 4},
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_estimate_is_what_a_value_takes(shape: str) -> None:
    check(SHAPES[shape])


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=40)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=12), inner, max_size=6))


@given(VALUES, st.integers(1, 200))
def test_the_estimate_is_what_a_value_of_any_shape_takes(value: Any, times: int) -> None:
    check([value] * times)
