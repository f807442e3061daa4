# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of the statuses, for portals: docs/schemas/status, made from the CRDs.

python -m tests.testing.status_schemas --write
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from tests.collection_path import CHECKOUT
from tests.testing.crd_schema import schemas

FOLDER: Final = CHECKOUT / "docs" / "schemas" / "status"
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_KEPT: Final = ("type", "format", "description", "enum", "required", "pattern", "maxLength", "minimum", "maximum")


def status_schemas() -> dict[str, dict[str, Any]]:
    """File name -> schema of the status of a kind that has one."""
    found = {}
    pages = {**dict.fromkeys(schemas(), "operator-status.md"), **dict.fromkeys(schemas("fleet"), "fleet-kinds.md")}
    for kind, schema in (schemas() | schemas("fleet")).items():
        if "status" in schema["properties"]:
            head = {
                "$schema": _DRAFT,
                "title": f"Status of a {kind}",
                "description": f"What the operator writes; see docs/{pages[kind]}.",
            }
            found[f"{kind.lower()}.json"] = head | {
                key: value for key, value in _converted(schema["properties"]["status"]).items() if key != "description"
            }
    return found


def _converted(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A structural schema of Kubernetes as JSON schema: without its extensions, and with null as a type."""
    made = {key: schema[key] for key in _KEPT if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
    if schema.get("nullable"):
        made["type"] = [made["type"], "null"]
    if "properties" in schema:
        made["properties"] = {name: _converted(inner) for name, inner in schema["properties"].items()}
    if "items" in schema:
        made["items"] = _converted(schema["items"])
    if isinstance(schema.get("additionalProperties"), Mapping):
        made["additionalProperties"] = _converted(schema["additionalProperties"])
    elif "properties" in schema:
        made["additionalProperties"] = False
    return made


def text_of(schema: Mapping[str, Any]) -> str:
    """As the file has it."""
    return json.dumps(schema, indent=2) + "\n"


def main() -> int:
    for name, schema in status_schemas().items():
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text_of(schema), encoding="utf-8")
        print(FOLDER / name)
    return 0


if __name__ == "__main__":
    sys.exit(main() if sys.argv[1:] == ["--write"] else "Usage: python -m tests.testing.status_schemas --write")
