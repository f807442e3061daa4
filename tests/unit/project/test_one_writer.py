# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Nothing is written to a mesh without its lock: every call of the pipeline that writes stands in a function that needs the lock."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT
from tests.testing.options import modules

PIPELINE: Final = CHECKOUT / "plugins" / "module_utils" / "pipeline"
WRITES: Final = {"apply", "apply_plan", "ClusterCopies", "lease_copies", "issue_token", "create", "merge_patch", "delete"}
"""Names by which something is written: the ports, what is behind them, and the methods of the client."""
GUARDED: Final = {("run.py", "apply_locked", "apply"), ("identity.py", "_record", "lease_copies")}
"""File, function and call: all places where the pipeline writes to a mesh. Each refuses to work without the lock."""
FLEET: Final = {("members.py", "_write_wave", "apply"), ("members.py", "_issue", "issue_token"), ("fleet.py", "_write", "apply")}
"""All places where it writes to a fleet, which has no lock: each write there has its own precondition (docs/decisions/0059)."""
RIGHTS: Final = {("rbac.py", "_written", "apply")}
"""Where it writes rights, which belong to no run of the mesh: each write has its own precondition."""
RUNS: Final = {
    *("_connect", "_carry_out", "_reconcile", "_decide_and_assign", "_judge_and_delete", "_renew", "_write", "identities"),
    "links_and_items",
}
"""Functions that take the lock before anything is shown or written."""
WRITING: Final = {
    *("mesh_adopt", "mesh_apply", "mesh_ca", "mesh_connect", "mesh_exposure", "mesh_identity", "mesh_items", "mesh_policy"),
    *("mesh_policy_replace", "mesh_reconcile", "mesh_service"),
}


def calls(name: str | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield (file, function, called name) of the calls in the pipeline."""
    for path in sorted(PIPELINE.glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    called = _called(node)
                    if called and name in (None, called):
                        yield path.name, function.name, called


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""


def test_the_pipeline_writes_only_where_the_lock_is_asked_for() -> None:
    assert {call for call in calls() if call[2] in WRITES} == GUARDED | FLEET | RIGHTS


def test_each_run_that_writes_takes_the_lock_first() -> None:
    assert {function for _, function, _ in calls("observation_stands")} == RUNS
    opened = {file for file, _, _ in calls("locked")}
    assert opened == {"adopt.py", "ca_roll.py", "connect.py", "identity.py", "items.py", "mesh.py", "replaced_policies.py", "trust.py"}
    assert {file for file, _, name in calls() if name in ("write", "apply_locked", "carry_out")} - {"run.py"} == opened


def test_no_action_writes_past_the_pipeline() -> None:
    for path in sorted(Path(CHECKOUT, "plugins").glob("action/*.py")):
        called = {_called(node) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))}
        assert not called & (WRITES | {"apply_locked", "write"}), path.name


def test_every_module_that_writes_has_the_options_of_the_lock_and_no_other_has() -> None:
    found = {name for name, options in modules().items() if {"lock_timeout", "lock_duration", "lock_holder"} <= set(options)}
    assert found == WRITING
