# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every command in the pages of the way in is run by a test, or is named with the reason why not."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.collection_path import CHECKOUT
from tests.lab import __main__ as lab_program
from tests.lab.addresses import NETWORK
from tests.lab.control import LabError
from tests.lab.options import LabOptions
from tests.testing import page_commands
from tests.testing.page_commands import FOLLOWED, NOT_RUN, PAGES, RUN_BY, TABLES, other_commands, table_commands
from tests.testing.rows import one_test
from tests.testing.tutorial import blocks_of


def in_tables() -> set[str]:
    return {command for page in TABLES for command in table_commands(page)}


def held_by(test: str) -> list[str]:
    """Return the commands that are held by a test of this file."""
    return [command for command, by in RUN_BY.items() if by == f"tests/unit/project/{Path(__file__).name}::{test}"]


@one_test("page", *PAGES)
def test_every_command_is_run_by_a_test_or_named_with_the_reason_why_not(page: str) -> None:
    assert other_commands(page) - {*in_tables(), *RUN_BY, *NOT_RUN} == set(), f"name it in {page_commands.__name__}: RUN_BY or NOT_RUN"


def test_no_command_is_named_that_no_page_has_or_twice() -> None:
    of_pages = {command for page in PAGES for command in other_commands(page)} | in_tables()
    assert len(of_pages) > 50
    assert {*RUN_BY, *NOT_RUN} <= of_pages and not RUN_BY.keys() & NOT_RUN.keys() and not in_tables() & NOT_RUN.keys()
    assert all(reason.endswith(".") and len(reason.split()) > 5 for reason in NOT_RUN.values())


def test_every_command_of_a_table_is_a_playbook() -> None:
    assert {command.split()[0] for command in in_tables()} <= {path.stem for path in (CHECKOUT / "playbooks").glob("*.yml")}


@one_test("command", *RUN_BY)
def test_what_runs_a_command_exists_and_has_its_words(command: str) -> None:
    place, _, function = RUN_BY[command].partition("::")
    text = (CHECKOUT / place).read_text(encoding="utf-8")
    if place in FOLLOWED:
        assert any(
            re.search(rf"cilium_mesh\.{command}(?: -e .*)?$", block.text, re.MULTILINE)
            for block in blocks_of(text)
            if block.kind == "shell"
        )
        return
    body = re.search(rf"(?m)^def {function}\(.*\n(?:(?:[ )].*)?\n)+", text)
    assert body is not None, RUN_BY[command]
    if command in in_tables():
        assert {f'"{command.split()[0]}"', *re.findall(r"\b\w+(?==)", command)} <= set(re.findall(r'"\w+"|\w+', body[0])), command


@pytest.mark.parametrize(
    "page",
    [
        "Run:\n\n    mesh-new up  # once\n",
        "```sh\n# first\nmesh-new up    # once\n```\n",
        "```shell\nmesh-new up\n```\n",
        "Then `make mesh-new`.\n",
        "```sh\nansible-playbook -i clusters.yml -e @mesh.yml edge_portal.cilium_mesh.mesh_new\n```\n",
    ],
)
def test_a_new_command_is_noticed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text(f"# A\n\nText.\n\n{page}", encoding="utf-8")
    known = in_tables()
    monkeypatch.setattr(page_commands, "CHECKOUT", tmp_path)
    found = other_commands("README.md")
    assert len(found) == 1 and not found & {*known, *RUN_BY, *NOT_RUN}


def test_a_target_of_make_that_a_page_names_exists() -> None:
    named = [command for command in (*RUN_BY, *NOT_RUN) if command.startswith("make ")]
    assert {*held_by("test_a_target_of_make_that_a_page_names_exists"), "make demo", "make test"} <= set(named)
    for command in named:
        done = subprocess.run([*command.split(), "--dry-run"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_page_installs_the_packages_that_the_collection_needs() -> None:
    one_by_one, by_file = held_by("test_a_page_installs_the_packages_that_the_collection_needs")
    place = by_file.rpartition("/edge_portal/cilium_mesh/")[2]
    needed = re.findall(r"(?m)^[\w-]+", (CHECKOUT / place).read_text(encoding="utf-8"))
    installed = [re.split("[>=]", word)[0] for word in shlex.split(one_by_one)[2:]]
    assert sorted(installed) == sorted(["ansible-core", *map(str.lower, needed)])


def test_the_lab_takes_the_arguments_that_a_page_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[LabOptions] = []

    def stop(options: LabOptions, **_: object) -> None:
        asked.append(options)
        raise LabError("far enough")

    monkeypatch.setattr(lab_program, "resolve", stop)
    commands = held_by("test_the_lab_takes_the_arguments_that_a_page_gives_it")
    for command in commands:
        program, arguments = command.split(" -m tests.lab ")
        assert program == ".venv/bin/python" and lab_program.main(shlex.split(arguments)) == 1
    assert [options.names for options in asked] == [("cluster-ffm-1", "cluster-ber-2")] * len(commands)


def test_a_page_writes_the_variable_that_clusters_of_the_lab_need(tmp_path: Path) -> None:
    for command in held_by("test_a_page_writes_the_variable_that_clusters_of_the_lab_need"):
        subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    written = yaml.safe_load((tmp_path / "group_vars" / "all.yml").read_text(encoding="utf-8"))
    assert written == {"cilium_mesh_endpoint_networks": [NETWORK]}


def test_kubectl_is_given_names_of_kinds() -> None:
    kinds = [
        yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]["names"] for path in (CHECKOUT / "operator/deploy/crds").glob("*.yaml")
    ]
    names = {name for kind in kinds for name in (kind["plural"], kind["singular"])}
    commands = held_by("test_kubectl_is_given_names_of_kinds")
    assert commands and {name for command in commands for name in command.split()[2].split(",")} <= names
