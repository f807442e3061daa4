# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What is said while a mesh is adopted or handed back: what the user has to do, what belongs to nobody, what is in the way. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .adopt import (
    Stage,
    items,
    renders_users_always,
    secrets,
    stays,
    strangers,
    tool_aliases,
    tools_of,
)
from .checks.wording import helm, kubectl, lines, listed, show, where
from .facts import ClusterFacts
from .findings import Finding, Severity
from .gitops import ARGO, FLUX, FLUX_HELM, HELM, Tool
from .helm_values import CLUSTERS, ENABLED, assignments, clusters_value, own_files, remote_secret
from .model import Binding
from .peers import keys_of
from .versions import aliases_in_config, cilium_version


def adopt_findings(
    binding: Binding, cluster: ClusterFacts, names: Mapping[str, str], stage: Stage, *, handed_over: bool
) -> Iterator[Finding]:
    """Everything that adopting one cluster has to say. ``names``: inventory name -> cluster name of the peers that the mesh knows."""
    yield from _stays_in_the_way(cluster)
    if stage is Stage.HELD:
        yield _still_rendered(cluster) if handed_over and tool_aliases(cluster) else _waiting(cluster)
        if tool_aliases(cluster) and not aliases_in_config(cilium_version(cluster)):
            yield _names_go(cluster)
    unknown = {secret.name: found for secret in secrets(cluster) if (found := strangers(cluster, secret, names.values()))}
    if unknown:
        yield _unknown(cluster, unknown)


def hand_back_findings(cluster: ClusterFacts, names: Mapping[str, str]) -> Iterator[Finding]:
    """The values to set, where there are peers to name."""
    value = clusters_value(cluster, names)
    if not value:
        return
    enabled, clusters = assignments(cluster, value)
    yield Finding(
        code="CM-OWN-11",
        severity=Severity.ADVISORY,
        cluster=cluster.host,
        summary=f"The peers of {cluster.host} as Helm values: with them the chart renders the links that stand there",
        evidence=f"{where(cluster, 'Secret', remote_secret(cluster).name)}: {listed(row['name'] for row in value)}",
        fix=lines(
            helm(cluster, enabled) + f" --set-json '{clusters}'",
            f"Where Argo CD, Flux or another tool renders the chart, set these two values there: {enabled} and {clusters}",
        ),
    )
    files = own_files(cluster, names)
    if files:
        yield _files(cluster, files)


def _waiting(cluster: ClusterFacts) -> Finding:
    tools = tools_of(cluster)
    held = [where(cluster, item.kind, item.name) for item in items(cluster) if item.tools]
    return Finding(
        code="CM-OWN-06",
        severity=Severity.REMEDIABLE,
        cluster=cluster.host,
        summary=f"{cluster.host} waits for the hand-over: {listed(tool.name for tool in tools)} still holds the objects that name peers",
        evidence=f"marks of {listed(tool.name for tool in tools)} on {listed(held)}"
        + (f"; host aliases of peers that only {ENABLED}=true renders" if tool_aliases(cluster) else ""),
        fix=lines(
            "The objects are prepared and outlive this; no link drops:",
            *_values_to_set(cluster, tools),
            "Then run adopt again. Where it cannot see that the tool let go, say so: handed_over: true "
            "(playbook adopt: cilium_mesh_handed_over=true).",
        ),
    )


def _values_to_set(cluster: ClusterFacts, tools: tuple[Tool, ...]) -> Iterator[str]:
    """How the tool lets go. Before 1.19 the list of clusters stays: users.yaml is rendered from it whatever the other value says."""
    always = renders_users_always(cluster)
    values = (f"{ENABLED}=false",) if always else (f"{ENABLED}=false", f"{CLUSTERS}=null")
    told = f"clustermesh: {{config: {{enabled: false{'' if always else ', clusters: []'}}}}}"
    if HELM in tools or not tools:
        yield helm(cluster, *values)
    if ARGO in tools:
        yield f"Application, spec.source.helm.valuesObject: {{{told}}}, and sync"
    if FLUX_HELM in tools:
        yield f"HelmRelease, spec.values: {{{told}}}"
    if FLUX in tools:
        yield f"In the repository of the Kustomization: take the objects out, or render the chart with {{{told}}}"
    if always:
        yield (f"Leave {CLUSTERS} as it is: before 1.19 the chart renders users.yaml from it in any case, and peers log in by these users.")


def _still_rendered(cluster: ClusterFacts) -> Finding:
    aliases = tool_aliases(cluster)
    return Finding(
        code="CM-OWN-07",
        severity=Severity.BLOCKING,
        cluster=cluster.host,
        summary=f"The peers of {cluster.host} are still rendered by {listed(tool.name for tool in tools_of(cluster))}, "
        "although the hand-over is said to be done",
        evidence="host aliases that charts render with clustermesh.config.enabled=true only: "
        + listed(f"{ip} {listed(names)}" for ip, names in aliases.items()),
        fix=lines(*_values_to_set(cluster, tools_of(cluster))),
    )


def _stays_in_the_way(cluster: ClusterFacts) -> Iterator[Finding]:
    """An annotation that has to say something, and says something else already: it is somebody's, so it is not overwritten."""
    for item in items(cluster):
        for tool in item.tools:
            if tool.stay is None or stays(tool, item.facts.annotations) or tool.stay[0] not in item.facts.annotations:
                continue
            name, value = tool.stay
            now = item.facts.annotations[name]
            wanted = f"{now},{value}" if tool is ARGO else value
            yield Finding(
                code="CM-OWN-08",
                severity=Severity.BLOCKING,
                cluster=cluster.host,
                summary=f"{item.title} of {cluster.host} would not outlive {tool.name}: annotation {name} says something else",
                evidence=f"{where(cluster, item.kind, item.name)}: {name} is {show(now)}, and has to hold {show(value)}",
                fix=kubectl(cluster, "annotate", "--overwrite", f"{item.kind.lower()}/{item.name}", f"{name}={wanted}"),
            )


def _unknown(cluster: ClusterFacts, unknown: Mapping[str, tuple[str, ...]]) -> Finding:
    peers = sorted({name for found in unknown.values() for name in found})
    return Finding(
        code="CM-OWN-09",
        severity=Severity.REMEDIABLE,
        cluster=cluster.host,
        summary=f"{cluster.host} has peers that this mesh does not know: {listed(show(name) for name in peers)}; they stay as they are",
        evidence="; ".join(f"{where(cluster, 'Secret', name)} keys {listed(found)}" for name, found in unknown.items()),
        fix="Name them in binding.clusterRefs (they have to be hosts of the inventory) and adopt again, or go on managing them where they "
        "were made. Once the tool lets go, nobody changes or renews them.",
    )


def _names_go(cluster: ClusterFacts) -> Finding:
    aliases = tool_aliases(cluster)
    workload = cluster.apiserver if cluster.runs_kvstoremesh else cluster.agent
    name = workload.name if workload else "clustermesh-apiserver"
    return Finding(
        code="CM-OWN-10",
        severity=Severity.REMEDIABLE,
        cluster=cluster.host,
        summary=f"With the hand-over {cluster.host} loses the names of its peers until adopt has run again: links may break for that time",
        evidence=f"before Cilium 1.20 the names are host aliases of {name}, and go with {ENABLED}=false: "
        + listed(f"{ip} {listed(names)}" for ip, names in aliases.items()),
        fix=lines(
            "Run adopt right after the hand-over: it brings them back first. To have no gap at all, upgrade to Cilium 1.20 before (there "
            "the configuration holds the addresses), or dial the peers by a DNS name (address instead of ips in the values).",
        ),
    )


def _files(cluster: ClusterFacts, names: tuple[str, ...]) -> Finding:
    secret = remote_secret(cluster).name
    rows = []
    for name in names:
        for value, key in zip(("caCert", "cert", "key"), keys_of(name)[1:], strict=True):
            jsonpath = "{.data." + key.replace(".", "\\.") + "}"
            rows.append(f"{name}: tls.{value}: $({kubectl(cluster, 'get', 'secret', secret, '-o', f'jsonpath={jsonpath}')})")
    return Finding(
        code="CM-OWN-12",
        severity=Severity.REMEDIABLE,
        cluster=cluster.host,
        summary=f"{listed(names)} are dialled from {cluster.host} with files of their own: Helm drops them unless its values hold them",
        evidence=f"{where(cluster, 'Secret', secret)} keys {listed(key for name in names for key in keys_of(name)[1:])}",
        fix=lines(
            f"Before you set {ENABLED}=true, add to each of these clusters in {CLUSTERS} (base64, as it stands in the Secret):",
            *rows[:12],
            "They hold private keys: keep them out of the repository, in a values file of their own.",
        ),
    )
