# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who installed Cilium, and so where a value of its chart has to be set: changed elsewhere, it is put back.

Told by marks on ConfigMap cilium-config and DaemonSet cilium: label of gardener-resource-manager, addonLabel of KubeOne, labels of Flux'
helm- and kustomize-controller, tracking of Argo CD, the owner that the operator of cilium-olm sets, AKS' labels, and the names of Helm
releases that RKE2 and KKP (getReleaseName) give.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ..facts import ClusterFacts

ARGO: Final = ("argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance")
RELEASE: Final = "meta.helm.sh/release-name"
_SHOWN: Final = 120


@dataclass(frozen=True, kw_only=True)
class Installer:
    """``place`` completes "set the value in ..."; "" where no value can be set at all. ``mark`` is what tells it."""

    name: str
    mark: str
    place: str
    advice: str = ""


def installer(facts: ClusterFacts) -> Installer | None:
    """None for a Helm release that somebody made with helm or the cilium CLI, and where there is no Cilium."""
    if facts.config is None or facts.agent is None:
        return None
    marks = _marks(facts)
    return next((found for way in _WAYS if (found := way(facts, marks)) is not None), None)


def _marks(facts: ClusterFacts) -> dict[str, str]:
    agent = facts.agent
    workload = {**agent.labels, **agent.annotations} if agent is not None else {}
    return {**workload, **facts.config_labels, **facts.config_annotations}


def _quoted(value: str) -> str:
    """A name that somebody else wrote, printable and short."""
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
    for tool, kind in (("helm", "HelmRelease"), ("kustomize", "Kustomization")):
        name = marks.get(f"{tool}.toolkit.fluxcd.io/name")
        if name is not None:
            where = f"{kind} {_quoted(name)} in namespace {_quoted(marks.get(f'{tool}.toolkit.fluxcd.io/namespace', ''))}"
            place = f"spec.values of Flux' {where}" if tool == "helm" else f"the source of Flux' {where}"
            return Installer(name="Flux", mark=f"label {tool}.toolkit.fluxcd.io/name = {_quoted(name)}", place=place)
    return None


def _argo(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    mark = next((m for m in ARGO if m in marks), None)
    if mark is None:
        return None
    name = marks[mark].partition(":")[0]
    return Installer(
        name="Argo CD",
        mark=f"{mark} = {_quoted(marks[mark])}",
        place=f"the Helm values of Argo CD's Application {_quoted(name)}",
    )


def _rke2(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if marks.get(RELEASE) != "rke2-cilium":
        return None
    return Installer(
        name="RKE2",
        mark=f"annotation {RELEASE} = rke2-cilium",
        place=f"spec.valuesContent of HelmChartConfig {facts.namespace}/rke2-cilium",
    )


def _kkp(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if marks.get(RELEASE) != "kube-system-cilium":
        return None
    return Installer(
        name="the Kubermatic Kubernetes Platform",
        mark=f"annotation {RELEASE} = kube-system-cilium",
        place="spec.values of ApplicationInstallation kube-system/cilium in the user cluster",
    )


def _manifests(facts: ClusterFacts, marks: Mapping[str, str]) -> Installer | None:
    if RELEASE in marks:
        return None
    if any(node.os_image.startswith("Talos") for node in facts.nodes):
        place = "the values that Cilium's manifests are rendered from (cluster.inlineManifests or extraManifests of Talos' machine config)"
    else:
        place = "the values that Cilium's manifests are rendered from"
    return Installer(name="manifests, without a Helm release", mark=f"no annotation {RELEASE}", place=place)


_WAYS: Final[tuple[Callable[[ClusterFacts, Mapping[str, str]], Installer | None], ...]] = (
    _gardener,
    _kubeone,
    _aks,
    _openshift,
    _flux,
    _argo,
    _rke2,
    _kkp,
    _manifests,  # last: whoever applies manifests makes no Helm release
)


def set_values(found: Installer, values: Iterator[str] | tuple[str, ...]) -> str:
    """How values get to where they stay, as a sentence."""
    wanted = ", ".join(values)
    if not found.place:
        return f"{found.name} allows nobody to set {wanted or 'values of Cilium'}. {found.advice}".strip()
    return f"Set in {found.place}: {wanted}" if wanted else f"Have {found.name} apply Cilium again."
