# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Golden files of compiled intents, tests/unit/policies/golden: each has an intent as a user writes it, and what it becomes.

``python -m tests.testing.policy_goldens`` writes what it becomes anew, for a reader to compare; tests hold that it is current, and that
real API servers with Cilium's CRDs take it as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.collection_path import CHECKOUT, link
from tests.testing.golden_files import contents, write_anew

FOLDER: Final = CHECKOUT / "tests" / "unit" / "policies" / "golden"
NAMES: Final = {"cluster-ffm-1": "ffm-1", "cluster-ber-2": "ber-2", "cluster-muc-3": "muc-3"}
MEMBERS: Final = tuple(NAMES)
BINDING: Final = "edge-mesh-eu"
MINORS: Final = (15, 16, 17, 18, 19, 20)


@dataclass(frozen=True)
class Golden:
    """One file. ``versions``: minor -> the result, ``{refused: [...]}`` or ``{policies: {host: [object, ...]}}``."""

    name: str
    intent: Mapping[str, Any]
    versions: Mapping[str, Mapping[str, Any]]

    def policies(self, minor: str) -> list[dict[str, Any]]:
        """Objects for every cluster, in the order of the mesh; [] where the version cannot say it."""
        return [body for bodies in self.versions[minor].get("policies", {}).values() for body in bodies]


def goldens() -> list[Golden]:
    found = []
    for name, data in contents(FOLDER).items():
        same = data["becomes"]
        versions = {minor: same[entry] if isinstance(entry, str) else entry for minor, entry in data["versions"].items()}
        found.append(Golden(name, data["intent"], versions))
    return found


def compiled(intent: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the engine makes of the intent today, by minor."""
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import Minor
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.compile import CannotExpress, compile_intent
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.parse import parse_intent

    problems = Problems()
    spec = {key: value for key, value in intent.items() if key != "name"}
    parsed = parse_intent(problems, str(intent["name"]), spec, MEMBERS)
    assert parsed is not None and not problems.found, problems.found
    binding = Binding(name=BINDING, cluster_refs=MEMBERS)
    found: dict[str, dict[str, Any]] = {}
    for minor in MINORS:
        try:
            bodies = compile_intent(parsed, names=NAMES, members=MEMBERS, version=Minor(1, minor), binding=binding)
            found[f"1.{minor}"] = {"policies": {host: [dict(body) for body in entries] for host, entries in bodies.items()}}
        except CannotExpress as error:
            found[f"1.{minor}"] = {"refused": list(error.problems)}
    return found


def _content(intent: Mapping[str, Any]) -> dict[str, Any]:
    becomes: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    for minor, entry in compiled(intent).items():
        if "refused" in entry:
            versions[minor] = entry
            continue
        versions[minor] = next((name for name, known in becomes.items() if known == entry), f"since {minor}")
        becomes.setdefault(versions[minor], entry)
    return {"intent": intent, "versions": versions, "becomes": becomes}


if __name__ == "__main__":
    link()
    for golden in goldens():
        write_anew(FOLDER / f"{golden.name}.yaml", _content(golden.intent))
