# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects in an archive of a bug report: states of containers, and global Services. Of the objects only named fields are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..base.json_fields import annotations_of, items, mapping, number, text

GLOBAL: Final = ("service.cilium.io/global", "io.cilium/global-service")
"""Annotations of a global Service; the second is the older name (pkg/annotation/k8s.go)."""


def container_states(pods: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the state of each container of pods."""
    return [row for pod in pods for row in _container_rows(pod)]


def global_services(services: Iterable[Any]) -> list[dict[str, Any]]:
    """Return every Service with an annotation that makes it global, whatever its value."""
    found = [_service_row(service) for service in services if annotations_of(service).keys() & set(GLOBAL)]
    return sorted(found, key=lambda row: (row["namespace"], row["name"]))


def _container_rows(pod: Any) -> list[dict[str, Any]]:
    return [
        {
            "pod": text(pod, "metadata", "name"),
            "container": text(entry, "name"),
            "image": text(entry, "image"),
            "ready": entry.get("ready") is True,
            "restarts": number(entry, "restartCount"),
            "state": _state(entry, "state"),
            "lastState": _state(entry, "lastState"),
        }
        for kind in ("initContainerStatuses", "containerStatuses")
        for entry in items(pod, "status", kind)
    ]


def _state(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the state of a container without its message, in which programs print what they like."""
    for kind, state in mapping(entry, name).items():
        return {
            "is": str(kind),
            "reason": text(state, "reason"),
            "exitCode": number(state, "exitCode"),
            "startedAt": text(state, "startedAt"),
            "finishedAt": text(state, "finishedAt"),
        }
    return {}


def _service_row(service: Any) -> dict[str, Any]:
    ports = [f"{text(port, 'name')} {number(port, 'port')}/{text(port, 'protocol')}".strip() for port in items(service, "spec", "ports")]
    return {
        "namespace": text(service, "metadata", "namespace"),
        "name": text(service, "metadata", "name"),
        "type": text(service, "spec", "type"),
        "annotations": annotations_of(service),
        "headless": text(service, "spec", "clusterIP") == "None",
        "ports": ports,
        "managers": sorted({text(entry, "manager") for entry in items(service, "metadata", "managedFields")}),
    }
