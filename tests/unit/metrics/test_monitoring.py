# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Alert rules, dashboard and page are made of the catalogue, and promtool runs the rules over histories."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE as FINDINGS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.catalogue import BY_NAME, CATALOGUE, LABELS, MetricKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.member_state import MemberState
from tests.collection_path import CHECKOUT
from tests.lab.tools.catalogue import PROMTOOL
from tests.lab.tools.provide import at_hand
from tests.testing.alerts import ALERTS, SEVERITIES, TARGET_LABELS
from tests.testing.dashboard import dashboard
from tests.testing.monitoring import CHART_RULES, DASHBOARD, PAGE, RUN_RULES, files
from tests.testing.rows import in_one_test

HERE: Final = Path(__file__).resolve().parent
SUFFIXES: Final = {MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"), MetricKind.GAUGE: ("",), MetricKind.COUNTER: ("",)}
SERIES: Final = {metric.name + suffix: metric for metric in CATALOGUE for suffix in SUFFIXES[metric.kind]}


@pytest.mark.parametrize("path", sorted(files()), ids=lambda path: path.name)
def test_what_is_made_of_the_catalogue_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], "run: make metrics"


def names_in(expr: str) -> set[str]:
    return set(re.findall(r"\b(?:mesh_operator|cilium_mesh)_\w+", expr))


def labels_in(expr: str) -> set[str]:
    grouped = {name.strip() for group in re.findall(r"\b(?:by|on|ignoring|without) \(([^)]*)\)", expr) for name in group.split(",")}
    return (grouped | set(re.findall(r'[{,]\s*(\w+)\s*(?:=~|!~|!=|=)\s*"', expr))) - {""}


def assert_known(expr: str, more: Iterable[str] = ()) -> None:
    used = names_in(expr)
    assert used and used <= set(SERIES), expr
    known = {label for name in used for label in SERIES[name].labels}
    assert labels_in(expr) <= known | set(more), expr


@in_one_test
@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_uses_metrics_labels_states_and_codes_that_exist(alert: Any) -> None:
    operator = alert.name.startswith("MeshOperator")
    assert_known(alert.expr, TARGET_LABELS if operator else ())
    assert all(name.startswith("mesh_operator_") is operator for name in names_in(alert.expr))
    assert set(re.findall(r'state="(\w+)"', alert.expr)) <= set(MemberState)
    for pattern in re.findall(r'code=~"([^"]+)"', alert.expr):
        assert all(any(re.fullmatch(part, code) for code in FINDINGS) for part in pattern.split("|")), pattern
    shown = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    assert shown <= {name for group in re.findall(r"\bby \(([^)]*)\)", alert.expr) for name in group.split(", ")}


def test_every_alert_has_a_severity_and_a_section_that_says_what_to_do() -> None:
    sections = dict(re.findall(r"^#### (\w+)\n\n(.*?)(?=\n#|\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(alert.name for alert in ALERTS)
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    for alert in ALERTS:
        assert alert.severity in SEVERITIES
        assert f"`{alert.severity}`" in sections[alert.name] and "What to do: " in sections[alert.name]
        for page in re.findall(r"\]\(([^)#]+)", alert.action):
            assert (CHECKOUT / "docs" / page).is_file(), page
    for path in (CHART_RULES, RUN_RULES):
        for rule in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"][0]["rules"]:
            assert rule["annotations"]["runbook"] == f"docs/metrics.md#{rule['alert'].lower()}"


def test_nothing_that_was_asked_for_pages() -> None:
    critical = {state for alert in ALERTS if alert.severity == "critical" for state in re.findall(r'state="(\w+)"', alert.expr)}
    assert critical == {MemberState.DOWN.value}


def test_the_dashboard_shows_every_metric_with_its_labels() -> None:
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    shown = set()
    for panel in panels:
        (target,) = panel["targets"]
        assert_known(target["expr"], ("le",))
        shown |= {SERIES[name].name for name in names_in(target["expr"])}
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(LABELS)
    assert shown == set(BY_NAME)
    places = {(x, y) for p in dashboard()["panels"] for x in range(p["gridPos"]["x"], p["gridPos"]["x"] + p["gridPos"]["w"])
              for y in range(p["gridPos"]["y"], p["gridPos"]["y"] + p["gridPos"]["h"])}  # fmt: skip
    assert len(places) == sum(p["gridPos"]["w"] * p["gridPos"]["h"] for p in dashboard()["panels"]), "panels overlap"
    assert max(x for x, _ in places) < 24
    assert json.loads(DASHBOARD.read_text(encoding="utf-8"))["uid"] == "edge-portal-cilium-mesh"


def test_the_catalogue_follows_the_conventions_of_prometheus() -> None:
    assert len(BY_NAME) == len(CATALOGUE)
    for metric in CATALOGUE:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name) and metric.meaning[0].isalnum()
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
        assert metric.name.endswith("_seconds") == (metric.unit == "seconds")
        assert set(metric.labels) <= set(LABELS)
    assert set(LABELS) == {label for metric in CATALOGUE for label in metric.labels}


def promtool() -> str:
    """promtool of PATH, else the one that was built for the deep run."""
    found = at_hand([PROMTOOL], print).get(PROMTOOL)
    if found is None:
        pytest.skip("promtool is not at hand (python -m tests.lab.tools build promtool builds it), so no rule runs over histories")
    return str(found.path)


@pytest.mark.slow  # the gate builds no promtool
@pytest.mark.parametrize("name", ["operator_histories.yml", "run_histories.yml"])
def test_the_rules_fire_over_histories_as_they_should(name: str) -> None:
    run = subprocess.run([promtool(), "test", "rules", name], cwd=HERE, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_alert_has_a_history_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    fires, silent = set[str](), set[str]()
    for name in ("operator_histories.yml", "run_histories.yml"):
        for history in yaml.safe_load((HERE / name).read_text(encoding="utf-8"))["tests"]:
            for row in history["alert_rule_test"]:
                (fires if row["exp_alerts"] else silent).add(row["alertname"])
    assert fires == {alert.name for alert in ALERTS}
    assert silent == {alert.name for alert in ALERTS}
