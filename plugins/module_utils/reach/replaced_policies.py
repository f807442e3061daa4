# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Policies of a provider that intents replace: which of them may be deleted, and what is in the way. Pure.

Nothing in an object of the provider says for certain that it is the provider's: its documentation has neither a label nor a scheme of
names. So a policy is deleted only if the user names it, if only the provider wrote its content (managedFields), if the intent that
replaces it is in force, and if nothing that is denied or isolated opens (protection.py). With one policy in doubt none is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ..base.errors import InvalidInput
from ..base.input_problems import LABEL, SUBDOMAIN, Problems, sentence, suggest
from ..findings.finding import Finding
from ..findings.wording import item_finding, listed
from ..items.owned import delete_step
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.facts.traffic import ObjectFacts
from ..mesh.ownership.marks import OWNER_LABEL
from ..mesh.versions.cilium_values import parse_bool
from ..plan.steps import Step
from ..policies.workload_index import index_workloads
from .flows import place_of
from .planned_policies import scene_with_planned_policies
from .protection import LostProtection, losses
from .reach import Reach
from .workload_set import WorkloadSets, workload_sets

KEPT_POLICY: Final = "CM-INT-34"
"""Code of the finding about a policy of a provider that is not deleted."""

WAVE: Final = 1
DENY_WAVE: Final = 2
"""Wave of policies that deny. They go after all others: they may deny what another one allows, until that has gone."""

NOT_ENFORCED: Final[Mapping[str, bool | str]] = {
    "enable-policy": "never",
    "policy-audit-mode": True,
    "enable-cilium-network-policy": False,
    "enable-cilium-clusterwide-network-policy": False,
}
"""Settings with which policies are not enforced, by key. Policies are judged without these settings, which are taken back one day: then
what goes now would be missing."""

_FORMS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "name": (SUBDOMAIN, "must be the name of a policy"),
    "intent": (SUBDOMAIN, "must be the name of the connectivityIntent that replaces the policy"),
    "namespace": (re.compile(f"(?:{LABEL.pattern})?"), "must be a namespace, or be left out for a CiliumClusterwideNetworkPolicy"),
}
_FIELDS: Final = (*_FORMS, "clusters")

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ReplacedPolicy:
    """Policy of a provider that the user names. Without a ``namespace`` it is clusterwide."""

    name: str
    intent: str  # name of the ConnectivityIntent that replaces it
    namespace: str
    clusters: tuple[str, ...]  # inventory names

    @property
    def ref(self) -> ItemRef:
        """Reference to the intent."""
        return ItemRef(ItemKind.INTENT, self.intent)

    @property
    def shown(self) -> str:
        """Name of the policy, as ``ObjectFacts.shown``."""
        return f"CiliumNetworkPolicy {self.namespace}/{self.name}" if self.namespace else f"CiliumClusterwideNetworkPolicy {self.name}"


@dataclass(frozen=True, kw_only=True)
class PolicyRemoval:
    """Steps that delete policies, and findings about what is in the way. With findings there are no steps."""

    steps: tuple[Step, ...] = ()
    findings: tuple[Finding, ...] = ()


def replaced_policies(entries: Any, members: tuple[str, ...], intents: Collection[str]) -> tuple[ReplacedPolicy, ...]:
    """Parse the policies that the user names.

    :param entries: a list of mappings with the fields of ``ReplacedPolicy``; without clusters it is all members.
    :param intents: names of the intents in the variable ``cilium_mesh``.
    :raises InvalidInput: one is not valid; the message lists all problems.
    """
    problems = Problems()
    if not isinstance(entries, (list, tuple)):
        problems.add("policies", "must be a list of mappings with the keys name, namespace and intent")
        entries = ()
    parsed: dict[tuple[str, str], ReplacedPolicy] = {}
    for number, entry in enumerate(entries):
        path = f"policies[{number}]"
        values = problems.mapping(path, entry, _FIELDS, optional=False)
        texts = {key: str(values.get(key) or "") for key in _FORMS}
        wrong = {key: words for key, (form, words) in _FORMS.items() if not form.fullmatch(texts[key])} if values else {}
        for key, words in wrong.items():
            problems.add(f"{path}.{key}", words)
        if values and "intent" not in wrong and texts["intent"] not in intents:
            hint = suggest(texts["intent"], tuple(intents), "the intents there are")
            problems.add(f"{path}.intent", f"{texts['intent']} is not in connectivityIntents; {hint}")
        clusters = values.get("clusters") or members
        strangers = [str(name) for name in clusters if name not in members] if isinstance(clusters, (list, tuple)) else [str(clusters)]
        if strangers:
            problems.add(f"{path}.clusters", f"must be a list of clusters of the mesh, and {', '.join(strangers)} is none")
        if (texts["namespace"], texts["name"]) in parsed:
            problems.add(f"{path}.name", f"{texts['name']} is there twice")
        if not strangers:
            parsed[texts["namespace"], texts["name"]] = ReplacedPolicy(**texts, clusters=tuple(map(str, clusters)))
    if problems.found:
        remedy = "Correct policies (playbook migrate: cilium_mesh_provider_policies). No policy was deleted."
        raise InvalidInput(sentence(problems.found), remedy=remedy)
    return tuple(parsed.values())


def plan_removal(scene: Scene, named: Iterable[ReplacedPolicy], rows: Rows, managers: Collection[str]) -> PolicyRemoval:
    """Return which policies of a provider go.

    :param scene: with the policies of the intents, as they are or, in check mode, as a plan leaves them.
    :param rows: statuses of the intents in this scene.
    :param managers: field managers of the provider.
    """
    states = {str(row.get("name")): row for row in rows}
    findings: list[Finding] = []
    going: dict[tuple[str, str], tuple[ReplacedPolicy, ObjectFacts]] = {}
    for policy in named:
        findings += _not_in_force(policy, states[policy.intent])
        for host in policy.clusters:
            policies = scene.traffic[host].policies if host in scene.hosts else ()
            observed = next((entry for entry in policies if entry.shown == policy.shown), None)
            if observed is not None:
                findings += _not_of_provider(host, policy, observed, managers)
                going[host, policy.shown] = policy, observed
        findings += _not_observed(scene, policy)
    steps = sorted((_deletion(host, policy, observed) for (host, _shown), (policy, observed) in going.items()), key=lambda step: step.wave)
    findings += _protecting(scene, steps, {place: policy for place, (policy, _object) in going.items()}) if steps else ()
    findings += [_about_nodes(host, policy) for (host, _shown), (policy, observed) in going.items() if _selects_nodes(observed)]
    return PolicyRemoval(findings=tuple(findings)) if findings else PolicyRemoval(steps=tuple(steps))


def _deletion(host: str, policy: ReplacedPolicy, observed: ObjectFacts) -> Step:
    denies = any(rule.get("ingressDeny") or rule.get("egressDeny") for rule in (observed.spec, *observed.specs))
    step = delete_step(
        policy.ref, host, observed, wave=DENY_WAVE if denies else WAVE, why=f"ConnectivityIntent {policy.intent} replaces it", needs=()
    )
    return replace(step, undo="create it again from the copy that was saved before", item="")


def _kept(host: str, policy: ReplacedPolicy, *, why: str, evidence: str = "", fix: str) -> Finding:
    where = f" in {host}" if host else ""
    summary = f"{policy.shown}{where} is not deleted: {why}"
    return item_finding(policy.ref, KEPT_POLICY, (host,) if host else (), summary=summary, evidence=evidence, fix=fix)


def _not_in_force(policy: ReplacedPolicy, row: Mapping[str, Any]) -> Iterator[Finding]:
    if row.get("phase") != "Applied":
        why = f"the intent {policy.intent}, which replaces it, is {row.get('phase')} and not Applied in every cluster"
        yield _kept("", policy, why=why, fix="Run again when the intent is Applied.")


def _not_observed(scene: Scene, policy: ReplacedPolicy) -> Iterator[Finding]:
    silent = [host for host in policy.clusters if host not in scene.hosts]
    if silent:
        reasons = "; ".join(f"{host}: {scene.failures[host].message}" for host in silent if host in scene.failures)
        fix = "Run again when these clusters answer, or name the clusters that have the policy in its clusters."
        yield _kept("", policy, why=f"nothing is known of {listed(silent)}, which may have it", evidence=reasons, fix=fix)


def _not_of_provider(host: str, policy: ReplacedPolicy, observed: ObjectFacts, managers: Collection[str]) -> Iterator[Finding]:
    others = [name for name in observed.writers if name not in managers]
    if OWNER_LABEL in observed.labels:
        yield _kept(host, policy, why="it is a policy of this project", fix="Take it out of the list.")
    elif others:
        yield _kept(
            host,
            policy,
            why=f"it was written by {listed(others)}, and not by {listed(sorted(managers))} alone",
            fix="If these are field managers of the provider, name them (playbook migrate: cilium_mesh_provider_managers).",
        )
    elif not observed.writers:
        yield _kept(host, policy, why="it does not say who wrote it", fix="Delete it yourself, and take it out of the list.")


def _selects_nodes(observed: ObjectFacts) -> bool:
    return any("nodeSelector" in rule for rule in (observed.spec, *observed.specs))


def _about_nodes(host: str, policy: ReplacedPolicy) -> Finding:
    why = "it has a rule about nodes (nodeSelector), which is not evaluated, and which no intent replaces"
    return _kept(host, policy, why=why, fix="Delete it yourself if the nodes need no protection, and take it out of the list.")


def _protecting(scene: Scene, steps: Iterable[Step], policies: Mapping[tuple[str, str], ReplacedPolicy]) -> Iterator[Finding]:
    """Yield a finding for each policy that goes and protects what nothing else would, with the first example.

    All policies are judged together: one that goes protects nothing in place of another.
    """
    enforced = _enforced(scene)
    index, without = index_workloads(enforced), index_workloads(scene_with_planned_policies(enforced, steps))
    sets = workload_sets(index, without)
    gone: dict[str, set[str]] = {}
    for host, shown in policies:
        gone.setdefault(host, set()).add(shown)
    found: dict[tuple[str, str], LostProtection] = {}
    for loss in losses(Reach.of(sets), Reach.of(sets.seen_by(without)), gone):
        for shown in loss.policies:
            found.setdefault((loss.host, shown), loss)
    for (host, shown), loss in found.items():
        yield _kept(host, policies[host, shown], why=f"it {loss.what}", evidence=_example(loss, sets), fix=_fix(loss))


def _enforced(scene: Scene) -> Scene:
    """Return the scene as if policies were enforced in every cluster."""
    facts = {
        host: replace(entry, config={k: v for k, v in (entry.config or {}).items() if not _leaves_unenforced(k, v)})
        for host, entry in scene.facts.items()
    }
    return replace(scene, facts=facts)


def _leaves_unenforced(key: str, value: str) -> bool:
    without = NOT_ENFORCED.get(key)
    return without is not None and without in (value.lower(), parse_bool(value))


def _example(loss: LostProtection, sets: WorkloadSets) -> str:
    example = loss.example
    if example is None:
        return ""
    source, destination = (place_of(sets[number]) for number in (example.source, example.destination))
    return f"for example {source} -> {destination}: {example.ports} {'perhaps ' if example.outcome.value == 'unknown' else ''}allowed then"


def _fix(loss: LostProtection) -> str:
    by_hand = "delete the policy yourself, and take it out of the list."
    if loss.isolation:
        return f"Write an intent of action Isolate for the destination, and name it as the intent of the policy; or {by_hand}"
    if loss.example is not None:
        return f"Write an intent of action Deny that denies the same; or {by_hand}"
    return f"Compare the policy with the intents; if nothing is lost, {by_hand}"
