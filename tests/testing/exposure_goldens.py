# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Golden files of exposed services, tests/unit/exposure/golden: each has an item as a user writes it, the Service that it names, and the
objects that one cluster gets.

``python -m tests.testing.exposure_goldens`` writes the objects anew, for a reader to compare; tests hold that they are current, and that
real API servers with the CRDs take them as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.collection_path import CHECKOUT, link
from tests.testing.golden_files import contents, write_anew

FOLDER: Final = CHECKOUT / "tests" / "unit" / "exposure" / "golden"
HOST: Final = "c1"


@dataclass(frozen=True)
class Golden:
    """One file. ``config``: keys of cilium-config that are not as usual."""

    name: str
    item: Mapping[str, Any]
    service: Mapping[str, Any]
    config: Mapping[str, str]
    becomes: list[dict[str, Any]]


def goldens() -> list[Golden]:
    return [
        Golden(name, data["item"], data["service"], data.get("config") or {}, data["becomes"]) for name, data in contents(FOLDER).items()
    ]


def compiled(golden: Golden) -> list[dict[str, Any]]:
    """What the engine makes of it today."""
    from tests.testing.exposure_world import cluster, clusters, item, planned
    from tests.testing.facts_builders import cluster_facts
    from tests.testing.traffic_builders import service

    facts = {HOST: cluster_facts(HOST, config={"enable-gateway-api": "true", **golden.config})}
    given = dict(golden.service)
    found = service(str(given.pop("name")), **given)
    wanted = {key: value for key, value in golden.item.items() if key != "name"}
    _plans, steps = planned(clusters(cluster(HOST, services=[found]), facts=facts), item(str(golden.item["name"]), (HOST,), **wanted))
    return [dict(step.action.body) for step in steps]  # type: ignore[union-attr]  # every step of an item is an ApiWrite


if __name__ == "__main__":
    link()
    for golden in goldens():
        inputs = {"item": golden.item, "service": golden.service, **({"config": golden.config} if golden.config else {})}
        write_anew(FOLDER / f"{golden.name}.yaml", {**inputs, "becomes": compiled(golden)})
