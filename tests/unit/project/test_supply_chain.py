# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of the image is that of the lock, and an audit never passes over what it does not know in silence."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from tests.collection_path import CHECKOUT

LOCKS = CHECKOUT / "requirements"


@pytest.mark.slow
def test_the_bill_of_materials_names_every_package_of_the_image_with_its_hashes() -> None:
    subprocess.run(["make", "--no-print-directory", "sbom"], cwd=CHECKOUT, check=True, capture_output=True)
    bill = json.loads((CHECKOUT / ".build" / "sbom" / "mesh-operator.cdx.json").read_text(encoding="utf-8"))
    text = "".join((LOCKS / f"{name}.txt").read_text(encoding="utf-8") for name in ("operator", "image"))
    locked = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", text))
    named = {part["name"]: part["version"] for part in bill["components"]}
    hashes = [entry["content"] for part in bill["components"] for where in part["externalReferences"] for entry in where["hashes"]]
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "mesh-operator")
    assert named == locked and {"ansible-core", "dumb-init"} <= named.keys()
    assert sorted(hashes) == sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", text))


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit_of_locks", LOCKS / "audit.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the annotations
    spec.loader.exec_module(module)
    return module


def answer(*rows: dict[str, Any]) -> str:
    return json.dumps({"dependencies": rows, "fixes": []})


FINE = {"name": "a", "version": "1", "vulns": []}
HOLED = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"], "aliases": [], "description": "x"}]}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found and could not be audited: c (1)"}


def test_a_known_vulnerability_is_named_with_the_version_that_fixes_it(audit: ModuleType) -> None:
    verdict = audit.verdict_of(answer(FINE, HOLED), "", 1)
    assert (verdict.checked, verdict.vulnerable, verdict.away) == (2, ("b 2: PYSEC-1, fixed in 3",), "")


def test_a_package_that_alone_is_unknown_is_reported_and_an_index_that_knows_none_is_away(audit: ModuleType) -> None:
    assert audit.verdict_of(answer(FINE, SKIPPED), "", 0).unknown
    assert "of none of 1 packages" in audit.verdict_of(answer(SKIPPED), "", 0).away


@pytest.mark.parametrize(
    ("said", "away"),
    [
        ("requests.exceptions.ConnectionError: Max retries exceeded: Failed to resolve 'x'", True),
        ("ERROR: 503 Server Error: HTTP 503", True),
        ("pip_audit: error: unrecognized arguments: --x", False),
        ("", False),
    ],
)
def test_only_a_database_that_does_not_answer_is_no_failure(audit: ModuleType, said: str, away: bool) -> None:
    verdict = audit.verdict_of("", said, 1)
    assert (bool(verdict.away), bool(verdict.failed)) == (away, not away)


@pytest.mark.parametrize(
    ("stdout", "stderr", "status", "last"),
    [
        (answer(FINE), "", 0, "audit: 7 packages have no known vulnerability"),
        (answer(FINE, HOLED), "", 1, "audit: FAILED"),
        (answer(FINE, SKIPPED), "", 1, "audit: FAILED"),
        ("", "ConnectionError", 0, "audit: NOT DONE: the database of vulnerabilities does not answer (ConnectionError)"),
        ("", "something else", 1, "audit: FAILED"),
    ],
)
def test_the_last_line_says_whether_it_was_done(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stdout: str, stderr: str, status: int, last: str
) -> None:
    monkeypatch.setattr(audit, "audit", lambda lock: audit.verdict_of(stdout, stderr, status))
    monkeypatch.setattr(sys, "argv", ["audit.py"])
    assert audit.main() == status
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_every_lock_is_audited(audit: ModuleType) -> None:
    assert set(audit.LOCKS) == {path.stem for path in LOCKS.glob("*.txt")}
