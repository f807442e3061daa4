# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Readers of fields in decoded API objects whose shape is not trusted: a wrong type counts as absent."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


# Built-in dict stands before Mapping, whose test takes ten times as long: an observation of many clusters asks millions of times.
def mapping(value: Any, *keys: str) -> Mapping[str, Any]:
    """Return the mapping at ``value[key][key]…``, {} if a key is missing or leads to something else."""
    for key in keys:
        value = value.get(key) if isinstance(value, (dict, Mapping)) else None
    return value if isinstance(value, (dict, Mapping)) else {}


def items(value: Any, *keys: str) -> list[Mapping[str, Any]]:
    """Return the mappings in the list at ``value[key]…``; other elements are left out."""
    found = mapping(value, *keys[:-1]).get(keys[-1])
    return [item for item in found if isinstance(item, (dict, Mapping))] if isinstance(found, list) else []


def text(value: Any, *keys: str) -> str:
    """Return the string at ``value[key]…``, else ""."""
    found = mapping(value, *keys[:-1]).get(keys[-1])
    return found if isinstance(found, str) else ""


def number(value: Any, *keys: str, absent: int = 0) -> int:
    """Return the integer at ``value[key]…``, else ``absent``. A boolean, which Python counts among the integers, is none."""
    found = mapping(value, *keys[:-1]).get(keys[-1])
    return found if isinstance(found, int) and not isinstance(found, bool) else absent


def texts(value: Any, *keys: str) -> tuple[str, ...]:
    """Return the strings in the list at ``value[key]…``; other elements are left out."""
    found = mapping(value, *keys[:-1]).get(keys[-1])
    return tuple(item for item in found if isinstance(item, str)) if isinstance(found, list) else ()


def parse_time(value: str) -> datetime | None:
    """Parse a timestamp of the Kubernetes API (RFC 3339) to an aware time in UTC; None if it is not valid."""
    try:
        found = datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):  # the second: year 1 or 9999 with an offset that leads out of the calendar
        return None


def labels_of(value: Any) -> dict[str, str]:
    """Return ``metadata.labels`` of an object; values that are not text are left out."""
    return {k: v for k, v in mapping(value, "metadata", "labels").items() if isinstance(v, str)}


def annotations_of(value: Any) -> dict[str, str]:
    """Return ``metadata.annotations`` of an object, without the copy of the object that ``kubectl apply`` leaves.

    In a Secret, that copy holds the secret values.
    """
    found = mapping(value, "metadata", "annotations")
    return {k: v for k, v in found.items() if isinstance(v, str) and k != "kubectl.kubernetes.io/last-applied-configuration"}


def secret_values(secret: Any) -> dict[str, bytes]:
    """Return ``data`` of a Secret, decoded; a value that is not base64 counts as empty."""
    return {key: _decoded(value) for key, value in mapping(secret, "data").items()}


def _decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""
