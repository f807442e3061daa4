# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The options of modules, roles and playbooks come from one source each, and name the choices that the engine knows."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.signing import CA_DAYS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import ADDRESS_CHOICES, LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.trust_mode import AUTO, MODES, TRUST_CHOICES
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import RollStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.link_proof import PROOF_CHOICES
from tests.collection_path import CHECKOUT
from tests.testing.options import OWN, generators, modules, playbook_variables, playbooks, role_options, roles, used_by
from tests.testing.rows import in_one_test

PLUGINS = "ansible_collections.edge_portal.cilium_mesh.plugins"
CHOICES = {"trust": TRUST_CHOICES, "node_addresses": ADDRESS_CHOICES, "proof": PROOF_CHOICES, "stage": tuple(RollStage)}
"""Option -> what the engine knows, wherever an option of this name is."""


@in_one_test
@pytest.mark.parametrize("path", sorted(generators()), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_what_is_made_of_the_documentation_is_current(path: Any) -> None:
    assert path.read_text(encoding="utf-8") == generators()[path](), "run: python -m tests.testing.options --write"


def test_the_documentation_offers_the_choices_that_the_engine_knows() -> None:
    found = {
        (module, name): tuple(option["choices"]) for module, every in modules().items() for name, option in every.items() if name in CHOICES
    }
    assert {name for _module, name in found} == set(CHOICES)
    assert found == {(module, name): tuple(str(choice) for choice in CHOICES[name]) for module, name in found}


def test_defaults_of_the_documentation_are_those_of_the_engine() -> None:
    connect, ca = modules()["mesh_connect"], modules()["mesh_ca"]
    assert ca["ca_days"]["default"] == CA_DAYS
    for name in ("certificate_days", "renew_before_days", "trust", "node_addresses", "repair"):
        assert connect[name]["default"] == {**vars(PlanOptions()), **vars(LinkPolicy())}[name], name


def test_every_trust_mode_is_reported_with_its_meaning() -> None:
    said = " ".join(modules()["mesh_connect"]["trust"]["description"])
    assert [mode for mode in re.findall(r"V\((\w+)\)", said) if mode != AUTO] == list(MODES)
    shared = import_module(f"{PLUGINS}.doc_fragments._mesh").ModuleDocFragment.TRUST_MODE
    assert load_yaml(shared)["options"]["trust"]["choices"] == list(MODES)


def test_no_text_of_an_option_stands_twice() -> None:
    fragments = vars(import_module(f"{PLUGINS}.doc_fragments._mesh").ModuleDocFragment)
    texts = [load_yaml(text)["options"] for name, text in fragments.items() if name.isupper()]
    for path in (CHECKOUT / "plugins" / "modules").glob("*_*.py"):
        texts.append(load_yaml(import_module(f"{PLUGINS}.modules.{path.stem}").DOCUMENTATION).get("options") or {})
    seen: set[str] = set()
    for options in texts:
        for name, option in options.items():
            text = f"{name}: {option['description']}"
            assert text not in seen, text
            seen.add(text)


def test_every_variable_of_a_playbook_is_on_the_page_and_none_that_no_playbook_reads() -> None:
    listed = playbook_variables()
    assert {name for playbook in playbooks() for name in used_by(playbook)} <= set(listed)
    assert [name for name, row in listed.items() if not row["playbooks"] and not row["roles"]] == []
    assert set(load_yaml(OWN.read_text(encoding="utf-8"))) <= set(listed)


def test_every_variable_of_a_role_is_an_option_of_the_module_that_it_runs() -> None:
    for role in roles():
        tasks = (CHECKOUT / "roles" / role / "tasks" / "main.yml").read_text(encoding="utf-8")
        read = set(re.findall(rf"\b{role}_\w+", tasks)) - {f"{role}_result"}
        assert read == {name for name in role_options(role) if name.startswith(f"{role}_")}, role
