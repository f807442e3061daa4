# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Differences between the minors of Cilium, as data.

Every row was read from the released Helm charts (``install/kubernetes/cilium`` of each minor) or from the issue that it names.
For an unknown version (None), the answer is the one that does least harm; the check CM-VER-02 reports it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from ..facts.cluster import ClusterFacts, WorkloadFacts


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
class Trait:
    """Behaviour of the minors ``since`` <= minor < ``before``; None leaves that end open."""

    since: Minor | None = None
    before: Minor | None = None
    unknown: bool  # the answer for an unknown version
    source: str
    bug: int = 0  # number of Cilium's issue, if this is a bug and not what Cilium documents

    def holds(self, version: CiliumVersion | Minor | None) -> bool:
        """Return whether the rule holds for a version; ``unknown`` if that is None."""
        if version is None:
            return self.unknown
        release = version if isinstance(version, Minor) else version.release
        return (self.since is None or self.since <= release) and (self.before is None or release < self.before)


RULES: Final[dict[str, Trait]] = {
    "local_certificate_used": Trait(
        since=Minor(1, 17), unknown=True, source="chart 1.17, clustermesh-config secret: local-etcd-client files; issue 42841"
    ),
    "aliases_in_config": Trait(since=Minor(1, 20), unknown=True, source="PR 44425, cilium-host-aliases in the etcd configuration"),
    # 1.20 still renders hostAliases too, but its static dialer no longer needs them, and a template change costs a rollout.
    "aliases_in_template": Trait(before=Minor(1, 20), unknown=True, source="chart 1.19, hostAliases; removed by issue 47190"),
    "remote_users_list_self": Trait(before=Minor(1, 17), unknown=False, source="chart 1.16, users.yaml also names remote-<own name>"),
    "remote_users_need_config": Trait(
        since=Minor(1, 19), unknown=True, source="chart 1.19, users-configmap.yaml: only with clustermesh.config.enabled"
    ),
    "clusters_as_map": Trait(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh.config.clusters: a list or a map by name"),
    "node_port_clash": Trait(before=Minor(1, 19), unknown=True, source="issue 24692, fixed by PR 41337 in 1.19"),
    "endpoint_sync": Trait(since=Minor(1, 16), unknown=True, source="chart 1.16, clustermesh-enable-endpoint-sync"),
    "double_write_identities": Trait(
        since=Minor(1, 17),
        unknown=True,
        source="identity-allocation-mode doublewrite-*: Documentation/operations/upgrade.rst of 1.17, not of 1.16",
    ),
    # Keys of cilium-config (mesh/versions/cilium_values.py)
    "tunnel_key": Trait(
        before=Minor(1, 15), unknown=True, source="pkg/option/config.go of 1.15 has routing-mode and tunnel-protocol alone"
    ),
    "kube_proxy_replacement_words": Trait(
        before=Minor(1, 19),
        unknown=False,
        source="kube-proxy-replacement: true or false (daemon/cmd of 1.18); a boolean in pkg/kpr of 1.19",
    ),
    "node_port_key": Trait(before=Minor(1, 19), unknown=True, source="enable-node-port: pkg/kpr/kpr.go of 1.18, not of 1.19"),
    "ztunnel": Trait(since=Minor(1, 19), unknown=True, source="enable-ztunnel: Documentation/cmdref of 1.19, not of 1.18"),
    "strict_egress": Trait(
        since=Minor(1, 19),
        unknown=True,
        source="enable-encryption-strict-mode-egress and the Helm values encryption.strictMode.egress: 1.19, not 1.18",
    ),
    "strict_mode_key": Trait(before=Minor(1, 20), unknown=True, source="enable-encryption-strict-mode: deprecated in 1.19, not in 1.20"),
    "underlay_key": Trait(since=Minor(1, 18), unknown=True, source="pkg/datapath/tunnel/tunnel.go of 1.18: underlay-protocol"),
    "underlay_by_family": Trait(
        since=Minor(1, 20), unknown=True, source="pkg/datapath/tunnel/tunnel.go of 1.20: underlay-protocol defaults to auto, before to ipv4"
    ),
    "cidr_means_pods": Trait(since=Minor(1, 20), unknown=True, source="policy-cidr-match-mode pods: pkg/option/config.go of 1.20"),
    "cluster_network_policy": Trait(
        since=Minor(1, 20), unknown=True, source="enable-k8s-cluster-network-policy: pkg/option/config.go of 1.20, not of 1.19"
    ),
    "mcs_api": Trait(since=Minor(1, 16), unknown=True, source="chart 1.16, clustermesh-enable-mcs-api"),
    "mcs_api_value": Trait(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh.mcsapi.enabled; before enableMCSAPISupport"),
    "mcs_export": Trait(since=Minor(1, 17), unknown=True, source="clustermesh-apiserver of 1.17; 1.16 has no serviceexportsync.go"),
    "operator_mcs": Trait(since=Minor(1, 17), unknown=True, source="charts 1.16 and 1.18, cilium-operator mounts clustermesh-secrets"),
    "policy_local_key": Trait(since=Minor(1, 18), unknown=True, source="chart 1.18, cilium-config key policy-default-local-cluster"),
    "non_default_deny": Trait(since=Minor(1, 17), unknown=True, source="chart 1.17, cilium-config key enable-non-default-deny-policies"),
    # Services
    "free_port_names": Trait(
        since=Minor(1, 18), unknown=True, source="pkg/loadbalancer/writer/writer.go: a port without a name goes with any other"
    ),
    "source_ranges_everywhere": Trait(
        since=Minor(1, 17), unknown=False, source="bpf-lb-source-range-all-types: not in 1.16; 1.18's changelog ports it, PR 39533"
    ),
    "source_range_check_optional": Trait(before=Minor(1, 19), unknown=True, source="pkg/kpr/kpr.go of 1.18: removed in 1.19"),
    "cache_ttl": Trait(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh-cache-ttl"),
    "namespace_filter": Trait(since=Minor(1, 20), unknown=True, source="chart 1.20, clustermesh-default-global-namespace; issue 43918"),
    "namespace_identities": Trait(
        since=Minor(1, 19),
        unknown=True,
        source="clustermesh-apiserver/clustermesh/synchronizer.go of 1.19.0: identities, endpoints; Services see namespace_filter",
    ),
    # What upgrades change (upgrade/rules.py)
    "kvstoremesh_by_default": Trait(since=Minor(1, 16), unknown=True, source="charts 1.15 and 1.16, kvstoremesh.enabled of the apiserver"),
    "strict_cluster_names": Trait(since=Minor(1, 17), unknown=True, source="upgrade guide of 1.17: names are enforced strictly"),
    "users_by_default": Trait(since=Minor(1, 19), unknown=True, source="charts 1.18 and 1.19, clustermesh.apiserver.tls.authMode"),
    "mutual_authentication_off": Trait(since=Minor(1, 19), unknown=True, source="charts 1.18 and 1.19, authentication.enabled"),
    "mcs_crds_installed": Trait(since=Minor(1, 19), unknown=True, source="chart 1.19, clustermesh-mcs-api-install-crds"),
    "mcs_old_value_removed": Trait(since=Minor(1, 20), unknown=True, source="upgrade guide of 1.20, Removed Options"),
    "server_name_left_out": Trait(
        since=Minor(1, 20),
        unknown=True,
        source="upgrade guide of 1.20, Changed Options: no clustermesh-apiserver.cilium.io",
    ),
    "leaves_last_a_year": Trait(since=Minor(1, 20), unknown=True, source="upgrade guide of 1.20, Informational Notes: one year"),
    "ca_outlives_leaves": Trait(since=Minor(1, 20), unknown=True, source="upgrade guide of 1.20, Informational Notes: certgen"),
    "proxylib_removed": Trait(since=Minor(1, 20), unknown=True, source="upgrade guide of 1.20, Action Required: kafka, l7, l7proto"),
    # Policies
    "deny_without_isolation": Trait(
        since=Minor(1, 16), unknown=False, source="enableDefaultDeny, pkg/policy/api/rule.go of 1.16, not of 1.15"
    ),
    "port_ranges": Trait(since=Minor(1, 16), unknown=False, source="docs/decisions/0022: endPort is refused before 1.16"),
    "policy_kind_switches": Trait(
        since=Minor(1, 17),
        unknown=True,
        source="enable-cilium-(clusterwide-)network-policy: pkg/option/config.go of 1.17, not of 1.16",
    ),
    "newer_label_filters": Trait(since=Minor(1, 18), unknown=True, source="pkg/labelsfilter/filter.go of 1.18, not of 1.16 and 1.17"),
    "ip_block_beside_local_cluster": Trait(
        since=Minor(1, 19), unknown=False, source="1.18 adds the own cluster to the missing selector, and refuses both in one rule"
    ),
    "required_labels": Trait(before=Minor(1, 19), unknown=False, source="layer3.rst, fromRequires and toRequires: taken out in 1.19"),
    "entity_cluster_mesh": Trait(since=Minor(1, 20), unknown=True, source="pkg/policy/api/entity.go of 1.20"),
    "named_egress_ports_are_of_pods": Trait(
        since=Minor(1, 20), unknown=False, source="1.20.2's engine: a named port of egress matches no address outside, no node and no host"
    ),
    "empty_rule_refused": Trait(since=Minor(1, 17), unknown=True, source="PR 35904: a rule without any of the four lists is refused"),
    "one_source_per_label_key": Trait(
        since=Minor(1, 20),
        unknown=True,
        source="pkg/labels of 1.20, IsValidCiliumLabelKey: SOURCE:KEY; older ones read $KEY as reserved:KEY, and :KEY as KEY",
    ),
    "own_node_needs_ingress_rule": Trait(
        since=Minor(1, 20),
        unknown=True,
        source="pkg/policy/repository.go of 1.20.2: the own node is allowed only beside a rule for ingress; documented is: always",
        bug=48444,
    ),
    "negative_selectors_match_pods": Trait(
        since=Minor(1, 20),
        unknown=True,
        source="1.20.2: a selector that asks for no label matches reserved:aggregate-cluster, and an entry of that covers every pod",
        bug=46949,
    ),
    "policy_local_by_default": Trait(since=Minor(1, 19), unknown=True, source="PR 40609, policy-default-local-cluster defaults to true"),
}
"""The version matrix, by the name that ``holds`` takes."""


@dataclass(frozen=True, kw_only=True)
class Delay:
    """Time in seconds, from ``least`` to ``most``, that something takes in the minors ``since`` <= minor < ``before``."""

    since: Minor | None = None
    before: Minor | None = None
    least: int
    most: int
    source: str

    @property
    def shown(self) -> str:
        """Text such as ``20 to 25 s``, or ``180 s`` where it always takes the same time."""
        return f"{self.least} to {self.most} s" if self.least != self.most else f"{self.most} s"


DELAYS: Final[Mapping[str, tuple[Delay, ...]]] = {
    # Until kvstoremesh, or an agent without it, no longer reports a link as ready whose new connections fail.
    "refused_link_noticed": (
        Delay(before=Minor(1, 16), least=20, most=25, source="measured with 1.15.19: the status of each etcd endpoint is asked"),
        Delay(
            since=Minor(1, 16),
            least=60,
            most=130,
            source="measured with 1.20.2: 128 s. The remote cluster's etcd endpoints are not asked (remote_cluster.go, "
            "NoEndpointStatusChecks; PR 32341 shows it in 1.16), so only two missing heartbeats count (pkg/kvstore/etcd.go)",
        ),
    ),
    "silent_link_noticed": (
        Delay(before=Minor(1, 16), least=60, most=100, source="measured with 1.15.19: about 100 s"),
        Delay(since=Minor(1, 16), least=60, most=130, source="measured with 1.20.2: 86 to 90 s; two missing heartbeats, as above"),
    ),
    # From the start of clustermesh-apiserver.
    "first_heartbeat": (
        Delay(before=Minor(1, 20), least=0, most=5, source="measured with 1.15.19: at once. 1.16 to 1.19 are taken to do the same"),
        Delay(since=Minor(1, 20), least=60, most=65, source="measured with 1.20.2: after one interval (pkg/kvstore/heartbeat/cell.go)"),
    ),
    # Until kvstoremesh dials a peer again that was withdrawn.
    "withdrawn_peer_kept": (Delay(least=180, most=180, source="kvstoremesh's grace period before it removes the peer's data"),),
}
"""Delays of Cilium, by version: what a person waits for, or is misled by."""


def delay(name: str, version: CiliumVersion | Minor | None) -> Delay:
    """Return the delay for a version; of several, the longest where the version is not known.

    :raises KeyError: when there is no such row.
    """
    rows = DELAYS[name]
    if version is None:
        return max(rows, key=lambda row: row.most)
    release = version if isinstance(version, Minor) else version.release
    fitting = (row for row in rows if (row.since is None or row.since <= release) and (row.before is None or release < row.before))
    return next(fitting)


def holds(rule: str, version: CiliumVersion | Minor | None) -> bool:
    """Return whether the named row of ``RULES`` holds for a version.

    :raises KeyError: when there is no such row.
    """
    return RULES[rule].holds(version)


def bug_note(rule: str) -> str:
    """Return the name of Cilium's bug that the row describes, such as ``a bug of Cilium, issue 48444``."""
    return f"a bug of Cilium, issue {RULES[rule].bug}"


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
