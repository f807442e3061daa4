# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks that Cilium and clustermesh-apiserver are installed, switched on, and running, and where the values of Cilium's chart are set."""

from __future__ import annotations

from collections.abc import Iterator

from ..findings.wording import command, helm, kubectl, lines, listed, show, where
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.ownership.installers import installer
from ..mesh.ownership.objects import marks_for_helm
from .context import CheckContext
from .flaw import Flaw
from .registry import check

_MESH_ON = ("clustermesh.useAPIServer=true", "clustermesh.config.enabled=false", "clustermesh.apiserver.service.type=LoadBalancer")


@check("CM-INST-01")
def cilium_is_installed(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster without cilium-config or without DaemonSet cilium."""
    missing = [] if facts.config is not None else [where(facts, "ConfigMap", "cilium-config")]
    missing += [] if facts.agent is not None else [where(facts, "DaemonSet", "cilium")]
    if not missing:
        return
    what = "Cilium is not installed" if len(missing) == 2 else "Cilium is installed in part"
    yield Flaw(
        summary=f"{what} in cluster {facts.host}, namespace {facts.namespace}",
        evidence=f"{listed(missing)} not found",
        fix=lines(
            "If Cilium runs in another namespace, name it in the host variable cilium_mesh_namespace. Else install it:",
            _install_command(facts),
        ),
    )


def _install_command(facts: ClusterFacts) -> str:
    """Return the helm command that installs Cilium with the mesh switched on."""
    words = ["helm", "install", "cilium", "cilium", "--repo", "https://helm.cilium.io", "--namespace", facts.namespace]
    for value in ("cluster.name=UNIQUE_NAME", "cluster.id=UNIQUE_NUMBER", *_MESH_ON):
        words += ["--set", value]
    return command(*words)


@check("CM-INST-02")
def apiserver_is_installed(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster without clustermesh-apiserver."""
    if facts.config is None or facts.agent is None or facts.apiserver is not None:
        return
    yield Flaw(
        summary=f"Cluster {facts.host} runs Cilium without clustermesh-apiserver, so there is nothing that peers could connect to",
        evidence=f"{where(facts, 'Deployment', 'clustermesh-apiserver')} not found",
        fix=helm(facts, *_MESH_ON),
    )


@check("CM-INST-03")
def apiserver_is_ready(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a clustermesh-apiserver without a ready pod.

    The finding does not block: keys that are written take effect as soon as the pod runs, and a mesh must be repairable while one
    member is down.
    """
    workload = facts.apiserver
    if workload is None or workload.ready > 0:
        return
    reasons = [f"pod {pod.name}: {show(pod.waiting or pod.phase)}" for pod in facts.apiserver_pods if not pod.ready]
    fix = kubectl(facts, "describe", "pod", "--selector", "k8s-app=clustermesh-apiserver")
    if workload.desired == 0:
        reasons, fix = ["it is scaled to 0"], kubectl(facts, "scale", "deployment/clustermesh-apiserver", "--replicas=1")
    yield Flaw(
        summary=f"No pod of clustermesh-apiserver is ready in cluster {facts.host}: its links stay down until one is",
        evidence=f"{where(facts, 'Deployment', 'clustermesh-apiserver')}: {workload.ready} of {workload.desired} ready; "
        + (listed(reasons) if reasons else "it has no pods"),
        fix=fix,
    )


@check("CM-INST-04")
def agents_are_ready(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster of whose agents some are not ready."""
    workload = facts.agent
    if workload is None or facts.config is None or workload.ready >= workload.desired > 0:
        return
    down = [f"{pod.name} on {pod.node or 'no node'}: {show(pod.waiting or pod.phase)}" for pod in facts.agent_pods if not pod.ready]
    yield Flaw(
        summary=f"{workload.ready} of {workload.desired} Cilium agents are ready in cluster {facts.host}: links are not ready "
        "on the other nodes",
        evidence=f"{where(facts, 'DaemonSet', 'cilium')}" + (f"; {listed(down)}" if down else ""),
        fix=kubectl(facts, "get", "pods", "--selector", "k8s-app=cilium", "--output", "wide"),
    )


@check("CM-USER-01")
def remote_users_exist(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a missing ConfigMap clustermesh-remote-users where clustermesh-apiserver reads it.

    The volume is not optional: without the ConfigMap the pod stays in ContainerCreating (upgrade notes of Cilium 1.19).
    """
    if not facts.users_enabled or facts.users.present:
        return
    name = "clustermesh-remote-users"
    labels, marks = marks_for_helm(facts)
    yield Flaw(
        summary=f"clustermesh-apiserver of {facts.host} reads its users from a ConfigMap that does not exist, so its pod cannot start; "
        "connect creates it",
        evidence=f"{where(facts, 'Deployment', 'clustermesh-apiserver')}: container apiserver has --cluster-users-enabled; "
        f"{where(facts, 'ConfigMap', 'clustermesh-remote-users')} not found",
        fix=lines(
            "Run connect, which creates it. By hand, so that a later Helm upgrade can take it over:"
            if marks
            else "Run connect, which creates it, or create it by hand:",
            kubectl(facts, "create", "configmap", name, "--from-literal=users.yaml=users: []"),
            kubectl(facts, "label", f"configmap/{name}", *(f"{key}={text}" for key, text in labels.items())) if labels else "",
            kubectl(facts, "annotate", f"configmap/{name}", *(f"{key}={text}" for key, text in marks.items())) if marks else "",
        ),
    )


@check("CM-USER-02")
def remote_users_are_readable(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a users.yaml that cannot be parsed."""
    if not facts.users.present or not facts.users.problem:
        return
    yield Flaw(
        summary=f"The users of clustermesh-apiserver in {facts.host} cannot be read, so none can be added without losing others",
        evidence=f"{where(facts, 'ConfigMap', 'clustermesh-remote-users')} key users.yaml: {show(facts.users.problem)}",
        fix=lines(
            "Correct it to the form users: [{name: remote-PEER, role: remote}, ...]:",
            kubectl(facts, "edit", "configmap", "clustermesh-remote-users"),
        ),
    )


@check("CM-DIST-01")
def helm_sets_the_values(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report where values of Cilium's chart are set, if a tool or distribution other than Helm installed it."""
    found = installer(facts)
    if found is None:
        return
    what = f"values of its chart are set in {found.place}" if found.place else "values of its chart cannot be set"
    yield Flaw(
        summary=f"Cilium in {facts.host} comes from {found.name}: {what}",
        evidence=f"{found.mark} on {where(facts, 'ConfigMap', 'cilium-config')} or {where(facts, 'DaemonSet', 'cilium')}",
        fix=lines("Nothing needs to be done now: other findings that name a value name this place.", found.advice),
    )
