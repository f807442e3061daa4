# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Waivers of a binding: each has an effect until its end, and on nothing but what it names."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.registry import registered
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.waivers import LONGEST, Waiver, WaiverKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.judgement import options_for, waived_codes
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import ConnectOptions
from tests.testing.facts_builders import NOW, cluster_facts, context_of, mesh_of

ACCEPTABLE = sorted(code for code, check in registered().items() if check.acceptable)
ENDS = st.timedeltas(min_value=-timedelta(days=800), max_value=timedelta(days=800)).map(lambda delta: NOW + delta)
WAIVERS = st.lists(
    st.builds(
        Waiver,
        kind=st.sampled_from(WaiverKind),
        subject=st.sampled_from([*ACCEPTABLE, "c1", "c2"]),
        reason=st.just("a reason"),
        until=ENDS,
    ),
    max_size=6,
).map(tuple)


def binding(**spec: Any) -> dict[str, Any]:
    return {"binding": {"name": "m", "clusterRefs": [{"name": "c1"}, {"name": "c2"}], **spec}}


@given(WAIVERS, st.sampled_from(["auto", "minted"]), st.sampled_from(["", "copied"]))
def test_a_waiver_has_an_effect_until_its_end_and_on_what_it_names_alone(waivers: tuple[Waiver, ...], option: str, trust: str) -> None:
    given_options = ConnectOptions(trust=option, accept=("CM-VER-01",))
    found = options_for(mesh_of("c1", "c2", waivers=waivers, trust=trust), given_options, NOW)
    lives = [entry for entry in waivers if NOW < entry.until <= NOW + LONGEST]
    assert set(found.accept) == {"CM-VER-01", *(entry.subject for entry in lives if entry.kind is WaiverKind.ACCEPT)}
    assert set(found.take_back) == {
        entry.subject for entry in lives if entry.kind is WaiverKind.TAKE_BACK and entry.subject in ("c1", "c2")
    }
    assert found.repair is any(entry.kind is WaiverKind.REPAIR for entry in lives)
    assert found.trust == (option if option != "auto" else trust or "auto")
    rest = {"accept", "take_back", "repair", "trust"}
    assert {key: value for key, value in vars(found).items() if key not in rest} == {
        key: value for key, value in vars(given_options).items() if key not in rest
    }


@given(WAIVERS)
def test_every_waiver_that_has_ended_or_ends_soon_or_lasts_too_long_is_reported(waivers: tuple[Waiver, ...]) -> None:
    context = context_of(cluster_facts("c1"), cluster_facts("c2"), mesh=mesh_of("c1", "c2", waivers=waivers))
    found = [finding.code for finding in run_checks(context) if finding.code.startswith("CM-WAIV")]
    ends = {(entry.kind, entry.subject, entry.until) for entry in waivers}
    assert found.count("CM-WAIV-01") <= len(ends)
    assert ("CM-WAIV-01" in found) == any(until <= NOW for *_, until in ends)
    assert ("CM-WAIV-02" in found) == any(NOW < until <= NOW + timedelta(days=14) for *_, until in ends)
    assert ("CM-WAIV-03" in found) == any(until > NOW + LONGEST for *_, until in ends)


def test_an_accepted_finding_says_until_when_and_why() -> None:
    one, other = cluster_facts("c1", version="1.16.19"), cluster_facts("c2", version="1.20.2")
    waiver = Waiver(kind=WaiverKind.ACCEPT, subject="CM-VER-01", reason="moves on Sunday", until=NOW + timedelta(days=3))
    mesh = mesh_of("c1", "c2", waivers=(waiver,))
    context = context_of(one, other, mesh=mesh)
    context = replace(context, accept=frozenset(options_for(mesh, ConnectOptions(), NOW).accept))
    (found,) = (finding for finding in run_checks(context) if finding.code == "CM-VER-01")
    assert found.accepted
    assert not found.blocks
    assert found.evidence.endswith(f"accepted until {waiver.until:%Y-%m-%d}: moves on Sunday")


def test_a_time_without_quotes_is_a_time() -> None:
    """YAML makes a datetime of it, and a date of a day."""
    for given_time, meant in (
        (datetime(2027, 1, 31, 12, tzinfo=UTC), datetime(2027, 1, 31, 12, tzinfo=UTC)),
        (datetime(2027, 1, 31, 12), datetime(2027, 1, 31, 12, tzinfo=UTC)),
        (date(2027, 1, 31), datetime(2027, 1, 31, tzinfo=UTC)),
    ):
        mesh = parse(binding(repair={"reason": "a", "until": given_time}), ["c1", "c2"])
        assert mesh.binding.waivers == (Waiver(kind=WaiverKind.REPAIR, reason="a", until=meant),)


def test_what_is_wrong_with_a_waiver_is_named_with_its_place() -> None:
    waiver = {"reason": "a", "until": "2027-01-31T00:00:00Z"}
    with pytest.raises(InvalidInput) as refused:
        parse(
            binding(
                accept=[{"code": "CM-CIDR-02", **waiver}, {"code": "CM-CIDR-02", **waiver}],
                takeBack=[{"cluster": "c3", **waiver}],
                adopt={"reason": "a", "until": "2027-02-30T00:00:00Z"},
            ),
            ["c1", "c2", "c3"],
        )
    assert "binding.accept[1].code" in str(refused.value)
    assert "binding.takeBack[0].cluster" in str(refused.value)
    assert "binding.adopt.until" in str(refused.value)


def test_a_waiver_of_a_finding_that_only_a_roll_of_the_ca_has_stops_no_run_that_connects() -> None:
    waiver = Waiver(kind=WaiverKind.ACCEPT, subject="CM-CA-04", reason="a", until=NOW + timedelta(days=1))
    mesh = mesh_of("c1", "c2", waivers=(waiver,))
    assert options_for(mesh, ConnectOptions(), NOW).accept == ()
    assert waived_codes(mesh, NOW) == {"CM-CA-04"}
    assert waived_codes(mesh, NOW + timedelta(days=1)) == frozenset()
