# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every result that a unit test has an action or a pipeline make is held to the schema of results; no test trusts the machine."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Outcome
from tests.testing.result_schema import hold_to_schema, published_of

# A client without an authority of its own trusts those of the machine: to read them takes it 30 ms, and no test needs one of them.
os.environ.update(SSL_CERT_FILE=os.devnull, SSL_CERT_DIR=os.devnull)

_to_result = Outcome.to_result


def _held_to_the_schema(outcome: Outcome) -> dict[str, Any]:
    result = _to_result(outcome)
    hold_to_schema(published_of(result))
    return result


@pytest.fixture(autouse=True, scope="session")
def results_are_held_to_the_schema() -> None:
    setattr(Outcome, "to_result", _held_to_the_schema)  # noqa: B010 - mypy refuses to assign a method
