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
from pathlib import Path
from typing import Any, Final

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from tests.collection_path import CHECKOUT, link

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
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        data = load_yaml(path.read_text(encoding="utf-8"))
        found.append(Golden(path.stem, data["item"], data["service"], data.get("config") or {}, data["becomes"]))
    return found


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


class _Plain(yaml.SafeDumper):
    """Without aliases: each object is to be read by itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    data = load_yaml(text)
    golden = Golden(path.stem, data["item"], data["service"], data.get("config") or {}, [])
    body = {key: data[key] for key in ("item", "service", "config") if key in data} | {"becomes": compiled(golden)}
    path.write_text(head + yaml.dump(body, Dumper=_Plain, sort_keys=False, width=140), encoding="utf-8")


if __name__ == "__main__":
    link()
    for golden_file in sorted(FOLDER.glob("*.yaml")):
        _write(golden_file)
