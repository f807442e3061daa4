# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The rights that the playbook rbac gives are enough for each function, none is superfluous, and a missing one is named at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.labs import AGENTS, CERTGEN, THREE_119, UNNAMED
from tests.integration.mesh_lab import MeshLab
from tests.integration.rights import NAME, ROLES, Hosts, Row, give, grant, rules_of
from tests.integration.shop import EXPOSURE, INTENT, SERVICE, furnish
from tests.testing.playbooks import PlaybookRun

ITEMS: Final[dict[str, list[dict[str, Any]]]] = {
    "globalServices": [SERVICE],
    "connectivityIntents": [INTENT, {**INTENT, "name": "frontend-anywhere", "policyMode": "Clusterwide"}],
    "exposedServices": [EXPOSURE],
}
LINKS: Final = {"mesh_connect_wait_timeout": 30}
QUESTION: Final = {
    "cilium_mesh_from": {"cluster": "c1", "namespace": "production", "name": "nginx"},
    "cilium_mesh_to": {"namespace": "production", "service": "nginx"},
    "cilium_mesh_port": "http",
}

Play = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Scenario:
    """What is done with the rights of one function.

    ``before`` runs as the administrator, ``again``: before each round. ``at_once``: one round names all without which the
    first run fails. ``beside``: a function whose rules are there from the start, since its own scenario tries them.
    """

    function: str
    plays: tuple[Play, ...]
    before: tuple[Play, ...] = ()
    again: bool = True
    items: bool = False
    at_once: bool = False
    beside: str = ""


EACH_KIND: Final = ("services", "policies", "exposures")
CONNECTED: Final[tuple[Play, ...]] = (("connect", {}),)
SCENARIOS: Final = {
    "verify": Scenario("verify", (("verify", {}), ("plan", {})), at_once=True),
    "status": Scenario("status", (("status", {}),), before=CONNECTED),
    "connect": Scenario("connect", (("connect", LINKS), ("disconnect", {})), before=(("disconnect", {}),)),
    "items": Scenario(
        "items",
        (*((playbook, {}) for playbook in EACH_KIND), *((playbook, {"absent": True}) for playbook in EACH_KIND)),
        before=CONNECTED,
        items=True,
    ),
    "explain": Scenario(
        "explain",
        (
            ("explain", QUESTION),
            ("reach", {}),
            ("envelope", {}),
            ("gather", {}),
            ("rehearse", {}),
            ("upgrade_check", {"cilium_mesh_upgrade_target": "1.20"}),
        ),
        before=CONNECTED,
        items=True,
    ),
}
HELD: Final = {"ca_sync_state": "rolled", "ca_sync_wait_timeout": 60}
ROLLED: Final = Scenario("ca", (("ca", {}), ("ca", HELD)), before=CONNECTED, again=False, beside="connect")
ASSIGNED: Final = Scenario("identity", (("identity", {"cluster_identity_policy": "assign"}),), again=False, beside="status")
SPARE: Final = frozenset({"pods/proxy"})
"""What a run does without where it is forbidden, and without a word: metrics are the cheaper of two ways to ask kvstoremesh."""

VERBS: Final = frozenset({"get", "list", "create", "patch", "delete"})
_FORBIDDEN: Final = re.compile(r"(?:forbids to |Grant |, )(\w+)(?: and (\w+))? (?:on )?([a-z]+(?:/[a-z]+)?)")
_LISTED: Final = re.compile(r"(\w+)(?: and (\w+))?(?: in namespace [\w-]+)?: (.*)")


def run(lab: MeshLab, play: Play, mesh: dict[str, Any], hosts: Hosts | None, place: Path) -> PlaybookRun:
    playbook, variables = play
    given = dict(variables)
    if given.pop("absent", False):
        mesh = {**mesh, **{kind: [] for kind in ITEMS}}
    if playbook == "gather":
        given["cilium_mesh_gather_path"] = str(place / "archive.tar.gz")
    return lab.play(playbook, mesh=mesh, hosts=hosts, **given)


def named(found: PlaybookRun) -> set[tuple[str, str]]:
    """Verb and resource of every right that a run says is missing: in sentences, and in the lines of a fix (``Forbidden.of_several``)."""
    rights = set()
    for line in (line for text in (found.output, *texts_of(found.mesh_result)) for line in text.splitlines()):
        listed = _LISTED.fullmatch(line.strip())
        if listed and listed[1] in VERBS:
            resources = [re.sub(r"^((?:pods/)?\w+).*", r"\1", entry) for entry in listed[3].split(", ")]
            rights |= {(verb, resource) for verb in listed.groups()[:2] for resource in resources}
        elif "forbid" in line or line.startswith("Grant "):
            rights |= {(verb, resource) for first, second, resource in _FORBIDDEN.findall(line) for verb in (first, second)}
    return {(verb, resource) for verb, resource in rights if verb in VERBS}


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for entry in value.values():
            yield from texts_of(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from texts_of(entry)
    elif isinstance(value, str):
        yield value


def prove(lab: MeshLab, place: Path, scenario: Scenario) -> None:
    """Begin with no right in the first cluster, and add those that the runs name, until they name none: then no rule is left over."""
    mesh = {**lab.mesh(), **(ITEMS if scenario.items else {})}
    cluster = lab.names[0]
    have: dict[str, list[Row]] = {kind: [] for kind in ROLES}
    if scenario.beside:
        grant(lab, place, [scenario.beside], mesh=mesh)
        have = {kind: rules_of(lab, cluster, kind) for kind in ROLES}
    hosts = grant(lab, place, [scenario.function], mesh=mesh)
    whole = {kind: rules_of(lab, cluster, kind) for kind in ROLES}
    have = {kind: [row for row in rules if row in whole[kind]] for kind, rules in have.items()}
    for number in range(40):
        give(lab, hosts, cluster, have)
        for play in scenario.before if scenario.again or not number else ():
            assert run(lab, play, lab.mesh(), None, place).rc == 0
        runs = [run(lab, play, mesh, hosts, place) for play in scenario.plays]
        wanting = set[tuple[str, str]]().union(*map(named, runs))
        if not wanting:
            break
        added = 0
        for kind, rules in whole.items():
            for row in rules:
                if row not in have[kind] and any(verb in row["verbs"] and resource in row["resources"] for verb, resource in wanting):
                    have[kind].append(row)
                    added += 1
        assert added, f"{sorted(wanting)} is forbidden, and no rule gives it"
        assert number < 1 or not scenario.at_once or runs[0].rc == 0, f"the first round did not name {sorted(wanting)}"
    for found in runs:
        assert found.rc == 0, found.output
    left = [row for kind in ROLES for row in whole[kind] if row not in have[kind] and not set(row["resources"]) <= SPARE]
    assert not left, f"the runs do without {left}"


@pytest.mark.lab(THREE_119, use=2)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_rights_of_a_function_are_enough_each_is_needed_and_a_missing_one_is_named(lab: MeshLab, tmp_path: Path, name: str) -> None:
    if SCENARIOS[name].items:
        furnish(lab)
    prove(lab, tmp_path, SCENARIOS[name])


@pytest.mark.lab(AGENTS)
def test_the_rights_for_clusters_whose_agents_dial(lab: MeshLab, tmp_path: Path) -> None:
    prove(lab, tmp_path, SCENARIOS["connect"])


@pytest.mark.lab(CERTGEN)
def test_the_rights_to_roll_a_ca_that_certgen_uses(lab: MeshLab, tmp_path: Path) -> None:
    prove(lab, tmp_path, ROLLED)


@pytest.mark.lab(THREE_119, use=2)
def test_the_rights_to_roll_a_ca(lab: MeshLab, tmp_path: Path) -> None:
    prove(lab, tmp_path, ROLLED)


@pytest.mark.lab(UNNAMED, use=3)
def test_the_rights_to_assign_a_name_and_an_id(lab: MeshLab, tmp_path: Path) -> None:
    """c1 and c2 are a mesh, and c3 has neither name nor id: its rights are those that are tried."""
    lab.names = ("c3", "c1", "c2")
    assert lab.play("connect", mesh=lab.mesh("c1", "c2")).rc == 0
    prove(lab, tmp_path, ASSIGNED)


@pytest.mark.lab(THREE_119, use=2)
def test_a_right_that_items_need_and_that_is_missing_stops_them_before_the_first_write(lab: MeshLab, tmp_path: Path) -> None:
    mesh = {**lab.mesh(), "globalServices": ITEMS["globalServices"]}
    found = lab.play("services", mesh=mesh, hosts=grant(lab, tmp_path, ["items"], mesh=mesh, without="endpointslices"))
    assert found.rc != 0 and "CM-API-03" in found.finding_codes(), found.output
    assert "list endpointslices" in found.output and not found.result["changed"]


@pytest.mark.lab(THREE_119, use=2)
def test_without_the_right_to_ask_the_readers_connect_does_not_wait_in_vain(lab: MeshLab, tmp_path: Path) -> None:
    found = lab.play("connect", hosts=grant(lab, tmp_path, ["connect"], without="pods/exec"), mesh_connect_wait_timeout=3600)
    assert found.rc != 0
    assert "pods/exec" in found.output, found.output
    assert {row["stage"] for row in found.result["status"]["binding"]["links"]} == {"unknown"}


@pytest.mark.lab(THREE_119, use=2)
def test_rights_are_predicted_written_once_narrowed_and_withdrawn(lab: MeshLab) -> None:
    """A role of the same name that others made is not touched."""

    def rbac(*arguments: str, **variables: Any) -> PlaybookRun:
        return lab.play("rbac", arguments=arguments, **{f"cilium_mesh_rbac_{key}": value for key, value in variables.items()})

    printed = rbac(functions=["verify"])
    assert printed.rc == 0 and not printed.changed and "resourceNames: [cilium-ca]" in printed.output
    assert not rules_of(lab, "c1", "Role")
    predicted = rbac("--check", "--diff", state="present")
    assert predicted.rc == 0 and predicted.changed and not rules_of(lab, "c1", "Role")
    made = rbac(state="present")
    assert made.rc == 0 and made.result["plan"]["steps"] == predicted.result["plan"]["steps"]
    assert rbac(state="present").changed == 0
    whole = rules_of(lab, "c1", "Role")
    narrowed = rbac(state="present", functions=["status"])
    assert narrowed.rc == 0 and {step["verb"] for step in narrowed.result["plan"]["steps"]} == {"patch"}
    assert 0 < len(rules_of(lab, "c1", "Role")) < len(whole)
    gone = rbac(state="absent")
    assert gone.rc == 0 and not rules_of(lab, "c1", "Role") and not rules_of(lab, "c1", "ClusterRole")

    foreign = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": NAME}, "rules": []}
    lab.api("c1").create(foreign)
    refused = rbac(state="present")
    assert refused.rc != 0 and refused.finding_codes() == ["CM-RBAC-03"], refused.output
    assert not rules_of(lab, "c2", "Role"), "nothing is written anywhere"
