# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Checks of cluster name and cluster id in cilium-config: valid, and unique in the mesh.

Rules: Cilium pkg/clustermesh/types (ClusterInfo.Validate, ValidateBuggyClusterID).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ..findings.finding import Severity
from ..findings.wording import config_evidence, grouped, helm, lines, listed, restart, show, where
from ..leases.registry import Lease
from ..mesh.cidrs import ipam_mode
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.cilium_config import setting
from ..mesh.versions.limits import MAX_CLUSTERS, max_clusters
from ..mesh.versions.minors import cilium_version, holds
from .context import CheckContext, members
from .flaw import Flaw
from .registry import check

_NAME = re.compile(r"(?=.{1,32}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_CLOUD_IPAM = ("eni", "alibabacloud")

_KVSTORE, _BOTH_READ_KVSTORE, _BOTH_READ_CRD = "kvstore", "doublewrite-readkvstore", "doublewrite-readcrd"
_CONVERGED = (
    "When the operator's metrics cilium_operator_identity_crd_only_count and cilium_operator_identity_kvstore_only_count are 0, "
    "read from CRDs:"
)
_COPIED = "Copy the identities first, so that their numbers stay: cilium-dbg preflight migrate-identity in the image of Cilium."

_RENAME = (
    "Change name and id together, only while the cluster is in no mesh: identities keep the old id otherwise (cilium issues "
    "36338 and 48801). "
    "The certificates carry the name and must be issued again."
)


@check("CM-ID-01")
def cluster_name_is_set(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster without a cluster name, or with the name "default"."""
    if facts.config is None or facts.name not in ("", "default"):
        return
    yield Flaw(
        summary=f"Cluster {facts.host} has no Cilium cluster name of its own" + (': it is "default"' if facts.name else ""),
        evidence=config_evidence(facts, "cluster-name"),
        fix=lines(helm(facts, "cluster.name=UNIQUE_NAME", "cluster.id=UNIQUE_NUMBER"), restart(facts), _RENAME),
    )


@check("CM-ID-02")
def cluster_name_is_valid(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster name that Cilium does not accept."""
    if facts.config is None or not facts.name or _NAME.fullmatch(facts.name):
        return
    yield Flaw(
        summary=f"The Cilium cluster name of {facts.host} is not valid: 1 to 32 lower-case letters, digits and '-', no '-' at the ends",
        evidence=config_evidence(facts, "cluster-name"),
        fix=lines(helm(facts, "cluster.name=UNIQUE_NAME", "cluster.id=UNIQUE_NUMBER"), restart(facts), _RENAME),
    )


@check("CM-ID-03")
def cluster_id_is_valid(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster id that is not set or is out of range."""
    if facts.config is None:
        return
    highest = int(max_clusters(facts)) if max_clusters(facts) in MAX_CLUSTERS else 255
    if facts.id is not None and 0 < facts.id <= highest:
        return
    why = "is not set, so the cluster can be in no mesh" if facts.id == 0 else f"is not a number from 1 to {highest}"
    yield Flaw(
        summary=f"The Cilium cluster id of {facts.host} {why}",
        evidence=config_evidence(facts, "cluster-id", "max-connected-clusters"),
        fix=lines(helm(facts, "cluster.name=UNIQUE_NAME", "cluster.id=UNIQUE_NUMBER"), restart(facts), _RENAME),
    )


def _holders_last(context: CheckContext, hosts: Sequence[str], of_lease: Callable[[Lease], object], value: object) -> list[str]:
    """Return the hosts with those last to which the mesh has leased the value: the finding is about the others."""
    return sorted(hosts, key=lambda host: (lease := context.leases.active(host)) is not None and of_lease(lease) == value)


def _same_values(
    context: CheckContext, what: str, value_of: Callable[[ClusterFacts], str], of_lease: Callable[[Lease], str], shown: Callable[[str], str]
) -> Iterator[Flaw]:
    """Yield a flaw for each name or id that several members have; "" is none."""
    for value, found in grouped(members(context), value_of).items():
        if value and len(found) > 1:
            hosts = _holders_last(context, found, of_lease, value)
            facts = context.facts[found[-1]]
            change = f"In all but one of them: {helm(facts, 'cluster.name=UNIQUE_NAME', 'cluster.id=UNIQUE_NUMBER')}"
            yield Flaw(
                hosts=hosts,
                summary=f"Clusters {listed(hosts)} have the same Cilium cluster {what} {shown(value)}",
                evidence=f"{where(facts, 'ConfigMap', 'cilium-config')} of each: cluster-{what} = {show(value)}",
                fix=lines(change, restart(facts), _RENAME),
            )


@check("CM-ID-04")
def cluster_names_are_unique(context: CheckContext) -> Iterator[Flaw]:
    """Report clusters with a common peer that have the same cluster name."""
    return _same_values(context, "name", lambda f: "" if f.name == "default" else f.name, lambda lease: lease.name, show)


@check("CM-ID-05")
def cluster_ids_are_unique(context: CheckContext) -> Iterator[Flaw]:
    """Report clusters with a common peer that have the same cluster id."""
    return _same_values(context, "id", lambda f: str(f.id or ""), lambda lease: str(lease.id), str)


@check("CM-ID-06")
def identities_are_crds(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster that does not keep its security identities as CRDs, or keeps them there beside a kvstore that is read.

    Without a kvstore agents use CRDs, whatever the mode says, and unset means the kvstore (cilium/cilium pkg/option/config.go, Populate).
    The double-write modes keep both (Documentation, "Migration with the Double Write identity allocation mode").
    """
    mode = setting(facts, "identity-allocation-mode", _KVSTORE)
    both = holds("double_write_identities", cilium_version(facts))
    known = ("crd", _KVSTORE, *((_BOTH_READ_CRD, _BOTH_READ_KVSTORE) if both else ()))
    if facts.config is None or (mode in known and (mode in ("crd", _BOTH_READ_CRD) or not setting(facts, "kvstore"))):
        return
    to_both, to_crds, to_crds_alone = (helm(facts, f"identityAllocationMode={to}") for to in (_BOTH_READ_KVSTORE, _BOTH_READ_CRD, "crd"))
    again, severity = restart(facts), None
    summary = f"Cluster {facts.host} does not keep its identities as CRDs, so clustermesh-apiserver has nothing to publish"
    if mode not in known:
        fix = lines(to_crds_alone, again)
        summary = f"Cluster {facts.host} has a mode of identities that its version of Cilium does not know: new agents do not start"
    elif mode == _BOTH_READ_KVSTORE:
        severity, fix = Severity.REMEDIABLE, lines(_CONVERGED, to_crds, again)
        summary = f"Cluster {facts.host} moves its identities to CRDs, which peers get, and until both agree peers may lack some of them"
    elif both:
        fix = lines(to_both, again, _CONVERGED, to_crds, again)
    else:
        fix = lines(_COPIED, to_crds_alone, again)
    evidence = config_evidence(facts, "identity-allocation-mode", "kvstore")
    yield Flaw(severity=severity, summary=summary, evidence=evidence, fix=fix)


@check("CM-ID-07")
def max_connected_clusters_agrees(context: CheckContext) -> Iterator[Flaw]:
    """Report connected clusters that differ in max-connected-clusters."""
    groups = grouped(members(context), max_clusters)
    if len(groups) < 2:
        return
    yield Flaw(
        hosts=[host for group in groups.values() for host in group],
        summary="Clusters differ in max-connected-clusters: the number of bits of an identity that name the cluster is not the same",
        evidence="cilium-config: "
        + "; ".join(f"max-connected-clusters = {show(value)} in {listed(group)}" for value, group in groups.items()),
        fix="It can only be chosen at installation. Install the clusters that differ anew with the same Helm value "
        "clustermesh.maxConnectedClusters.",
    )


@check("CM-ID-08")
def max_connected_clusters_is_valid(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a max-connected-clusters that Cilium refuses."""
    if facts.config is None or max_clusters(facts) in MAX_CLUSTERS:
        return
    yield Flaw(
        summary=f"Cluster {facts.host} has a max-connected-clusters that Cilium refuses; it knows 255 and 511",
        evidence=config_evidence(facts, "max-connected-clusters"),
        fix=lines(helm(facts, "clustermesh.maxConnectedClusters=255"), restart(facts)),
    )


@check("CM-ID-09")
def cluster_id_suits_the_cloud(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report a cluster id whose bit 0x80 collides with packet marks of ENI, Alibaba Cloud or aws-cni."""
    cloud = ipam_mode(facts) in _CLOUD_IPAM or setting(facts, "cni-chaining-mode") == "aws-cni"
    if not facts.id or not cloud or not facts.id & 0x80:
        return
    yield Flaw(
        summary=f"Cluster {facts.host} has id {facts.id}; with ENI, Alibaba Cloud and aws-cni, ids 128-255 and 384-511 "
        "collide with packet marks",
        evidence=config_evidence(facts, "cluster-id", "ipam", "cni-chaining-mode"),
        fix=lines(helm(facts, "cluster.name=UNIQUE_NAME", "cluster.id=NUMBER_BELOW_128"), restart(facts), _RENAME),
    )


@check("CM-MESH-01")
def hosts_are_different_clusters(context: CheckContext) -> Iterator[Flaw]:
    """Report hosts of the inventory that lead to one cluster."""
    answered = [context.facts[host] for host in context.mesh.clusters if host in context.facts]
    for uid, hosts in grouped(answered, lambda f: f.uid).items():
        if uid and len(hosts) > 1:
            yield Flaw(
                hosts=_holders_last(context, hosts, lambda lease: lease.uid, uid),
                summary=f"Inventory hosts {listed(hosts)} are the same cluster",
                evidence=f"the namespace where Cilium runs has the uid {uid} behind each of them",
                fix="Correct cilium_mesh_kubeconfig or cilium_mesh_context of these hosts, or name only one of them in "
                "binding.clusterRefs.",
            )
