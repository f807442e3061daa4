# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of ConfigMap ``cilium-config`` and the version of Kubernetes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..base.json_fields import items, mapping, parse_time, text
from ..base.redact import one_line


def config_data(value: Any) -> dict[str, str] | None:
    """Return ``data`` of cilium-config; None if there is no such ConfigMap."""
    if value is None:
        return None
    return {k: v for k, v in mapping(value, "data").items() if isinstance(v, str)}


def config_changed(value: Any) -> datetime | None:
    """Return the last change of a value of the ConfigMap: the newest entry of managedFields that owns one.

    The API server moves an entry's time only when that manager adds, changes or removes a field (Kubernetes, "Server-Side Apply").
    """
    entries = [e for e in items(value, "metadata", "managedFields") if mapping(e, "fieldsV1", "f:data")]
    return max((time for e in entries if (time := parse_time(text(e, "time"))) is not None), default=None)


def kubernetes_version(value: Any) -> str:
    """Return ``gitVersion`` of /version, e.g. "v1.36.4"."""
    return one_line(text(value, "gitVersion"), 60)
