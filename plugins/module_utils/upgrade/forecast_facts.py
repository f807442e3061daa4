# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of a cluster as the chart of the next minor leaves it, with the same values of the user and the chart's own defaults.

A value that equals the old default looks like one that the user set; it is taken as the default, unless the user says that it is set
(``Values``). The steps name each value that keeps the old behaviour.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..mesh.facts.cluster import ClusterFacts, RemoteUsersFacts, WorkloadFacts
from ..mesh.ownership.gitops import KEEP, made_by_helm
from ..mesh.versions.minors import Minor, first_minor, holds

_TAG: Final = re.compile(r":v[0-9][^@]*")


Values = Mapping[str, str]
"""Helm values that the user sets with the upgrade: dotted key -> text, in lower-case letters where it is a boolean."""

AUTH_MODE: Final = "clustermesh.apiserver.tls.authMode"


@dataclass(frozen=True)
class DefaultChange:
    """Key of cilium-config whose default is another one from the first minor of ``rule`` (mesh/versions/minors.py) on."""

    rule: str
    key: str
    before: str  # default of the minors before; "" where they have no such key
    after: str
    value: str  # the Helm value that sets it


DEFAULTS: Final[tuple[DefaultChange, ...]] = (
    DefaultChange("policy_local_key", "policy-default-local-cluster", "", "false", "clustermesh.policyDefaultLocalCluster"),
    DefaultChange("policy_local_by_default", "policy-default-local-cluster", "false", "true", "clustermesh.policyDefaultLocalCluster"),
    DefaultChange("mutual_authentication_off", "mesh-auth-enabled", "true", "false", "authentication.enabled"),
    DefaultChange("cache_ttl", "clustermesh-cache-ttl", "", "0s", "clustermesh.cacheTTL"),
    DefaultChange("mcs_crds_installed", "clustermesh-mcs-api-install-crds", "", "true", "clustermesh.mcsapi.installCRDs"),
    DefaultChange("namespace_filter", "clustermesh-default-global-namespace", "", "true", "clustermesh.defaultGlobalNamespace"),
)
"""Defaults that a mesh depends on, read from cilium-configmap.yaml of the chart of each minor."""


def changed_defaults(facts: ClusterFacts, after: Minor, values: Values | None = None) -> tuple[DefaultChange, ...]:
    """Return the defaults that become other ones with the hop to ``after``, where the cluster has the old one and no value is set."""
    config, given = facts.config or {}, values or {}
    return tuple(
        change
        for change in DEFAULTS
        if first_minor(change.rule) == after and config.get(change.key, "") == change.before and change.value not in given
    )


def facts_after(facts: ClusterFacts, after: Minor, values: Values | None = None) -> ClusterFacts:
    """Return the facts after the hop to ``after``: images, keys of cilium-config, and the users of clustermesh-apiserver."""
    given = values or {}
    config = dict(facts.config or {}) | {change.key: change.after for change in changed_defaults(facts, after, given)}
    config |= {change.key: given[change.value] for change in DEFAULTS if change.value in given and first_minor(change.rule) <= after}
    apiserver = _with_image(facts.apiserver, after)
    users = facts.users
    if apiserver is not None and holds("remote_users_need_config", after):
        if not facts.users_enabled and given.get(AUTH_MODE) != "legacy":
            apiserver = _with_users(apiserver)
        if loses_users(facts, after):
            users = RemoteUsersFacts()
        elif not users.present and renders_peers(facts):
            users = RemoteUsersFacts(
                present=True, text="users:\n", labels=facts.clustermesh.labels, annotations=facts.clustermesh.annotations
            )
    return replace(
        facts,
        config=config if facts.config is not None else None,
        agent=_with_image(facts.agent, after),
        apiserver=apiserver,
        operator=_with_image(facts.operator, after),
        users=users,
    )


def prepared_facts(facts: ClusterFacts, after: Minor) -> ClusterFacts:
    """Return the facts before the hop to ``after`` once what the rules ask for was done: a ConfigMap of users that Helm made stays."""
    if not loses_users(facts, after):
        return facts
    return replace(facts, users=replace(facts.users, annotations={**facts.users.annotations, KEEP: "keep"}))


def loses_users(facts: ClusterFacts, after: Minor) -> bool:
    """Return whether Helm deletes the ConfigMap of users with the hop: its chart made it, and makes it no more.

    Before 1.19 the chart renders it for every mode but legacy; from 1.19 on only with ``clustermesh.config.enabled``, with which it renders
    the Secrets of peers too (users-configmap.yaml of both).
    """
    ends = first_minor("remote_users_need_config") == after
    rendered = made_by_helm(facts.users.labels, facts.users.annotations)
    return ends and facts.users.present and rendered and not renders_peers(facts) and facts.users.annotations.get(KEEP) != "keep"


def renders_peers(facts: ClusterFacts) -> bool:
    """Return whether Helm renders the Secrets of peers: ``clustermesh.config.enabled`` is on, and no hand-over has begun."""
    secrets = (facts.clustermesh, facts.kvstoremesh)
    return any(s.present and made_by_helm(s.labels, s.annotations) and s.annotations.get(KEEP) != "keep" for s in secrets)


def _with_image(workload: WorkloadFacts | None, after: Minor) -> WorkloadFacts | None:
    if workload is None:
        return None
    images = {name: _TAG.sub(f":v{after}.0", image, count=1).partition("@")[0] for name, image in workload.containers.items()}
    labels: Mapping[str, str] = workload.labels
    if "helm.sh/chart" in labels:
        labels = {**labels, "helm.sh/chart": f"cilium-{after}.0"}
    return replace(workload, containers=images, labels=labels)


def _with_users(apiserver: WorkloadFacts) -> WorkloadFacts:
    """Return the Deployment with the arguments of the mode ``migration``, the default from 1.19 on."""
    arguments = (*apiserver.arguments.get("apiserver", ()), "--cluster-users-enabled")
    return replace(apiserver, arguments={**apiserver.arguments, "apiserver": arguments})
