# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Findings of an adoption or a hand-back: actions of the user, entries without an owner, and obstacles. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..findings.finding import Finding
from ..findings.wording import cilium_cli, finding, helm, kubectl, lines, listed, show, where
from ..links.adopted_values import (
    AdoptionStage,
    outlives_manifest,
    owning_tools,
    peer_objects,
    peer_secrets,
    renders_users_always,
    tool_aliases,
    unknown_peers,
)
from ..mesh.endpoints.etcd_config import keys_of
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.ownership.gitops import ARGO, FLUX, FLUX_HELM, HELM, Tool
from ..mesh.versions.minors import aliases_in_config, cilium_version
from .helm_values import CLUSTERS, ENABLED, as_json, assignments, clusters_value, own_files, remote_secret


def adopt_findings(cluster: ClusterFacts, names: Mapping[str, str], stage: AdoptionStage, *, handed_over: bool) -> Iterator[Finding]:
    """Yield all findings about adopting one cluster.

    :param names: inventory name -> cluster name of the peers that the mesh has.
    """
    yield from _stays_in_the_way(cluster)
    if stage is AdoptionStage.HELD:
        yield _still_rendered(cluster) if handed_over and tool_aliases(cluster) else _waiting(cluster)
        if tool_aliases(cluster) and not aliases_in_config(cilium_version(cluster)):
            yield _names_vanish(cluster)
    unknown = {secret.name: found for secret in peer_secrets(cluster) if (found := unknown_peers(cluster, secret, names.values()))}
    if unknown:
        yield _unknown(cluster, unknown)


def hand_back_findings(cluster: ClusterFacts, names: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings with the Helm values that list the peers; none if there are none."""
    value = clusters_value(cluster, names)
    if not value:
        return
    enabled, clusters = assignments(cluster, value)
    yield finding(
        "CM-OWN-11",
        cluster=cluster.host,
        summary=f"The peers of {cluster.host} as Helm values: with them the chart renders the links that stand there",
        evidence=f"{where(cluster, 'Secret', remote_secret(cluster).name)}: {listed(row['name'] for row in value)}",
        fix=lines(
            helm(cluster, enabled, *clusters),
            cilium_cli(cluster, enabled, *clusters),
            f"Where Argo CD, Flux or another tool renders the chart, set these values there: {enabled} and "
            f"{CLUSTERS}: {as_json(cluster, value)}",
        ),
    )
    files = own_files(cluster, names)
    if files:
        yield _files(cluster, files)


def _waiting(cluster: ClusterFacts) -> Finding:
    tools = owning_tools(cluster)
    held = [where(cluster, item.kind, item.name) for item in peer_objects(cluster) if item.tools]
    return finding(
        "CM-OWN-06",
        cluster=cluster.host,
        summary=f"{cluster.host} waits for the hand-over: {listed(tool.name for tool in tools)} still owns the objects that name peers",
        evidence=f"marks of {listed(tool.name for tool in tools)} on {listed(held)}"
        + (f"; host aliases of peers that only {ENABLED}=true renders" if tool_aliases(cluster) else ""),
        fix=lines(
            "The objects are prepared and stay when you set this; no link drops:",
            *_values_to_set(cluster, tools),
            "Then run adopt again. Where it cannot see that the tool has released the objects, set handed_over: true "
            "(playbook adopt: cilium_mesh_handed_over=true).",
        ),
    )


def _values_to_set(cluster: ClusterFacts, tools: tuple[Tool, ...]) -> Iterator[str]:
    """Yield the settings with which each tool releases the objects.

    Before 1.19 the list of clusters stays: the chart renders users.yaml from it for any value of ``clustermesh.config.enabled``.
    """
    always = renders_users_always(cluster)
    values = (f"{ENABLED}=false",) if always else (f"{ENABLED}=false", f"{CLUSTERS}=null")
    rendered = f"clustermesh: {{config: {{enabled: false{'' if always else ', clusters: []'}}}}}"
    if HELM in tools or not tools:
        yield helm(cluster, *values)
        yield cilium_cli(cluster, *values)
    if ARGO in tools:
        yield f"Application, spec.source.helm.valuesObject: {{{rendered}}}, and sync"
    if FLUX_HELM in tools:
        yield f"HelmRelease, spec.values: {{{rendered}}}"
    if FLUX in tools:
        yield f"In the repository of the Kustomization: remove the objects, or render the chart with {{{rendered}}}"
    if always:
        yield (f"Leave {CLUSTERS} as it is: before 1.19 the chart renders users.yaml from it in any case, and peers log in by these users.")


def _still_rendered(cluster: ClusterFacts) -> Finding:
    aliases = tool_aliases(cluster)
    return finding(
        "CM-OWN-07",
        cluster=cluster.host,
        summary=f"The peers of {cluster.host} are still rendered by {listed(tool.name for tool in owning_tools(cluster))}, "
        "although handed_over says that the hand-over is done",
        evidence="host aliases that charts render with clustermesh.config.enabled=true only: "
        + listed(f"{ip} {listed(names)}" for ip, names in aliases.items()),
        fix=lines(*_values_to_set(cluster, owning_tools(cluster))),
    )


def _stays_in_the_way(cluster: ClusterFacts) -> Iterator[Finding]:
    """Yield findings about an annotation that needs a value and has a foreign one already, so that it is not overwritten."""
    for item in peer_objects(cluster):
        for tool in item.tools:
            if tool.stay is None or outlives_manifest(tool, item.facts.annotations) or tool.stay[0] not in item.facts.annotations:
                continue
            name, value = tool.stay
            now = item.facts.annotations[name]
            wanted = f"{now},{value}" if tool is ARGO else value
            yield finding(
                "CM-OWN-08",
                cluster=cluster.host,
                summary=f"{item.title} of {cluster.host} would not outlive {tool.name}: annotation {name} has another value",
                evidence=f"{where(cluster, item.kind, item.name)}: {name} is {show(now)}, and has to hold {show(value)}",
                fix=kubectl(cluster, "annotate", "--overwrite", f"{item.kind.lower()}/{item.name}", f"{name}={wanted}"),
            )


def _unknown(cluster: ClusterFacts, unknown: Mapping[str, tuple[str, ...]]) -> Finding:
    peers = sorted({name for found in unknown.values() for name in found})
    return finding(
        "CM-OWN-09",
        cluster=cluster.host,
        summary=f"{cluster.host} has peers that this mesh does not know: {listed(show(name) for name in peers)}; they stay as they are",
        evidence="; ".join(f"{where(cluster, 'Secret', name)} keys {listed(found)}" for name, found in unknown.items()),
        fix="Name them in binding.clusterRefs (they have to be hosts of the inventory) and adopt again, or manage them as before where "
        "they were made. Once the tool releases the objects, no tool changes or renews these peers.",
    )


def _names_vanish(cluster: ClusterFacts) -> Finding:
    aliases = tool_aliases(cluster)
    workload = cluster.apiserver if cluster.runs_kvstoremesh else cluster.agent
    name = workload.name if workload else "clustermesh-apiserver"
    return finding(
        "CM-OWN-10",
        cluster=cluster.host,
        summary=f"The hand-over removes the host aliases of peers in {cluster.host} until adopt has run again: links may break meanwhile",
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
    return finding(
        "CM-OWN-12",
        cluster=cluster.host,
        summary=f"{listed(names)} are dialled from {cluster.host} with files of their own: Helm drops them unless its values hold them",
        evidence=f"{where(cluster, 'Secret', secret)} keys {listed(key for name in names for key in keys_of(name)[1:])}",
        fix=lines(
            f"Before you set {ENABLED}=true, add to each of these clusters in {CLUSTERS} (base64, as it stands in the Secret):",
            *rows[:12],
            "They hold private keys: keep them out of the repository, in a values file of their own.",
        ),
    )
