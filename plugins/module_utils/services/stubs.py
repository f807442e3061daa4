# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Stubs: Services for clients in a consuming cluster that has none of that name.

A stub has no selector, so that it never selects pods of its own cluster; it gets the backends of other clusters because it is
global. The Services that Cilium itself derives from a ServiceImport are made the same way
(pkg/clustermesh/mcsapi/service_controller.go). It exports nothing, and its annotation says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..items.models import GlobalService
from ..mesh.facts.traffic import ObjectFacts
from .annotations import SHARED, wanted_annotations


def stub_body(service: GlobalService, original: ObjectFacts) -> dict[str, Any]:
    """Return a Service with the ports and the kind of address of ``original``, which is the Service of an exporting cluster."""
    namespace, name = original.key
    spec: dict[str, Any] = {
        "type": "ClusterIP",
        "ports": [_port(port) for port in original.spec.get("ports") or ()],
        "sessionAffinity": original.spec.get("sessionAffinity") or "None",
        # A headless Service without a selector has to say so; else as Cilium's own: the families that the cluster has.
        "ipFamilyPolicy": "PreferDualStack",
    }
    if is_headless(original):
        spec["clusterIP"] = "None"
    if spec["sessionAffinity"] == "ClientIP" and original.spec.get("sessionAffinityConfig"):
        spec["sessionAffinityConfig"] = original.spec["sessionAffinityConfig"]
    annotations = {**wanted_annotations(replace(service, further={})), SHARED: "false"}  # those of a Service with an owner
    metadata = {"name": name, "namespace": namespace, "annotations": dict(sorted(annotations.items()))}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def is_headless(service: ObjectFacts) -> bool:
    """Return whether the Service is headless."""
    return str(service.spec.get("clusterIP", "")).lower() == "none"


def _port(port: Mapping[str, Any]) -> dict[str, Any]:
    """Return name, protocol and number of a port.

    Backends of other clusters are found by the name. A target port would refer to local pods.
    """
    found = {"protocol": port.get("protocol") or "TCP", "port": port["port"]}
    return {"name": port["name"], **found} if port.get("name") else found
