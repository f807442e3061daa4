# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rules of upgrades: what each minor of Cilium changes for a mesh, and how to tell from facts whether a cluster is concerned.

A rule begins with the first minor of its row in the version matrix (mesh/versions/minors.py), which has the source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from ..findings.wording import kubectl, listed, printable, where
from ..mesh.binding.model import MANAGER_DOMAIN
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.facts.traffic import ObjectFacts, TrafficFacts
from ..mesh.ownership.helm_upgrade import helm_upgrade
from ..mesh.versions.cilium_config import enabled
from ..mesh.versions.minors import RULES, Minor
from ..services.mesh_view import NAMESPACE_GLOBAL
from .effect import Effect, Need
from .forecast_facts import AUTH_MODE, Values, loses_users, renders_peers

NAMES_SHOWN: Final = 8

STRICT_NAME: Final = re.compile(r"(?=.{1,32}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
"""Names of clusters that agents of every version take (pkg/clustermesh/types/types.go)."""

YEAR: Final = timedelta(days=365)
OLD_NAME: Final = "clustermesh-apiserver.cilium.io"
_CHART_NAMES: Final = frozenset({OLD_NAME, "*.mesh.cilium.io"})


@dataclass(frozen=True, kw_only=True)
class HopContext:
    """One cluster before a hop. ``facts`` are those of all members at that moment; ``traffic`` None: policies could not be read."""

    cluster: ClusterFacts
    after: Minor
    facts: Mapping[str, ClusterFacts]
    traffic: TrafficFacts | None
    now: datetime
    first: bool = False  # whether it is the first hop of the cluster
    values: Values = field(default_factory=dict)  # Helm values that the user sets


Find = Callable[[HopContext], Iterator[Effect]]


@dataclass(frozen=True)
class UpgradeRule:
    """Rule that begins where the row ``name`` of the matrix begins, or where it ends. ``find`` yields its effects on a cluster."""

    name: str
    title: str
    find: Find

    @property
    def since(self) -> Minor:
        """First minor that behaves otherwise."""
        row = RULES[self.name]
        edge = row.since or row.before
        if edge is None:
            raise ValueError(f"rule {self.name} has no version")
        return edge

    @property
    def source(self) -> str:
        """Where Cilium states it."""
        return RULES[self.name].source


def effects_of(context: HopContext) -> tuple[Effect, ...]:
    """Return the effects of all rules that begin with the minor after the hop; for the first one, those of any hop too."""
    begun = (effect for rule in UPGRADE_RULES if rule.since == context.after for effect in rule.find(context))
    return tuple(with_given_values(effect, context.values) for effect in (*(helm_effect(context) if context.first else ()), *begun))


def with_given_values(effect: Effect, values: Values) -> Effect:
    """Return the effect; one that asks for values which the user sets asks for nothing any more."""
    wanted = [value.partition("=")[0::2] for value in effect.values]
    if effect.need is not Need.WITH or not all(values.get(key) == text.lower() for key, text in wanted):
        return effect
    return replace(effect, need=Need.NOTHING, summary=f"{effect.summary}; the values that you set keep it")


def _effect(name: str, context: HopContext, need: Need, summary: str, evidence: Iterable[str] = (), **more: Any) -> Effect:
    shown = tuple(printable(entry) for entry in evidence)
    return Effect(rule=name, cluster=context.cluster.host, need=need, summary=summary, evidence=shown, source=RULES[name].source, **more)


def _kvstoremesh(context: HopContext) -> Iterator[Effect]:
    if context.cluster.apiserver is not None and not context.cluster.runs_kvstoremesh:
        yield _effect(
            "kvstoremesh_by_default",
            context,
            Need.WITH,
            "kvstoremesh is off now and is on by default then: agents no longer dial peers themselves, and connect moves the keys",
            [f"{where(context.cluster, 'Deployment', 'clustermesh-apiserver')}: no container kvstoremesh"],
            values=("clustermesh.apiserver.kvstoremesh.enabled=false",),
        )


def _local_certificate(context: HopContext) -> Iterator[Effect]:
    facts, secret = context.cluster, context.cluster.local_cert
    if facts.runs_kvstoremesh and (not secret.present or secret.missing_keys):
        lacking = f"lacks {', '.join(secret.missing_keys)}" if secret.present else "is missing"
        yield _effect(
            "local_certificate_used",
            context,
            Need.BEFORE,
            "agents reach their own kvstoremesh with the local certificate then, and wait forever without it",
            [f"{where(facts, 'Secret', secret.name)} {lacking}"],
            commands=(
                f"Issue Secret {facts.namespace}/{secret.name} with the common name local-{facts.name}, from the CA of this cluster.",
            ),
        )
    elif facts.runs_kvstoremesh and any("common-etcd-client" in (key.config or "") for key in facts.clustermesh.keys.values()):
        yield _effect(
            "local_certificate_used",
            context,
            Need.AFTER,
            "agents reach their own kvstoremesh with the local certificate then: cilium-clustermesh names the former one",
            [f"{where(facts, 'Secret', 'cilium-clustermesh')}: files common-etcd-client"],
            commands=("Run the playbook connect, which writes them anew.",),
        )


def _cluster_name(context: HopContext) -> Iterator[Effect]:
    name = context.cluster.name
    if name and not STRICT_NAME.fullmatch(name):
        yield _effect(
            "strict_cluster_names",
            context,
            Need.BEFORE,
            "agents refuse to start with this cluster name: up to 32 lower-case letters, digits and '-' are allowed, with no '-' at an end",
            [f"cluster-name {name}"],
            commands=("Give the cluster another name and id first: docs/identity.md.",),
        )


def _users(context: HopContext) -> Iterator[Effect]:
    facts = context.cluster
    if facts.apiserver is None or (not facts.users_enabled and context.values.get(AUTH_MODE) == "legacy"):
        return
    if loses_users(facts, context.after):
        yield _effect(
            "remote_users_need_config",
            context,
            Need.BEFORE,
            "Helm deletes the ConfigMap of users with this hop, and clustermesh-apiserver does not start without it",
            [f"{where(facts, 'ConfigMap', 'clustermesh-remote-users')}: rendered by Helm, and clustermesh.config.enabled is off"],
            commands=(kubectl(facts, "annotate", "configmap", "clustermesh-remote-users", "helm.sh/resource-policy=keep"),),
        )
    elif not facts.users.present and not renders_peers(facts):
        yield _effect(
            "remote_users_need_config",
            context,
            Need.AFTER,
            "clustermesh-apiserver reads users from a ConfigMap that does not exist: its new pod waits for it, and the old one serves on",
            [f"{where(facts, 'ConfigMap', 'clustermesh-remote-users')} not found"],
            commands=("Run the playbook connect, which makes it, as soon as the agents are ready.",),
        )


def helm_effect(context: HopContext) -> Iterator[Effect]:
    """Yield what the Helm upgrade of any hop does to keys and users that a binding of this collection wrote into objects of Helm."""
    facts = context.cluster
    secrets = (facts.clustermesh, facts.kvstoremesh)
    ours = any(manager.startswith(MANAGER_DOMAIN) for secret in secrets for key in secret.keys.values() for manager in key.managers)
    upgrade = helm_upgrade(facts)
    if not (ours and renders_peers(facts)) or not (upgrade.empties_secrets or upgrade.refuses_keys or upgrade.has_users):
        return
    yield Effect(
        rule="helm_upgrade",
        cluster=facts.host,
        need=Need.BEFORE,
        summary=printable(f"every hop is a Helm upgrade, and that of {facts.host} would {upgrade.effect}"),
        evidence=(f"peers in Helm's values: {listed(upgrade.peers) or 'none'}",),
        commands=("Run the playbook adopt first (docs/ownership.md): then Helm leaves these objects alone.",),
        source="mesh/ownership/helm_upgrade.py, measured with Helm 4.3.1",
    )


def _auth_mode(context: HopContext) -> Iterator[Effect]:
    facts = context.cluster
    if facts.apiserver is not None and not facts.users_enabled and context.values.get(AUTH_MODE) != "legacy":
        yield _effect(
            "users_by_default",
            context,
            Need.NOTHING,
            "the auth mode becomes migration: each peer gets a user of its own, certificates stay valid, and connect adds the users",
            [f"{where(facts, 'Deployment', 'clustermesh-apiserver')}: no --cluster-users-enabled"],
            commands=("To keep the mode: --set clustermesh.apiserver.tls.authMode=legacy",),
        )


def _mutual_authentication(context: HopContext) -> Iterator[Effect]:
    names = _policies(context.traffic, _asks_for_authentication)
    if names and enabled(context.cluster, "mesh-auth-enabled"):
        yield _effect(
            "mutual_authentication_off",
            context,
            Need.WITH,
            f"mutual authentication is off by default then, and {_counted(names)} ask for it: their flows are not authenticated",
            names[:NAMES_SHOWN],
            values=("authentication.enabled=true",),
        )


def _required_labels(context: HopContext) -> Iterator[Effect]:
    names = _policies(context.traffic, _requires_labels)
    if names:
        yield _effect(
            "required_labels",
            context,
            Need.BEFORE,
            f"fromRequires and toRequires are refused then, and with them {_counted(names)}: pods that they isolate are open",
            names[:NAMES_SHOWN],
            commands=("Write the requirement into fromEndpoints and toEndpoints of these policies.",),
        )


def _mcs_crds(context: HopContext) -> Iterator[Effect]:
    if enabled(context.cluster, "clustermesh-enable-mcs-api"):
        yield _effect(
            "mcs_crds_installed",
            context,
            Need.NOTHING,
            "cilium-operator installs the CRDs of MCS-API itself when it starts, also over those that another tool installed",
            commands=("To keep another tool's: --set clustermesh.mcsapi.installCRDs=false",),
        )


def _mcs_value(context: HopContext) -> Iterator[Effect]:
    if enabled(context.cluster, "clustermesh-enable-mcs-api"):
        yield _effect(
            "mcs_old_value_removed",
            context,
            Need.WITH,
            "clustermesh.enableMCSAPISupport is removed: set by this value alone, MCS-API is off after the hop, with all exports",
            ["cilium-config: clustermesh-enable-mcs-api = true"],
            values=("clustermesh.mcsapi.enabled=true",),
        )


def _aliases(context: HopContext) -> Iterator[Effect]:
    facts = context.cluster
    having = [w for w in (facts.apiserver, facts.agent, facts.operator) if w is not None and w.host_aliases]
    if having:
        yield _effect(
            "aliases_in_config",
            context,
            Need.AFTER,
            "addresses of peers stand in their configuration then: connect writes them there, and takes them out of the pod templates",
            [f"{workload.kind} {workload.name}: {len(workload.host_aliases)} host aliases" for workload in having],
            commands=(
                f"Run the playbook connect: {listed([f'{w.kind} {w.name}' for w in having])} restarts once more; from then on "
                "a change of an address restarts nothing.",
            ),
        )


def _hidden_pods(context: HopContext) -> Iterator[Effect]:
    yield from _hidden_namespaces(context, "namespace_identities", "the identities of the pods")


def _hidden_backends(context: HopContext) -> Iterator[Effect]:
    yield from _hidden_namespaces(context, "namespace_filter", "the backends")


def _hidden_namespaces(context: HopContext, rule: str, lost: str) -> Iterator[Effect]:
    names = sorted(
        name
        for name, entry in (context.traffic.namespaces if context.traffic else {}).items()
        if entry.annotations.get(NAMESPACE_GLOBAL, "true").lower() != "true"
    )
    if names:
        yield _effect(
            rule,
            context,
            Need.BEFORE,
            f"the annotation {NAMESPACE_GLOBAL} counts from then on: other clusters lose {lost} of {listed(names)}",
            [f"Namespace {name}" for name in names[:NAMES_SHOWN]],
            commands=tuple(f"kubectl annotate namespace {name} {NAMESPACE_GLOBAL}-" for name in names[:NAMES_SHOWN]),
        )


def _server_name(context: HopContext) -> Iterator[Effect]:
    facts = context.cluster
    dialling = sorted(
        peer.host
        for peer in context.facts.values()
        if peer.host != facts.host
        for secret in (peer.kvstoremesh, peer.clustermesh)
        if f"//{OLD_NAME}:" in ((secret.keys[facts.name].config or "") if facts.name in secret.keys else "")
    )
    if dialling:
        yield _effect(
            "server_name_left_out",
            context,
            Need.WITH,
            f"the server certificate no longer holds {OLD_NAME}, by which {listed(dict.fromkeys(dialling))} dials it",
            values=(f"clustermesh.apiserver.tls.auto.server.extraDnsNames={{{OLD_NAME}}}",),
        )
    certificate = facts.server_cert.certificate
    own = [name for name in certificate.dns_names if name not in _CHART_NAMES and not name.endswith(".svc")] if certificate else []
    if own and facts.server_cert.owner in ("Helm", "certgen"):
        yield _effect(
            "server_name_left_out",
            context,
            Need.NOTHING,
            "clustermesh.apiserver.tls.server.extraDnsNames has a new name, clustermesh.apiserver.tls.auto.server.extraDnsNames; "
            "the former one still works",
            [f"names of the server certificate: {', '.join(own[:NAMES_SHOWN])}"],
        )


def _leaves(context: HopContext) -> Iterator[Effect]:
    if context.cluster.server_cert.owner == "Helm":
        yield _effect(
            "leaves_last_a_year",
            context,
            Need.NOTHING,
            "new certificates of the mesh last one year instead of three, and Helm renews them only with an upgrade",
            commands=("To keep three years: --set clustermesh.apiserver.tls.auto.certValidityDuration=1095",),
        )


def _short_ca(context: HopContext) -> Iterator[Effect]:
    facts = context.cluster
    ends = min((entry.not_after for entry in facts.ca.certificates), default=None)
    if facts.server_cert.owner == "certgen" and ends is not None and ends < context.now + YEAR:
        yield _effect(
            "ca_outlives_leaves",
            context,
            Need.BEFORE,
            f"certgen fails when its CA ends before the new certificates do, one year from then: this CA ends on {ends.date()}",
            [where(facts, "Secret", "cilium-ca")],
            commands=(
                "Replace the CA (playbook ca with ca_sync_state=rolled), or set certgen.enforceCAValidityThroughoutLeavesDuration=false.",
            ),
        )


def _proxylib(context: HopContext) -> Iterator[Effect]:
    names = _policies(context.traffic, _uses_proxylib)
    if names:
        yield _effect(
            "proxylib_removed",
            context,
            Need.BEFORE,
            f"rules of kafka, l7 and l7proto are removed, and {_counted(names)} have some",
            names[:NAMES_SHOWN],
            commands=("Take these rules out of the policies.",),
        )


UPGRADE_RULES: Final[tuple[UpgradeRule, ...]] = (
    UpgradeRule("kvstoremesh_by_default", "kvstoremesh is on by default", _kvstoremesh),
    UpgradeRule("local_certificate_used", "agents use the local certificate", _local_certificate),
    UpgradeRule("strict_cluster_names", "cluster names are validated strictly", _cluster_name),
    UpgradeRule("remote_users_need_config", "the chart renders no users without clustermesh.config.enabled", _users),
    UpgradeRule("users_by_default", "the default auth mode is migration", _auth_mode),
    UpgradeRule("mutual_authentication_off", "mutual authentication is off by default", _mutual_authentication),
    UpgradeRule("required_labels", "fromRequires and toRequires are refused", _required_labels),
    UpgradeRule("namespace_identities", "identities can be kept from other clusters by their namespace", _hidden_pods),
    UpgradeRule("mcs_crds_installed", "cilium-operator installs the CRDs of MCS-API", _mcs_crds),
    UpgradeRule("mcs_old_value_removed", "clustermesh.enableMCSAPISupport is removed", _mcs_value),
    UpgradeRule("aliases_in_config", "addresses of peers move into their configuration", _aliases),
    UpgradeRule("namespace_filter", "Services can be kept from other clusters by their namespace", _hidden_backends),
    UpgradeRule("server_name_left_out", "the server certificate has other names", _server_name),
    UpgradeRule("leaves_last_a_year", "certificates last one year", _leaves),
    UpgradeRule("ca_outlives_leaves", "certgen demands a CA that lasts long enough", _short_ca),
    UpgradeRule("proxylib_removed", "rules of kafka, l7 and l7proto are removed", _proxylib),
)
"""All rules that begin with a minor. What changes in the meaning of policies is evaluated (forecast.py)."""


def _policies(traffic: TrafficFacts | None, concerned: Callable[[ObjectFacts], bool]) -> list[str]:
    return [policy.shown for policy in traffic.policies if concerned(policy)] if traffic else []


def _counted(names: list[str]) -> str:
    return "1 policy" if len(names) == 1 else f"{len(names)} policies"


def _rules_of(policy: ObjectFacts) -> Iterator[Mapping[str, Any]]:
    for spec in (policy.spec, *policy.specs):
        for direction in ("ingress", "egress", "ingressDeny", "egressDeny"):
            yield from _mappings(spec.get(direction))


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, (list, tuple)) else []


def _requires_labels(policy: ObjectFacts) -> bool:
    return any(rule.get("fromRequires") or rule.get("toRequires") for rule in _rules_of(policy))


def _uses_proxylib(policy: ObjectFacts) -> bool:
    inspected = (port.get("rules") for rule in _rules_of(policy) for port in _mappings(rule.get("toPorts")))
    return any(isinstance(rules, Mapping) and any(rules.get(key) for key in ("kafka", "l7", "l7proto")) for rules in inspected)


def _asks_for_authentication(policy: ObjectFacts) -> bool:
    modes = (rule.get("authentication") for rule in _rules_of(policy))
    return any(isinstance(mode, Mapping) and mode.get("mode") == "required" for mode in modes)
