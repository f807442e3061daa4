# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tools that render Cilium's chart repeatedly: their marks, their field managers, and the setting that makes them skip an object.

Pure data. Sources: Helm (marks; ``helm.sh/resource-policy``), Argo CD common/common.go (ArgoCDSSAManager) and
docs/user-guide/{sync-options,diffing,helm}.md (``resource-policy: keep`` means Delete=false there, not Prune=false), Flux
kustomize-controller main.go and docs/spec/v1/kustomizations.md, Flux helm-controller docs/spec/v2/helmreleases.md (driftDetection).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HELM_LABEL: Final = "app.kubernetes.io/managed-by"
HELM_NAME: Final = "meta.helm.sh/release-name"
HELM_NAMESPACE: Final = "meta.helm.sh/release-namespace"
KEEP: Final = "helm.sh/resource-policy"


@dataclass(frozen=True, kw_only=True, eq=False)  # one instance per tool, compared by identity
class Tool:
    """Tool that renders and applies objects."""

    name: str
    managers: tuple[str, ...] = ()  # field managers; Helm's is the name of whatever program embeds it
    marks: tuple[str, ...] = ()  # labels or annotations, any of which says that the object is its
    values: Mapping[str, str] | None = None  # marks that count with this value only
    stay: tuple[str, str] | None = None  # annotation and value with which an object outlives its manifest


HELM: Final = Tool(name="Helm", marks=(HELM_LABEL, HELM_NAME, HELM_NAMESPACE), values={HELM_LABEL: "Helm"}, stay=(KEEP, "keep"))
ARGO: Final = Tool(
    name="Argo CD",
    managers=("argocd-controller", "argocd-application-controller"),
    marks=("argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance"),
    stay=("argocd.argoproj.io/sync-options", "Prune=false"),
)
FLUX_HELM: Final = Tool(
    name="Flux (HelmRelease)",
    managers=("helm-controller",),
    marks=("helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"),
    stay=(KEEP, "keep"),
)
FLUX: Final = Tool(
    name="Flux (Kustomization)",
    managers=("kustomize-controller",),
    marks=("kustomize.toolkit.fluxcd.io/name", "kustomize.toolkit.fluxcd.io/namespace"),
    stay=("kustomize.toolkit.fluxcd.io/prune", "disabled"),
)
TOOLS: Final = (HELM, ARGO, FLUX_HELM, FLUX)
KEEP_ANNOTATIONS: Final = tuple(dict.fromkeys(tool.stay[0] for tool in TOOLS if tool.stay))
"""Annotations with which objects outlive their manifests."""

RECONCILERS: Final = (ARGO, FLUX_HELM, FLUX)
"""Tools that reconcile by themselves and so undo drift."""

RECONCILER_NAMES: Final = (*ARGO.marks, FLUX.marks[0], FLUX_HELM.marks[0])
"""Marks that name what a reconciler renders the object from: Application, Kustomization or HelmRelease."""


def marks_in(tool: Tool, values: Mapping[str, str]) -> dict[str, str]:
    """Return the tool's marks among labels or annotations."""
    return {k: values[k] for k in tool.marks if k in values and (tool.values or {}).get(k, values[k]) == values[k]}


def marked_by(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[Tool, ...]:
    """Return the tools that own an object, by its marks."""
    return tuple(tool for tool in TOOLS if marks_in(tool, labels) or marks_in(tool, annotations))


def made_by_helm(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Return whether the object belongs to a release of Helm: its label says so, or an annotation names the release."""
    return labels.get(HELM_LABEL) == "Helm" or HELM_NAME in annotations


def reconciler(manager: str) -> Tool | None:
    """Return the reconciling tool that writes under this field manager; None if no such tool does."""
    return next((tool for tool in RECONCILERS if manager in tool.managers), None)


def ignore_snippet(tool: Tool, objects: Mapping[str, tuple[str, str]], namespace: str) -> str:
    """Return the setting with which the tool ignores the data of the objects; YAML in flow style, one line per place.

    :param objects: "Secret cilium-kvstoremesh" -> (kind, name).
    """
    if tool is ARGO:
        rows = (f"{{kind: {kind}, name: {name}, namespace: {namespace}, jsonPointers: [/data]}}" for kind, name in objects.values())
        return (
            f"Application, spec.ignoreDifferences: [{', '.join(rows)}]\n"
            "Application, spec.syncPolicy.syncOptions: [RespectIgnoreDifferences=true]"
        )
    targets = (f"{{paths: [/data], target: {{kind: {kind}, name: {name}}}}}" for kind, name in objects.values())
    if tool is FLUX_HELM:
        return f"HelmRelease, spec.driftDetection: {{mode: enabled, ignore: [{', '.join(targets)}]}}"
    return (
        f"Kustomization, spec.ignore: [{', '.join(targets)}]\n"
        'or, where that is not known yet, on the objects in the repository: kustomize.toolkit.fluxcd.io/ssa: "IfNotPresent"'
    )
