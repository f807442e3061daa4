# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reading decoded API objects without trusting their shape: a wrong type counts as absent."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def mapping(value: Any, *keys: str) -> Mapping[str, Any]:
    """The mapping at ``value[key][key]…``; {} where the way ends."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def items(value: Any, *keys: str) -> list[Mapping[str, Any]]:
    """The mappings in the list at ``value[key]…``."""
    found = mapping(value, *keys[:-1]).get(keys[-1])
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def text(value: Any, *keys: str) -> str:
    """The string at ``value[key]…``, else ""."""
    found = mapping(value, *keys[:-1]).get(keys[-1])
    return found if isinstance(found, str) else ""


def number(value: Any, *keys: str) -> int:
    """The integer at ``value[key]…``, else 0."""
    found = mapping(value, *keys[:-1]).get(keys[-1])
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def texts(value: Any, *keys: str) -> tuple[str, ...]:
    """The strings of the list at ``value[key]…``."""
    found = mapping(value, *keys[:-1]).get(keys[-1])
    return tuple(item for item in found if isinstance(item, str)) if isinstance(found, list) else ()


def time_of(value: str) -> datetime | None:
    """A time of the API (RFC 3339), aware UTC; None when it is none."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else None


def labels_of(value: Any) -> dict[str, str]:
    return {k: v for k, v in mapping(value, "metadata", "labels").items() if isinstance(v, str)}


def annotations_of(value: Any) -> dict[str, str]:
    """Without the copy of the object that ``kubectl apply`` leaves: for a Secret it holds the values."""
    found = mapping(value, "metadata", "annotations")
    return {k: v for k, v in found.items() if isinstance(v, str) and k != "kubectl.kubernetes.io/last-applied-configuration"}


def secret_values(secret: Any) -> dict[str, bytes]:
    """``data`` of a Secret, decoded; what is not base64 counts as empty."""
    return {key: _decoded(value) for key, value in mapping(secret, "data").items()}


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""
