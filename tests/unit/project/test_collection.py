# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the parts of the collection say of each other is true."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from tests.collection_path import CHECKOUT


def read(path: str) -> Any:
    return load_yaml((CHECKOUT / path).read_text(encoding="utf-8"))


def names(folder: str) -> set[str]:
    return {path.stem for path in (CHECKOUT / "plugins" / folder).glob("*.py") if path.stem != "__init__"}


def test_the_collection_has_modules() -> None:
    assert {"mesh_connect", "mesh_info", "mesh_status", "mesh_verify"} <= names("modules")


def test_every_action_is_documented_by_a_module_of_its_name_and_every_module_is_an_action() -> None:
    assert names("action") == names("modules")


def test_the_action_group_lists_every_module_in_order() -> None:
    group = read("meta/runtime.yml")["action_groups"]["cilium_mesh"]
    # mesh_publish looks at no cluster; a default of the group, as mesh, would be an unknown option to it.
    assert group == sorted({*names("modules")} - {"mesh_publish"})


@pytest.mark.parametrize("folder", ["action", "modules", "inventory", "doc_fragments"])
def test_files_that_ansible_loads_are_under_the_gpl(folder: str) -> None:
    for path in (CHECKOUT / "plugins" / folder).glob("*.py"):
        assert ": GPL-3.0-or-later\n" in path.read_text(encoding="utf-8"), path


def test_the_engine_imports_nothing_of_ansible() -> None:
    for path in (CHECKOUT / "plugins" / "module_utils").rglob("*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        offenders = [line for line in lines if line.lstrip().startswith(("import ansible", "from ansible"))]
        assert not offenders, f"{path}: {offenders}"


def test_the_oldest_ansible_that_is_promised_is_the_one_that_is_tested() -> None:
    assert read("meta/runtime.yml")["requires_ansible"] == ">=2.19.0"
    assert "ansible-core>=2.19," in (CHECKOUT / "requirements" / "dev.in").read_text(encoding="utf-8")


def test_roles_and_playbooks_that_users_are_promised_exist() -> None:
    for role in ("cilium_verify", "mesh_connect", "global_service", "network_policy", "exposed_service"):
        assert read(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]["main"]["short_description"]
    for playbook in ("verify", "connect", "disconnect", "status", "mesh", "services", "policies", "exposures", "fabric"):
        assert read(f"playbooks/{playbook}.yml"), playbook
