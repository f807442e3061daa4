# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The few of the chart's values that a profile knows, and what they change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import yaml

from .options import HelmPeer, ProfileOptions


def _peers(clusters: Any) -> tuple[HelmPeer, ...]:
    """``clustermesh.config.clusters`` in either form: a list with names, or a map by name."""
    entries = [{"name": name, **entry} for name, entry in clusters.items()] if isinstance(clusters, Mapping) else list(clusters or ())
    return tuple(
        HelmPeer(
            name=entry["name"], ips=tuple(entry.get("ips") or ()), port=int(entry.get("port", 2379)), address=entry.get("address") or ""
        )
        for entry in entries
    )


_KNOWN: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "cluster.name": ("cluster_name", str),
    "cluster.id": ("cluster_id", int),
    "kubeProxyReplacement": ("kube_proxy_replacement", lambda value: str(value).lower() == "true"),
    "ipam.operator.clusterPoolIPv4PodCIDRList": ("pod_cidr_pool", " ".join),
    "ipam.operator.clusterPoolIPv4MaskSize": ("pod_cidr_mask", int),
    "clustermesh.maxConnectedClusters": ("max_connected_clusters", int),
    "clustermesh.config.enabled": ("config_enabled", bool),
    "clustermesh.config.clusters": ("peers", _peers),
    "clustermesh.apiserver.kvstoremesh.enabled": ("kvstoremesh", bool),
    "clustermesh.apiserver.service.type": ("service_type", str),
    "clustermesh.apiserver.service.nodePort": ("node_port", int),
    "clustermesh.apiserver.tls.authMode": ("auth_mode", str),
    "clustermesh.apiserver.tls.auto.method": ("tls_method", str),
}


def with_values(options: ProfileOptions, values: Mapping[str, Any]) -> ProfileOptions:
    """``options`` after ``values`` (nested as in values.yaml, or with dotted keys). ValueError names a value that no profile knows."""
    changes: dict[str, Any] = {}
    for key, value in _flat(values):
        if key not in _KNOWN:
            raise ValueError(f"the lab's charts do not know the value {key!r}; they know {', '.join(_KNOWN)}")
        name, convert = _KNOWN[key]
        changes[name] = convert(value)
    return replace(options, **changes)


def parse_set(assignments: Iterable[str]) -> dict[str, Any]:
    """``["clustermesh.config.enabled=false"]`` as values.

    The right-hand side of a value that a profile knows is YAML, so also what ``--set-json`` takes. Below such a value it is what ``--set``
    of Helm takes: ``clustermesh.config.clusters.c2.ips={192.0.2.2}`` or ``clustermesh.config.clusters[0].name=c2``.
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        if not sign:
            raise ValueError(f"{assignment!r} is not KEY=VALUE")
        known = next((name for name in _KNOWN if key.startswith((f"{name}.", f"{name}["))), "")
        if not known:
            values[key] = yaml.safe_load(text)
            continue
        steps = [int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", key[len(known) :])]
        values[known] = _placed(values.get(known), steps, _set_value(text))
    return values


def _placed(held: Any, steps: list[str | int], value: Any) -> Any:
    """``held`` with a value at the end of the steps; a number is a place in a list."""
    if not steps:
        return value
    step, *rest = steps
    if isinstance(step, int):
        entries = list(held or ())
        entries += [None] * (step + 1 - len(entries))
        entries[step] = _placed(entries[step], rest, value)
        return entries
    return {**(held or {}), step: _placed((held or {}).get(step), rest, value)}


def _set_value(text: str) -> Any:
    if text.startswith("{") and text.endswith("}"):
        return [yaml.safe_load(entry) for entry in text[1:-1].split(",") if entry]
    return yaml.safe_load(text)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key not in _KNOWN:
            yield from _flat(value, f"{key}.")
        else:
            yield key, value
