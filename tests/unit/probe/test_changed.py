# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Since when a policy is as it is: what agents write into its status is no change of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.traffic import object_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.intent_probe import last_change

MADE = "2026-09-01T10:00:00Z"


def policy(*entries: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "shop", "creationTimestamp": MADE, "managedFields": list(entries)}}


@pytest.mark.parametrize(
    ("entries", "when"),
    [
        ((), "10:00"),
        (({"manager": "us", "time": "2026-09-01T11:00:00Z"},), "11:00"),
        (({"manager": "us", "time": "2026-09-01T11:00:00Z"}, {"manager": "other", "time": "2026-09-01T11:30:00Z"}), "11:30"),
        (({"time": "2026-09-01T11:00:00Z"}, {"subresource": "status", "time": "2026-09-01T12:00:00Z"}), "11:00"),
        (({"manager": "us"}, "odd", {"time": 7}), "10:00"),
    ],
)
def test_the_last_change(entries: tuple[Any, ...], when: str) -> None:
    collection = "/apis/cilium.io/v2/ciliumnetworkpolicies"
    found = object_facts("CiliumNetworkPolicy", "ciliumnetworkpolicies", collection, policy(*entries))
    hour, minute = map(int, when.split(":"))
    assert last_change((found,)) == datetime(2026, 9, 1, hour, minute, tzinfo=UTC)


def test_without_a_policy_nothing_is_known() -> None:
    assert last_change(()) is None
