# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A machine without the Python packages that the engine needs: one error that says which and what to do, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base import optional_imports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import MissingLibrary
from tests.collection_path import CHECKOUT, link
from tests.testing.missing_packages import environment_without
from tests.testing.playbooks import run_playbook

PACKAGES = {
    "cryptography": "cryptography",
    "kubernetes": "kubernetes",
    "urllib3": "urllib3",
    "websocket": "websocket-client",
    "yaml": "PyYAML",
}
PLUGINS = "ansible_collections.edge_portal.cilium_mesh.plugins"

IMPORT_ALL = """
import importlib, json, sys
for name in json.load(sys.stdin):
    importlib.import_module(name)
"""

USE = """
from datetime import UTC, datetime
from {plugins}.module_utils.mesh.x509.certificates import Issuer, parse
from {plugins}.module_utils.base.errors import MeshError
from {plugins}.module_utils.kube.client import open_cluster
from {plugins}.module_utils.kubeconfig.access import ClusterAccess
from {plugins}.module_utils.observe import observe
access = ClusterAccess(host="c1", kubeconfig={{"clusters": []}}, context=None)
for use in (lambda: open_cluster(access), lambda: observe([access]), lambda: parse(b"x"), lambda: Issuer(b"x", b"y")):
    try:
        use()
    except MeshError as error:
        print(error.code, *str(error).splitlines())
"""


@pytest.fixture
def without(tmp_path: Path) -> Any:
    """Environment of a Python that lacks the given packages (import names)."""

    return partial(environment_without, tmp_path)


def python(program: str, environment: dict[str, str], text: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([environment["PYTHONPATH"], str(link())])
    return subprocess.run(
        [sys.executable, "-c", program], input=text, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )


def modules() -> list[str]:
    files = (CHECKOUT / "plugins").rglob("*.py")
    parts = (path.relative_to(CHECKOUT / "plugins").with_suffix("").parts for path in files)
    return sorted(".".join([PLUGINS, *(part for part in names if part != "__init__")]) for names in parts)


@pytest.mark.slow
def test_every_file_of_the_collection_is_imported_without_them(without: Any) -> None:
    names = modules()
    assert {f"{PLUGINS}.module_utils.kube.client", f"{PLUGINS}.action.mesh_connect", f"{PLUGINS}.inventory.clusters"} <= set(names)
    engine = [name for name in names if name.startswith(f"{PLUGINS}.module_utils.")]
    run = python(IMPORT_ALL, without(*PACKAGES), json.dumps(engine))
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    packages = set(PACKAGES) - {"yaml"}  # ansible-core does not start without it
    run = python(IMPORT_ALL, without(*packages), json.dumps(names))
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_the_first_use_of_the_engine_names_the_package_and_the_interpreter(package: str, without: Any) -> None:
    run = python(USE.format(plugins=PLUGINS), without(package))
    opened, observed = run.stdout.splitlines()[:2]
    assert (
        opened
        == observed
        == (
            f"CM-ENV-01 {sys.executable} cannot import the Python package {PACKAGES[package]}: No module named '{package}'. "
            f"Install what is missing there: {sys.executable} -m pip install {PACKAGES[package]}"
        )
    )


def test_all_that_is_missing_is_named_at_once_wherever_it_is_noticed(without: Any) -> None:
    run = python(USE.format(plugins=PLUGINS), without(*PACKAGES))
    assert run.returncode == 0, run.stderr
    said = run.stdout.splitlines()
    assert len(said) == 4 and len(set(said)) == 1
    assert said[0].endswith("-m pip install PyYAML cryptography kubernetes urllib3 websocket-client")


@pytest.mark.slow
def test_a_playbook_ends_with_that_error_and_with_a_result(without: Any) -> None:
    hosts = {name: {"cilium_mesh_kubeconfig": "nowhere", "ansible_connection": "local"} for name in ("c1", "c2")}
    mesh = {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}, {"name": "c2"}]}}
    run = run_playbook(
        "connect", inventory={"all": {"hosts": hosts}}, variables={"cilium_mesh": mesh}, environment=without("kubernetes", "websocket")
    )
    assert run.rc not in (0, None), run.output
    assert "Traceback" not in run.output
    assert run.finding_codes() == ["CM-ENV-01"], run.output
    assert run.mesh_result is not None and run.mesh_result["changed"] is False
    assert "-m pip install kubernetes websocket-client" in " ".join(run.output.split())


def test_a_stand_in_serves_wherever_a_name_of_a_library_may_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_imports, "_missing", {})
    missing = optional_imports.optional("no_such_package.and_its_module")
    assert not missing and not missing.attribute
    assert not isinstance(3, missing.Class)

    assert (missing.Class | None) is not None
    base: Any = missing.Class

    class Derived(base):  # type: ignore[misc]  # what stands in has no type
        pass

    with pytest.raises(ValueError):
        try:
            raise ValueError
        except (missing.errors.Problem, OSError):
            pass
    for use in (missing, missing.function, missing.Class.create, Derived, optional_imports.require):
        with pytest.raises(MissingLibrary, match="no_such_package"):
            use()


def test_a_library_of_few_runs_is_imported_at_its_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_imports, "_missing", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "seldom_used.py").write_text("VALUE = 3\n", encoding="utf-8")
    (tmp_path / "half_installed.py").write_text("import no_such_package\n", encoding="utf-8")
    seldom, half = optional_imports.deferred("seldom_used"), optional_imports.deferred("half_installed")
    missing = optional_imports.deferred("no_such_package.and_its_module")
    assert "seldom_used" not in sys.modules
    assert seldom.VALUE == 3 and "seldom_used" in sys.modules
    for use in (lambda: half.VALUE, missing.function, optional_imports.require):
        with pytest.raises(MissingLibrary, match="no_such_package"):
            use()


def imported_by(*actions: str) -> set[str]:
    """Packages, and packages of the collection's module_utils, that a new Python has after it imported these actions."""
    imports = "\n".join(f"import {PLUGINS}.action.{name}" for name in actions)
    code = f"import sys\n{imports}\nprint(*sys.modules)"
    run = [sys.executable, "-c", code]
    found = subprocess.run(run, env={**os.environ, "PYTHONPATH": str(link())}, check=True, capture_output=True, text=True).stdout.split()
    own = f"{PLUGINS}.module_utils."
    return {name.removeprefix(own).partition(".")[0] for name in found}


def test_no_action_imports_the_kubernetes_package_before_it_needs_it() -> None:
    """It takes as long as half of everything else: only tokens of OIDC, and proxies that the environment names, need it."""
    found = imported_by(*sorted(path.stem for path in (CHECKOUT / "plugins" / "action").glob("*_*.py")))
    assert found.isdisjoint({"kubernetes", "requests", "pydantic"}) and "urllib3" in found


def test_connecting_imports_nothing_of_items_fleets_and_reports() -> None:
    others = {"policies", "exposure", "reconcile", "probe", "fleet", "members", "rehearse", "reach", "explain", "upgrade", "gather", "rbac"}
    assert imported_by("mesh_connect") & others == set()
    assert imported_by("mesh_reconcile") & others == {"policies", "exposure", "reconcile", "probe"}


def test_a_library_that_is_there_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_imports, "_missing", {})
    assert optional_imports.optional("json") is json
    optional_imports.require()


def test_what_is_asked_for_is_what_the_collection_says_it_needs() -> None:
    """An execution environment is built from meta/ee-requirements.txt."""
    stated = (CHECKOUT / "meta" / "ee-requirements.txt").read_text(encoding="utf-8")
    needed = {line.partition(">")[0].lower() for line in stated.splitlines() if line and not line.startswith("#")}
    assert {name.lower() for name in PACKAGES.values()} <= needed
