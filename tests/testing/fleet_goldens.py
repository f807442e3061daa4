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
from typing import Any, Final

from tests.collection_path import CHECKOUT, link
from tests.testing.golden_files import contents, shown, write_anew

FOLDER: Final = CHECKOUT / "tests" / "unit" / "fleet" / "golden"
PAGE: Final = CHECKOUT / "docs" / "fleet.md"
LOST_FOR: Final = 600  # seconds
ROUNDS: Final = 4  # of runs until an earlier variable is carried out


def goldens() -> dict[str, dict[str, Any]]:
    """Name -> content of every golden file."""
    return contents(FOLDER)


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
    steps = [shown(step) for step in planned(fleet) if step.action.body.get("kind") in golden.get("kinds", (step.action.body.get("kind"),))]
    return [{key: step[key] for key in ("method", "path", "body")} for step in steps]


if __name__ == "__main__":
    link()
    for name, content in goldens().items():
        inputs: dict[str, Any] = {key: content[key] for key in ("about", "row", "kinds", "earlier", "lost", "fleet") if key in content}
        write_anew(FOLDER / f"{name}.yaml", {**inputs, "writes": outcome(content)}, default_flow_style=None)
