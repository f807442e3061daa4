# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Files made of the catalogue of metrics and the alerts: ``make metrics``, or ``python -m tests.testing.monitoring``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.catalogue import LABELS, OPERATOR, RUN, metrics_of
from tests.collection_path import CHECKOUT
from tests.testing.alerts import Alert, alerts_of
from tests.testing.dashboard import dashboard

PAGE: Final = CHECKOUT / "docs" / "metrics.md"
CHART_RULES: Final = CHECKOUT / "operator" / "deploy" / "chart" / "files" / "alerts.yaml"
RUN_RULES: Final = CHECKOUT / "operator" / "deploy" / "monitoring" / "run-alerts.yaml"
DASHBOARD: Final = CHECKOUT / "operator" / "deploy" / "monitoring" / "dashboard.json"
MARKS: Final = {name: (f"<!-- {name}: made by make metrics -->", f"<!-- end of {name} -->") for name in ("metrics", "alerts")}
_HEAD: Final = """---
# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
# Made by make metrics from tests/testing/alerts.py. Edit that instead. The alerts are explained in docs/metrics.md.
"""


def rules(alerts: tuple[Alert, ...], group: str) -> dict[str, Any]:
    """Return a rule file of Prometheus; its groups are those of a PrometheusRule, too."""
    return {"groups": [{"name": group, "rules": [_rule(alert) for alert in alerts]}]}


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": f"{alert.summary}.", "description": alert.meaning, "runbook": f"docs/metrics.md#{alert.name.lower()}"},
    }


def files() -> dict[Path, str]:
    """Return what each made file has to hold."""
    dump: Any = {"sort_keys": False, "width": 100, "allow_unicode": True}
    return {
        CHART_RULES: _HEAD + yaml.safe_dump(rules(alerts_of("MeshOperator"), "mesh-operator"), **dump),
        RUN_RULES: _HEAD + yaml.safe_dump(rules(alerts_of("Mesh"), "cilium-mesh-runs"), **dump),
        DASHBOARD: json.dumps(dashboard(), indent=2) + "\n",
        PAGE: page(PAGE.read_text(encoding="utf-8")),
    }


def page(text: str) -> str:
    """Return the page with its made parts replaced."""
    for name, lines in (("metrics", _metrics()), ("alerts", _alerts())):
        begin, end = MARKS[name]
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        text = "\n".join([before + begin, "", *lines, "", end + after])
    return text


def _metrics() -> Iterator[str]:
    for prefix, title in ((OPERATOR, "Of the operator"), (RUN, "Of a run")):
        yield from (f"### {title}", "", "| Metric | Type | Labels | Meaning |", "| --- | --- | --- | --- |")
        for metric in metrics_of(prefix):
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            yield f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.meaning} |"
        yield ""
    yield from ("### Labels", "", "| Label | Meaning |", "| --- | --- |")
    yield from (f"| `{label}` | {meaning} |" for label, meaning in LABELS.items())


def _alerts() -> Iterator[str]:
    for prefix, title in (("MeshOperator", "Of the operator"), ("Mesh", "Of runs")):
        yield f"### {title}: alerts"
        for alert in alerts_of(prefix):
            lasting = "at once" if alert.lasting == "0s" else f"after {alert.lasting}"
            yield from ("", f"#### {alert.name}", "", f"`{alert.severity}`, {lasting}. {alert.meaning}", "", f"What to do: {alert.action}")
        yield ""


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print("written:", path.relative_to(CHECKOUT))


if __name__ == "__main__":
    main()
