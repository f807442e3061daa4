# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Dashboard for Grafana, made of the catalogue: a panel for each metric, in two rows; panels for what matters first are wider."""

from __future__ import annotations

from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.metrics.catalogue import (
    OPERATOR,
    RUN,
    Metric,
    MetricKind,
    metrics_of,
)

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_UNITS: Final = {"seconds": "s"}
_WIDE: Final = ("members", "links", "findings", "member_state", "link_state")
_ROWS: Final = ((OPERATOR, "Operator"), (RUN, "Runs of playbooks (textfile)"))


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    for prefix, title in _ROWS:
        y = max((panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels), default=0)
        panels.append(_placed({"type": "row", "title": title, "collapsed": False, "panels": []}, len(panels), 0, y, 24, 1))
        x, y = 0, y + 1
        for metric in sorted(metrics_of(prefix), key=lambda metric: metric.name.removeprefix(prefix) not in _WIDE):
            width = 12 if metric.name.removeprefix(prefix) in _WIDE else 8
            if x + width > 24:
                x, y = 0, y + 8
            panels.append(_placed(_panel(metric, prefix), len(panels), x, y, width, 8))
            x += width
    return {
        "uid": "edge-portal-cilium-mesh",
        "title": "Cilium meshes",
        "tags": ["cilium", "cluster-mesh"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "mesh",
                    "label": "Mesh",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": f"label_values({RUN}run_success, mesh)",
                    "includeAll": True,
                    "multi": True,
                    "allValue": ".*",
                    "refresh": 2,
                },
            ]
        },
        "panels": panels,
    }


def _placed(panel: dict[str, Any], number: int, x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {"id": number + 1, "gridPos": {"x": x, "y": y, "w": width, "h": height}, **panel}


def _panel(metric: Metric, prefix: str) -> dict[str, Any]:
    said = metric.name.removeprefix(prefix).removesuffix("_total").removesuffix("_timestamp_seconds").replace("_", " ")
    table = metric.name.endswith("_state") or metric.name == f"{RUN}findings"
    target = {"refId": "A", "datasource": _SOURCE, "expr": query(metric), "legendFormat": _legend(metric)}
    kind = "table" if table else "timeseries"
    return {
        "type": kind,
        "title": said.capitalize(),
        "description": metric.meaning,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": _UNITS.get(metric.unit, "short"), "min": 0}, "overrides": []},
        "targets": [{**target, "instant": True, "format": "table"} if table else target],
    }


def query(metric: Metric) -> str:
    """Return the expression of a metric's panel."""
    by = ", ".join(metric.labels)
    chosen = f'{metric.name}{{mesh=~"$mesh"}}' if "mesh" in metric.labels else metric.name
    if metric.kind is MetricKind.COUNTER:
        return f"sum by ({by}) (rate({chosen}[5m]))"
    if metric.kind is MetricKind.HISTOGRAM:
        return f"histogram_quantile(0.95, sum by ({', '.join([*metric.labels, 'le'])}) (rate({metric.name}_bucket[15m])))"
    if metric.name.endswith("expiry_timestamp_seconds"):
        return f"min by ({by}) ({chosen}) - time()"
    if metric.name.endswith("timestamp_seconds"):
        return f"time() - max by ({by}) ({chosen})"
    return f"max by ({by}) ({chosen})" if by else f"max({chosen})"


def _legend(metric: Metric) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in metric.labels)
