# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What changed between the minors of Cilium, as data.

Every row was read from the released Helm charts (``install/kubernetes/cilium`` of each minor) or from the issue that it names.
A version that cannot be told (None) is answered with what does least harm; the check CM-VER-02 reports it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from .facts import ClusterFacts, WorkloadFacts


class Minor(NamedTuple):
    """A minor release: ``Minor(1, 17)``. Ordered."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


KNOWN_FROM: Final = Minor(1, 14)
KNOWN_TO: Final = Minor(1, 21)
"""The minors whose charts the rows below were read from, both included."""

_TAG = re.compile(
    r"v?(?P<major>[0-9]{1,4})\.(?P<minor>[0-9]{1,4})(?:\.(?P<patch>[0-9]{1,6}))?(?:[-_](?P<suffix>[A-Za-z0-9][A-Za-z0-9._-]*))?"
)
_PRERELEASE = re.compile(r"^(?:pre|rc|alpha|beta|snapshot|dev)\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class CiliumVersion:
    """A release of Cilium. ``suffix`` is what follows the numbers: ``pre.3``, ``rc.1``, or a vendor's build such as ``cee.1``."""

    major: int
    minor: int
    patch: int = 0
    suffix: str = ""

    @property
    def release(self) -> Minor:
        return Minor(self.major, self.minor)

    @property
    def prerelease(self) -> bool:
        return _PRERELEASE.match(self.suffix) is not None

    @classmethod
    def from_tag(cls, tag: str) -> CiliumVersion | None:
        """``v1.20.0-pre.3`` -> version; ``latest``, a commit or a date -> None."""
        match = _TAG.fullmatch(tag)
        if match is None:
            return None
        return cls(major=int(match["major"]), minor=int(match["minor"]), patch=int(match["patch"] or 0), suffix=match["suffix"] or "")

    @classmethod
    @lru_cache(maxsize=1024)  # asked for every pair of clusters, about a few images
    def from_image(cls, image: str) -> CiliumVersion | None:
        """Version of an image reference, ``[REGISTRY[:PORT]/]NAME[:TAG][@DIGEST]``; None where the tag says nothing."""
        name = image.partition("@")[0].rpartition("/")[2]
        return cls.from_tag(name.partition(":")[2])

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (f"-{self.suffix}" if self.suffix else "")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Something that holds for the minors ``since`` <= minor < ``before``; None leaves that end open."""

    since: Minor | None = None
    before: Minor | None = None
    unknown: bool  # the answer for a version that cannot be told
    source: str

    def holds(self, version: CiliumVersion | None) -> bool:
        if version is None:
            return self.unknown
        release = version.release
        return (self.since is None or self.since <= release) and (self.before is None or release < self.before)


RULES: Final[dict[str, Rule]] = {
    "kvstoremesh_by_default": Rule(since=Minor(1, 16), unknown=True, source="chart 1.16, clustermesh.apiserver.kvstoremesh.enabled"),
    "local_certificate_made": Rule(since=Minor(1, 16), unknown=True, source="chart 1.16, clustermesh-apiserver-local-cert"),
    "local_certificate_used": Rule(
        since=Minor(1, 17), unknown=True, source="chart 1.17, clustermesh-config secret: local-etcd-client files; issue 42841"
    ),
    "max_connected_clusters": Rule(since=Minor(1, 15), unknown=True, source="chart 1.15, cilium-config key max-connected-clusters"),
    "aliases_in_config": Rule(since=Minor(1, 20), unknown=True, source="PR 44425, cilium-host-aliases in the etcd configuration"),
    # 1.20 still renders hostAliases too, but its static dialer no longer needs them, and a template change costs a rollout.
    "aliases_in_template": Rule(before=Minor(1, 20), unknown=True, source="chart 1.19, hostAliases; removed by issue 47190"),
    "remote_users_by_default": Rule(since=Minor(1, 19), unknown=True, source="chart 1.19, authMode migration"),
    "remote_users_list_self": Rule(before=Minor(1, 17), unknown=False, source="chart 1.16, users.yaml also names remote-<own name>"),
    "remote_users_need_config": Rule(
        since=Minor(1, 19), unknown=True, source="chart 1.19, users-configmap.yaml: only with clustermesh.config.enabled"
    ),
    "clusters_as_map": Rule(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh.config.clusters: a list or a map by name"),
    "node_port_clash": Rule(before=Minor(1, 19), unknown=True, source="issue 24692, fixed by PR 41337 in 1.19"),
    "readiness_endpoints": Rule(since=Minor(1, 16), unknown=True, source="chart 1.16, /readyz on 9880 and 9881"),
    "endpoint_sync": Rule(since=Minor(1, 16), unknown=True, source="chart 1.16, clustermesh-enable-endpoint-sync"),
    "mcs_api": Rule(since=Minor(1, 16), unknown=True, source="chart 1.16, clustermesh-enable-mcs-api"),
    "mcs_api_value": Rule(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh.mcsapi.enabled; before enableMCSAPISupport"),
    "operator_mcs": Rule(since=Minor(1, 17), unknown=True, source="charts 1.16 and 1.18, cilium-operator mounts clustermesh-secrets"),
    "policy_local_key": Rule(since=Minor(1, 18), unknown=True, source="chart 1.18, cilium-config key policy-default-local-cluster"),
    "non_default_deny": Rule(since=Minor(1, 17), unknown=True, source="chart 1.17, cilium-config key enable-non-default-deny-policies"),
    "cache_ttl": Rule(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh-cache-ttl"),
    "namespace_filter": Rule(since=Minor(1, 20), unknown=True, source="chart 1.20, clustermesh-default-global-namespace; issue 43918"),
    "policy_local_by_default": Rule(since=Minor(1, 19), unknown=True, source="PR 40609, policy-default-local-cluster defaults to true"),
    "strict_cluster_name": Rule(since=Minor(1, 17), unknown=True, source="upgrade notes of 1.17: cluster name always validated"),
    "external_workloads": Rule(before=Minor(1, 18), unknown=False, source="chart 1.18 removes clustermesh-apiserver-client-cert"),
    "service_port_configurable": Rule(since=Minor(1, 21), unknown=True, source="chart 1.21, clustermesh.apiserver.service.port"),
}
"""The version matrix. Keys are what ``holds`` is asked for."""

SERVER_COMMON_NAMES: Final[tuple[str, str]] = ("clustermesh-apiserver.cilium.io", "clustermesh-apiserver.{namespace}.svc")
"""Common names of the server certificate: up to 1.19 the first, from 1.20 the second (1.20's pre-releases still the first)."""


def holds(rule: str, version: CiliumVersion | None) -> bool:
    """Does the named row of ``RULES`` hold? Raises KeyError for a name that is not there."""
    return RULES[rule].holds(version)


def known(version: CiliumVersion) -> bool:
    """Is the minor one that the matrix was read for?"""
    return KNOWN_FROM <= version.release <= KNOWN_TO


def agent_version(facts: ClusterFacts) -> CiliumVersion | None:
    """Version of the agents, from the image of container ``cilium-agent``, else from the chart label (1.20+)."""
    return _of(facts.agent, "cilium-agent")


def apiserver_version(facts: ClusterFacts) -> CiliumVersion | None:
    """Version of clustermesh-apiserver, from the image of container ``apiserver``, else from the chart label (1.20+)."""
    return _of(facts.apiserver, "apiserver")


def cilium_version(facts: ClusterFacts) -> CiliumVersion | None:
    """Version of Cilium in a cluster: that of the agents, else of clustermesh-apiserver; None when neither image tells."""
    return agent_version(facts) or apiserver_version(facts)


def agent_file_prefix(version: CiliumVersion | None) -> str:
    """Prefix of the files with which agents reach their own kvstoremesh: ``local-`` from 1.17, ``common-`` before.

    Without kvstoremesh, and for kvstoremesh itself, it is ``common-`` in every version.
    """
    return "local-" if holds("local_certificate_used", version) else "common-"


def aliases_in_config(version: CiliumVersion | None) -> bool:
    """Are the peer's addresses written into its etcd configuration (``cilium-host-aliases``)? Older readers ignore the key."""
    return holds("aliases_in_config", version)


def aliases_in_template(version: CiliumVersion | None) -> bool:
    """Are the peer's addresses written as hostAliases of the reader's pod template? A change of them costs a rollout."""
    return holds("aliases_in_template", version)


def policy_local_by_default(version: CiliumVersion | None) -> bool:
    """Default of ``policy-default-local-cluster`` when cilium-config does not set it."""
    return holds("policy_local_by_default", version)


def server_common_name(version: CiliumVersion | None, namespace: str) -> str:
    """Common name that the chart gives the server certificate."""
    newer = version is None or (version.release >= Minor(1, 20) and not version.prerelease)
    return SERVER_COMMON_NAMES[1 if newer else 0].format(namespace=namespace)


def _of(workload: WorkloadFacts | None, container: str) -> CiliumVersion | None:
    if workload is None:
        return None
    image = workload.containers.get(container)
    if image and (version := CiliumVersion.from_image(image)):
        return version
    chart = workload.labels.get("helm.sh/chart", "")
    return CiliumVersion.from_tag(chart.removeprefix("cilium-")) if chart.startswith("cilium-") else None
