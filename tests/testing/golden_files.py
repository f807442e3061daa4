# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Golden files: inputs that a person writes, and below them what the engine makes of these, written anew for a reader to compare."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml


class PlainDumper(yaml.SafeDumper):
    """Without aliases: each object is to be read by itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def contents(folder: Path) -> dict[str, dict[str, Any]]:
    """Name -> content of every golden file of a folder."""
    return {path.stem: load_yaml(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))}


def write_anew(path: Path, content: Mapping[str, Any], **style: Any) -> None:
    """Write a golden file below the comments at its head."""
    head = "".join(line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.startswith("#"))
    text = yaml.dump(dict(content), Dumper=PlainDumper, sort_keys=False, **{"width": 140, **style})
    path.write_text(head + text, encoding="utf-8")


def shown(step: Any) -> dict[str, Any]:
    """A write, in which cluster, and its body without versions of objects, which say nothing to a reader."""
    action = step.action
    return {"cluster": step.cluster, "method": action.method, "path": action.path, "body": without_versions(action.body)}


def without_versions(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: without_versions(item) for key, item in value.items() if key not in ("uid", "resourceVersion")}
    return [without_versions(item) for item in value] if isinstance(value, (list, tuple)) else value
