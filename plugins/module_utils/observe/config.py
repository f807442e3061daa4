# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""ConfigMap ``cilium-config`` and the version of Kubernetes."""

from __future__ import annotations

from typing import Any

from ..redact import one_line
from .objects import mapping, text


def config_data(value: Any) -> dict[str, str] | None:
    """``data`` of cilium-config; None when there is no such ConfigMap."""
    if value is None:
        return None
    return {k: v for k, v in mapping(value, "data").items() if isinstance(v, str)}


def kubernetes_version(value: Any) -> str:
    """``gitVersion`` of /version, e.g. "v1.36.4"."""
    return one_line(text(value, "gitVersion"), 60)
