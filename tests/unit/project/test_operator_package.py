# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator is a package of its own below a folder that is none, and its wheel is all that it needs of this project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from mesh_operator.base.kinds import GROUP, ROWS
from tests.collection_path import CHECKOUT, link

pytestmark = pytest.mark.slow

OPERATOR = CHECKOUT / "operator"
COLLECTION = Path("ansible_collections", "edge_portal", "cilium_mesh")


def collection_version() -> str:
    return str(yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["version"])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the wheel, unpacked."""
    target = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(OPERATOR)], check=True)
    return target


def said(installed: Path, *command: str) -> str:
    """What a program says that knows this project by the wheel alone."""
    home = installed / "home"
    home.mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(home), "PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd="/", env=environment, check=True, capture_output=True, text=True).stdout


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_the_folder_is_no_package_so_that_it_never_shadows_the_standard_module_operator() -> None:
    assert not (OPERATOR / "__init__.py").exists()
    code = "import operator, sys; sys.exit(not hasattr(operator, 'itemgetter'))"
    subprocess.run([sys.executable, "-S", "-c", code], cwd=CHECKOUT, check=True)


def test_the_installed_operator_says_the_version_of_the_collection(installed: Path) -> None:
    assert said(installed, sys.executable, "-m", "mesh_operator", "--version") == f"mesh-operator {collection_version()}\n"


def test_the_wheel_holds_what_runs_and_nothing_that_does_not(installed: Path) -> None:
    held = {path.name for path in (installed / COLLECTION).iterdir()}
    assert held == {"LICENSES", "README.md", "galaxy.yml", "meta", "playbooks", "plugins", "roles"}
    for folder in ("meta", "playbooks", "plugins", "roles"):
        assert files_of(installed / COLLECTION / folder) == files_of(CHECKOUT / folder)


def test_the_engine_of_the_wheel_is_the_one_that_the_operator_imports(installed: Path) -> None:
    code = "from mesh_operator.runs import runner; print(runner.COLLECTIONS_PATH)"
    assert said(installed, sys.executable, "-c", code).strip() == str(installed)


def test_the_wheel_holds_the_kinds(installed: Path) -> None:
    code = "from mesh_operator.crds import crds; print(*sorted(crd['spec']['names']['kind'] for crd in crds()))"
    assert said(installed, sys.executable, "-c", code).split() == sorted(row.kind for row in ROWS if row.group == GROUP)
    code = "from mesh_operator.manifests import print_manifests; print_manifests(['--profile', 'fleet', '--provider-path', 'root:x'])"
    assert "kind: FleetWorkload\n" in said(installed, sys.executable, "-c", code)


def test_ansible_finds_the_collection_of_the_wheel_by_itself(installed: Path) -> None:
    ansible_doc = Path(sys.executable).with_name("ansible-doc")
    page = said(installed, str(ansible_doc), "--type", "module", "edge_portal.cilium_mesh.mesh_connect")
    assert str(installed / COLLECTION) in page


def test_the_image_gets_what_the_package_asks_for_in_the_versions_that_are_tested() -> None:
    def pinned(name: str) -> set[str]:
        text = (CHECKOUT / "requirements" / name).read_text(encoding="utf-8")
        return set(re.findall(r"(?m)^[\w.-]+==[\w.]+", text))

    asked = tomllib.loads((OPERATOR / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {re.split("[<>=]", requirement)[0] for requirement in asked}
    image = pinned("operator.txt")
    assert image | pinned("operator-build.txt") <= pinned("dev.txt")
    assert names <= {line.split("==")[0] for line in image}


def test_the_operator_runs_without_ansible_in_its_own_process() -> None:
    """ansible-core is started by ansible-runner, in a child; in the operator itself it would be 60 MB without a use."""
    script = "import sys, mesh_operator.replica; sys.exit(int('ansible' in sys.modules))"
    path = os.pathsep.join((str(OPERATOR), str(link())))
    assert subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, check=False).returncode == 0
