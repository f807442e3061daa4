# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A portal that validates statuses by the published schemas takes every status that the operator writes, and no other field."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mesh_operator.base.kinds import BY_KIND
from tests.testing.crd_statuses import Made, statuses
from tests.testing.json_schema import validator
from tests.testing.rows import in_one_test
from tests.testing.status_schemas import FOLDER, status_schemas, text_of

SCHEMAS = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
PLAIN = validator.Draft202012Validator


def test_the_schemas_are_those_of_the_kinds() -> None:
    wanted = {name: text_of(schema) for name, schema in status_schemas().items()}
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert on_disk == wanted, "run python -m tests.testing.status_schemas --write"
    assert len(wanted) >= 10 and "fleetworkloadrevision.json" not in wanted
    for schema in SCHEMAS.values():
        PLAIN.check_schema(schema)


@in_one_test
@pytest.mark.parametrize("made", statuses(), ids=lambda made: f"{made.kind} {made.about}")
def test_every_status_that_is_written_is_valid(made: Made) -> None:
    PLAIN(SCHEMAS[f"{BY_KIND[made.kind].kind.lower()}.json"]).validate(made.status)


@pytest.mark.parametrize(
    "wrong", [{"phase": "Fine"}, {"phases": "Connected"}, {"conditions": [{"type": "Ready"}]}, {"observedGeneration": "1"}]
)
def test_what_is_no_status_is_not_valid(wrong: dict[str, Any]) -> None:
    good = {"phase": "Connected", "lastSyncTime": datetime.now(UTC).isoformat(), "conditions": []}
    validator = PLAIN(SCHEMAS["clustermeshbinding.json"])
    assert validator.is_valid(good) and not validator.is_valid(good | wrong)
