# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Metadata of the objects: who owns them is written there, and nowhere else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from .options import RELEASE, Manifest, ProfileOptions

PART_OF = {"app.kubernetes.io/part-of": "cilium"}
MANAGED_BY = "app.kubernetes.io/managed-by"
NON_IDEMPOTENT = "cilium.io/helm-template-non-idempotent"
RESOURCE_POLICY = "helm.sh/resource-policy"


def helm_object(
    options: ProfileOptions, api_version: str, kind: str, name: str, *, labels: Mapping[str, str] | None = None, chart_label: bool = True
) -> Manifest:
    """An object of the release: kind, metadata with Helm's ownership, nothing else."""
    marks = dict(labels or {})
    if marks and chart_label:
        marks |= chart_labels(options)
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": options.namespace,
            "labels": {MANAGED_BY: "Helm", **marks},
            "annotations": {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": options.namespace},
        },
    }


def plain_object(options: ProfileOptions, api_version: str, kind: str, name: str) -> Manifest:
    """An object that Helm does not own."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": options.namespace}}


def chart_labels(options: ProfileOptions) -> dict[str, str]:
    """The label with the chart's version, where this chart sets it."""
    return {"helm.sh/chart": f"cilium-{options.chart.patch}"} if options.chart.chart_label else {}


def owned_by_helm(manifest: Mapping[str, object]) -> bool:
    metadata = manifest.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return isinstance(labels, Mapping) and labels.get(MANAGED_BY) == "Helm"


def encoded(values: Mapping[str, str]) -> dict[str, str]:
    """``data`` of a Secret."""
    return {key: b64encode(value.encode()).decode() for key, value in values.items()}
