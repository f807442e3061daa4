# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Golden files of the fleet side, tests/unit/fleet/golden: for each row of the table of docs/fleet.md, what is written to Karmada for it.

``row`` is the first cell of the row, ``fleet`` the variable as a user writes it, and ``kinds`` the kinds whose writes are kept; without it,
all are. With ``earlier``, the variable with these keys in place of its own was carried out before, and clusters of ``lost`` have not been
Ready for ten minutes since.

``python -m tests.testing.fleet_goldens`` writes the outcome anew, for a reader to compare; a test holds that it is current.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from tests.collection_path import CHECKOUT, link

FOLDER: Final = CHECKOUT / "tests" / "unit" / "fleet" / "golden"
PAGE: Final = CHECKOUT / "docs" / "fleet.md"
LOST_FOR: Final = 600  # seconds
ROUNDS: Final = 4  # of runs until an earlier variable is carried out
# REUSE-IgnoreStart
HEADER: Final = (
    "# Copyright: Contributors to the edge_portal.cilium_mesh project\n"
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# `python -m tests.testing.fleet_goldens` writes `writes` anew.\n"
)
# REUSE-IgnoreEnd


def goldens() -> dict[str, dict[str, Any]]:
    """Name -> content of every golden file."""
    return {path.stem: load_yaml(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))}


def rows() -> list[str]:
    """Return the first cell of each row of the page's table of translations."""
    table = PAGE.read_text(encoding="utf-8").partition("| Field | Karmada |\n| --- | --- |\n")[2].partition("\n\n")[0]
    return [match[1].strip() for match in re.finditer(r"^\|([^|]*)\|", table, re.MULTILINE)]


def outcome(golden: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the next run writes, in its order."""
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, member_name
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.parse import parse_fleet
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.plan import plan_fleet
    from tests.testing.karmada_model import KarmadaModel

    def planned(fleet: Mapping[str, Any]) -> Any:
        request = parse_fleet(fleet, [fleet["karmada"]]).request
        assert not request.refused, request.refused
        return plan_fleet(request, model.facts(), fleet["karmada"]).plan.steps

    fleet = golden["fleet"]
    tenant = Tenant(fleet["workspace"], fleet.get("namespace", "default"))
    labels = {entry["name"]: {**entry.get("labels", {}), **tenant.labels_of(entry["name"])} for entry in fleet["clusters"]}
    model = KarmadaModel(tenant=tenant, members={member_name(tenant, name): own for name, own in labels.items()})
    for _ in range(ROUNDS if "earlier" in golden else 0):
        model.write(planned({**fleet, **golden["earlier"]}))
        model.settle()
    for name in golden.get("lost", ()):
        model.kill(member_name(tenant, name))
    model.wait(LOST_FOR)
    shown = [_shown(step) for step in planned(fleet)]
    return [entry for entry in shown if entry["body"].get("kind") in golden.get("kinds", (entry["body"].get("kind"),))]


def _shown(step: Any) -> dict[str, Any]:
    return {"method": step.action.method, "path": step.action.path, "body": _plain(step.action.body)}


def _plain(value: Any) -> Any:
    """Without versions of objects, which say nothing to a reader."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if key not in ("uid", "resourceVersion")}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _write(path: Path, golden: Mapping[str, Any]) -> None:
    inputs = {key: golden[key] for key in ("about", "row", "kinds", "earlier", "lost", "fleet") if key in golden}
    text = yaml.safe_dump({**inputs, "writes": outcome(golden)}, sort_keys=False, default_flow_style=None, width=140)
    path.write_text(HEADER + text, encoding="utf-8")


if __name__ == "__main__":
    link()
    for name, content in goldens().items():
        _write(FOLDER / f"{name}.yaml", content)
