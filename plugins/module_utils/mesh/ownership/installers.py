# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Installer of Cilium in a cluster, and so the place where a value of its chart has to be set: changed elsewhere, it is put back.

It is recognised by marks on ConfigMap cilium-config and DaemonSet cilium: label of gardener-resource-manager, addonLabel of KubeOne, labels
of Flux' helm- and kustomize-controller, tracking of Argo CD, the owner that the operator of cilium-olm sets, AKS' labels, and the names of
Helm releases that RKE2 and KKP (getReleaseName) give.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ..facts.cluster import ClusterFacts
from .gitops import ARGO, FLUX, FLUX_HELM, HELM_NAME

_SHOWN: Final = 120


@dataclass(frozen=True, kw_only=True)
class Installer:
    """Program or platform that installed Cilium.

    ``place`` completes "set the value in ..."; "" if no value can be set at all. ``mark`` is the evidence.
    """

    name: str
    mark: str
    place: str
    advice: str = ""


def installer(facts: ClusterFacts) -> Installer | None:
    """Return the installer of Cilium; None for a Helm release made with helm or the cilium CLI, and without Cilium."""
    if facts.config is None or facts.agent is None:
        return None
    marks = _marks(facts)
    return next((found for way in _DETECTORS if (found := way(facts, marks)) is not None), None)


def _marks(facts: ClusterFacts) -> dict[str, str]:
    agent = facts.agent
    workload = {**agent.labels, **agent.annotations} if agent is not None else {}
    return {**workload, **facts.config_labels, **facts.config_annotations}


def _quoted(value: str) -> str:
    """Return foreign text quoted, printable and short."""
    text = "".join(c if c.isprintable() else "?" for c in value[:_SHOWN])
    return json.dumps(text, ensure_ascii=False)


def _gardener(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if marks.get("resources.gardener.cloud/managed-by") != "gardener":
        return None
    return Installer(
        name="Gardener",
        mark="label resources.gardener.cloud/managed-by = gardener",
        place="spec.networking.providerConfig of the Shoot, as far as the extension networking-cilium knows it",
        advice="Gardener puts back what is changed in the cluster. Its extension sets no cluster name and id and installs no "
        "clustermesh-apiserver (gardener-extension-networking-cilium issue 673).",
    )


def _kubeone(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if "kubeone.io/addon" not in marks:
        return None
    return Installer(
        name="KubeOne",
        mark=f"label kubeone.io/addon = {_quoted(marks['kubeone.io/addon'])}",
        place="an addon of your own in place of KubeOne's cni-cilium (clusterNetwork.cni.external), rendered from Cilium's chart",
        advice="KubeOne applies its addon at every kubeone apply.",
    )


def _aks(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if marks.get("kubernetes.azure.com/managedby") != "aks":
        return None
    return Installer(
        name="AKS (Azure CNI powered by Cilium)",
        mark="label kubernetes.azure.com/managedby = aks",
        place="",
        advice="Mesh such clusters with Azure Kubernetes Fleet Manager, or install Cilium yourself in a cluster made with "
        "--network-plugin none.",
    )


def _openshift(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if facts.agent is None or "CiliumConfig" not in facts.agent.owner_kinds:
        return None
    return Installer(
        name="the Cilium operator of OpenShift's OLM",
        mark="owner reference to a CiliumConfig",
        place=f"spec of CiliumConfig cilium in namespace {facts.namespace}",
    )


def _flux(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    for tool, kind, holder in ((FLUX_HELM, "HelmRelease", "spec.values"), (FLUX, "Kustomization", "the source")):
        name_mark, namespace_mark = tool.marks
        if name_mark in marks:
            name, namespace = _quoted(marks[name_mark]), _quoted(marks.get(namespace_mark, ""))
            place = f"{holder} of Flux' {kind} {name} in namespace {namespace}"
            return Installer(name="Flux", mark=f"label {name_mark} = {name}", place=place)
    return None


def _argo(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    mark = next((m for m in ARGO.marks if m in marks), None)
    if mark is None:
        return None
    name = marks[mark].partition(":")[0]
    return Installer(
        name="Argo CD",
        mark=f"{mark} = {_quoted(marks[mark])}",
        place=f"the Helm values of Argo CD's Application {_quoted(name)}",
    )


def _rke2(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if marks.get(HELM_NAME) != "rke2-cilium":
        return None
    return Installer(
        name="RKE2",
        mark=f"annotation {HELM_NAME} = rke2-cilium",
        place=f"spec.valuesContent of HelmChartConfig {facts.namespace}/rke2-cilium",
    )


def _kkp(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if marks.get(HELM_NAME) != "kube-system-cilium":
        return None
    return Installer(
        name="the Kubermatic Kubernetes Platform",
        mark=f"annotation {HELM_NAME} = kube-system-cilium",
        place="spec.values of ApplicationInstallation kube-system/cilium in the user cluster",
    )


def _manifests(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if HELM_NAME in marks:
        return None
    if any(node.os_image.startswith("Talos") for node in facts.nodes):
        place = "the values that Cilium's manifests are rendered from (cluster.inlineManifests or extraManifests of Talos' machine config)"
    else:
        place = "the values that Cilium's manifests are rendered from"
    return Installer(name="manifests, without a Helm release", mark=f"no annotation {HELM_NAME}", place=place)


_DETECTORS: Final[tuple[Callable[[ClusterFacts, Mapping[str, str]], Installer | None], ...]] = (
    _gardener,
    _kubeone,
    _aks,
    _openshift,
    _flux,
    _argo,
    _rke2,
    _kkp,
    _manifests,  # last: the absence of a Helm release says that plain manifests were applied
)


def set_values(found: Installer, values: Iterator[str] | tuple[str, ...]) -> str:
    """Return a sentence that says where to set ``values`` so that they stay."""
    wanted = ", ".join(values)
    if not found.place:
        return f"{found.name} does not allow {wanted or 'values of Cilium'} to be set. {found.advice}".strip()
    return f"Set in {found.place}: {wanted}" if wanted else f"Have {found.name} apply Cilium again."
