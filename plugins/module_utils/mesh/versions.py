# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Differences between the minors of Cilium, as data.

Every row was read from the released Helm charts (``install/kubernetes/cilium`` of each minor) or from the issue that it names.
For an unknown version (None), the answer is the one that does least harm; the check CM-VER-02 reports it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from .facts import ClusterFacts, WorkloadFacts


class Minor(NamedTuple):
    """Minor release such as ``Minor(1, 17)``. Ordered."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True)
class MinorRange:
    """Minors of Cilium 1 from ``first`` to ``last``, both included."""

    first: Minor
    last: Minor

    def __contains__(self, minor: Minor) -> bool:
        return self.first <= minor <= self.last

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"

    @property
    def minors(self) -> tuple[Minor, ...]:
        """Return every minor of the range, in order."""
        return tuple(Minor(self.first.major, minor) for minor in range(self.first.minor, self.last.minor + 1))


SUPPORTED: Final = MinorRange(Minor(1, 16), Minor(1, 20))
"""The minors that the project supports: the lab plays each of them, and the policy evaluator was written from their sources."""

KNOWN: Final = MinorRange(Minor(1, 14), Minor(1, 21))
"""The minors whose charts the rows below were read from. Outside of ``SUPPORTED`` they are neither refused nor tested in the lab."""

_TAG = re.compile(
    r"v?(?P<major>[0-9]{1,4})\.(?P<minor>[0-9]{1,4})(?:\.(?P<patch>[0-9]{1,6}))?(?:[-_](?P<suffix>[A-Za-z0-9][A-Za-z0-9._-]*))?"
)


@dataclass(frozen=True, kw_only=True)
class CiliumVersion:
    """Release of Cilium. ``suffix`` is what follows the numbers: ``pre.3``, ``rc.1``, or a vendor's build such as ``cee.1``."""

    major: int
    minor: int
    patch: int = 0
    suffix: str = ""

    @property
    def release(self) -> Minor:
        """Minor release without patch and suffix."""
        return Minor(self.major, self.minor)

    @classmethod
    def from_tag(cls, tag: str) -> CiliumVersion | None:
        """Parse an image tag: ``v1.20.0-pre.3`` -> version; ``latest``, a commit or a date -> None."""
        match = _TAG.fullmatch(tag)
        if match is None:
            return None
        return cls(major=int(match["major"]), minor=int(match["minor"]), patch=int(match["patch"] or 0), suffix=match["suffix"] or "")

    @classmethod
    @lru_cache(maxsize=1024)  # called for every pair of clusters, with a few different images
    def from_image(cls, image: str) -> CiliumVersion | None:
        """Parse the version of an image reference, ``[REGISTRY[:PORT]/]NAME[:TAG][@DIGEST]``; None if the tag names none."""
        name = image.partition("@")[0].rpartition("/")[2]
        return cls.from_tag(name.partition(":")[2])

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (f"-{self.suffix}" if self.suffix else "")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Behaviour of the minors ``since`` <= minor < ``before``; None leaves that end open."""

    since: Minor | None = None
    before: Minor | None = None
    unknown: bool  # the answer for an unknown version
    source: str

    def holds(self, version: CiliumVersion | Minor | None) -> bool:
        """Return whether the rule holds for a version; ``unknown`` if that is None."""
        if version is None:
            return self.unknown
        release = version if isinstance(version, Minor) else version.release
        return (self.since is None or self.since <= release) and (self.before is None or release < self.before)


RULES: Final[dict[str, Rule]] = {
    "local_certificate_used": Rule(
        since=Minor(1, 17), unknown=True, source="chart 1.17, clustermesh-config secret: local-etcd-client files; issue 42841"
    ),
    "aliases_in_config": Rule(since=Minor(1, 20), unknown=True, source="PR 44425, cilium-host-aliases in the etcd configuration"),
    # 1.20 still renders hostAliases too, but its static dialer no longer needs them, and a template change costs a rollout.
    "aliases_in_template": Rule(before=Minor(1, 20), unknown=True, source="chart 1.19, hostAliases; removed by issue 47190"),
    "remote_users_list_self": Rule(before=Minor(1, 17), unknown=False, source="chart 1.16, users.yaml also names remote-<own name>"),
    "remote_users_need_config": Rule(
        since=Minor(1, 19), unknown=True, source="chart 1.19, users-configmap.yaml: only with clustermesh.config.enabled"
    ),
    "clusters_as_map": Rule(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh.config.clusters: a list or a map by name"),
    "node_port_clash": Rule(before=Minor(1, 19), unknown=True, source="issue 24692, fixed by PR 41337 in 1.19"),
    "endpoint_sync": Rule(since=Minor(1, 16), unknown=True, source="chart 1.16, clustermesh-enable-endpoint-sync"),
    "mcs_api": Rule(since=Minor(1, 16), unknown=True, source="chart 1.16, clustermesh-enable-mcs-api"),
    "mcs_api_value": Rule(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh.mcsapi.enabled; before enableMCSAPISupport"),
    "mcs_export": Rule(since=Minor(1, 17), unknown=True, source="clustermesh-apiserver of 1.17; 1.16 has no serviceexportsync.go"),
    "operator_mcs": Rule(since=Minor(1, 17), unknown=True, source="charts 1.16 and 1.18, cilium-operator mounts clustermesh-secrets"),
    "policy_local_key": Rule(since=Minor(1, 18), unknown=True, source="chart 1.18, cilium-config key policy-default-local-cluster"),
    "non_default_deny": Rule(since=Minor(1, 17), unknown=True, source="chart 1.17, cilium-config key enable-non-default-deny-policies"),
    # Services
    "free_port_names": Rule(
        since=Minor(1, 18), unknown=True, source="pkg/loadbalancer/writer/writer.go: a port without a name goes with any other"
    ),
    "source_ranges_everywhere": Rule(
        since=Minor(1, 17), unknown=False, source="bpf-lb-source-range-all-types: not in 1.16; 1.18's changelog ports it, PR 39533"
    ),
    "source_range_check_optional": Rule(before=Minor(1, 19), unknown=True, source="pkg/kpr/kpr.go of 1.18: removed in 1.19"),
    "cache_ttl": Rule(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh-cache-ttl"),
    "namespace_filter": Rule(since=Minor(1, 20), unknown=True, source="chart 1.20, clustermesh-default-global-namespace; issue 43918"),
    # Policies
    "deny_without_isolation": Rule(
        since=Minor(1, 16), unknown=False, source="enableDefaultDeny, pkg/policy/api/rule.go of 1.16, not of 1.15"
    ),
    "port_ranges": Rule(since=Minor(1, 16), unknown=False, source="docs/decisions/0022: endPort is refused before 1.16"),
    "policy_kind_switches": Rule(
        since=Minor(1, 17),
        unknown=True,
        source="enable-cilium-(clusterwide-)network-policy: pkg/option/config.go of 1.18, not of 1.16; 1.17 is taken to read them",
    ),
    "newer_label_filters": Rule(
        since=Minor(1, 18), unknown=True, source="pkg/labelsfilter/filter.go of 1.18, not of 1.16; 1.17 is taken to be as 1.16"
    ),
    "ip_block_beside_local_cluster": Rule(
        since=Minor(1, 19), unknown=False, source="1.18 adds the own cluster to the missing selector, and refuses both in one rule"
    ),
    "required_labels": Rule(before=Minor(1, 19), unknown=False, source="layer3.rst, fromRequires and toRequires: taken out in 1.19"),
    "entity_cluster_mesh": Rule(since=Minor(1, 20), unknown=True, source="pkg/policy/api/entity.go of 1.20"),
    "policy_local_by_default": Rule(since=Minor(1, 19), unknown=True, source="PR 40609, policy-default-local-cluster defaults to true"),
}
"""The version matrix, by the name that ``holds`` takes."""


def holds(rule: str, version: CiliumVersion | Minor | None) -> bool:
    """Return whether the named row of ``RULES`` holds for a version.

    :raises KeyError: when there is no such row.
    """
    return RULES[rule].holds(version)


def first_minor(rule: str) -> Minor:
    """Return the first minor for which the named row holds. Raises KeyError for a row that has no first one, or is not there."""
    since = RULES[rule].since
    if since is None:
        raise KeyError(f"{rule} has no first minor")
    return since


def is_known_minor(version: CiliumVersion) -> bool:
    """Return whether the minor is one that the matrix was written for."""
    return version.release in KNOWN


def agent_version(facts: ClusterFacts) -> CiliumVersion | None:
    """Return the version of the agents, from the image of container ``cilium-agent``, else from the chart label (1.20+)."""
    return _workload_version(facts.agent, "cilium-agent")


def apiserver_version(facts: ClusterFacts) -> CiliumVersion | None:
    """Return the version of clustermesh-apiserver, from the image of container ``apiserver``, else from the chart label (1.20+)."""
    return _workload_version(facts.apiserver, "apiserver")


def cilium_version(facts: ClusterFacts) -> CiliumVersion | None:
    """Return the version of Cilium in a cluster: that of the agents, else of clustermesh-apiserver; None if neither image names one."""
    return agent_version(facts) or apiserver_version(facts)


def agent_file_prefix(version: CiliumVersion | None) -> str:
    """Return the prefix of the files with which agents reach their own kvstoremesh: ``local-`` from 1.17, ``common-`` before.

    Without kvstoremesh, and for kvstoremesh itself, it is ``common-`` in every version.
    """
    return "local-" if holds("local_certificate_used", version) else "common-"


def aliases_in_config(version: CiliumVersion | None) -> bool:
    """Return whether the peer's addresses are written into its etcd configuration (``cilium-host-aliases``).

    Older readers ignore the key.
    """
    return holds("aliases_in_config", version)


def aliases_in_template(version: CiliumVersion | None) -> bool:
    """Return whether the peer's addresses are written as hostAliases of the reader's pod template. A change of them costs a rollout."""
    return holds("aliases_in_template", version)


def reader_version(local: ClusterFacts) -> CiliumVersion | None:
    """Return the Cilium version of the reader: kvstoremesh, which comes in the image of clustermesh-apiserver, or the agents."""
    return (apiserver_version(local) if local.runs_kvstoremesh else None) or cilium_version(local)


def policy_local_by_default(version: CiliumVersion | None) -> bool:
    """Return the default of ``policy-default-local-cluster`` when cilium-config does not set it."""
    return holds("policy_local_by_default", version)


def _workload_version(workload: WorkloadFacts | None, container: str) -> CiliumVersion | None:
    if workload is None:
        return None
    image = workload.containers.get(container)
    if image and (version := CiliumVersion.from_image(image)):
        return version
    chart = workload.labels.get("helm.sh/chart", "")
    return CiliumVersion.from_tag(chart.removeprefix("cilium-")) if chart.startswith("cilium-") else None
