# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Policies of a provider that this project replaces: which of them may be deleted, and what is in the way. Pure.

Nothing in an object of the provider says for certain that it is the provider's: its documentation has neither a label nor a scheme of
names. So a policy is deleted only if the user names it, if nobody but the provider ever wrote its content (managedFields), and if the
intent that replaces it is in force. With a problem nothing is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..module_utils.base.input_problems import LABEL, Problems
from ..module_utils.mesh.marks import OWNER_LABEL

NAMESPACED: Final = "CiliumNetworkPolicy"
CLUSTERWIDE: Final = "CiliumClusterwideNetworkPolicy"

_OBJECT: Final = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_FORMS: Final = {
    "name": (_OBJECT, "must be the name of a policy"),
    "intent": (_OBJECT, "must be the name of the connectivityIntent that replaces the policy"),
    "namespace": (re.compile(f"(?:{LABEL.pattern})?"), "must be a namespace, or be left out for a CiliumClusterwideNetworkPolicy"),
}
_FIELDS: Final = (*_FORMS, "clusters")

Object = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ProviderPolicy:
    """Policy that the user names. Without a ``namespace`` it is clusterwide."""

    name: str
    intent: str
    namespace: str
    clusters: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Kind of the policy."""
        return NAMESPACED if self.namespace else CLUSTERWIDE

    @property
    def title(self) -> str:
        """Kind, namespace and name."""
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Policies that go, and sentences about what is in the way. With ``problems`` there are no ``deletions``."""

    deletions: tuple[dict[str, str], ...]
    problems: tuple[str, ...]


def removal_of(
    entries: Any, found: Mapping[str, Sequence[Object]], rows: Sequence[Object], managers: Collection[str], *, foreseen: bool
) -> Removal:
    """Return which policies of a provider go.

    :param entries: user input, a list of mappings with the fields of ``ProviderPolicy``; without clusters it is all of them.
    :param found: every policy of both kinds in each cluster of the mesh, by inventory name.
    :param rows: statuses of the intents after the run that wrote them.
    :param managers: field managers of the provider.
    :param foreseen: nothing was written (check mode): an intent counts as soon as it is accepted.
    """
    problems = Problems()
    parsed = _parse(problems, entries, tuple(found))
    states = {str(row.get("name")): row for row in rows}
    texts, deletions = list(problems.found), list[dict[str, str]]()
    for policy in parsed:
        texts += _not_replaced(policy, states.get(policy.intent), foreseen)
        for cluster in policy.clusters:
            obj = next((obj for obj in found[cluster] if _is(obj, policy)), None)
            if obj is not None:
                texts += _foreign(cluster, policy, obj, managers)
                deletions.append(_deletion(cluster, policy, obj))
    return Removal(deletions=() if texts else tuple(deletions), problems=tuple(dict.fromkeys(texts)))


def _parse(problems: Problems, entries: Any, known: tuple[str, ...]) -> list[ProviderPolicy]:
    if not isinstance(entries, (list, tuple)):
        problems.add("policies", "must be a list of mappings with the keys name, namespace and intent")
        return []
    parsed: dict[tuple[str, str], ProviderPolicy] = {}
    for number, entry in enumerate(entries):
        path = f"policies[{number}]"
        values = problems.mapping(path, entry, _FIELDS, optional=False)
        texts = {key: str(values.get(key) or "") for key in _FORMS}
        wrong = {key: words for key, (form, words) in _FORMS.items() if not form.fullmatch(texts[key])}
        for key, words in wrong.items() if values else ():
            problems.add(f"{path}.{key}", words)
        clusters = values.get("clusters") or known
        strangers = [str(name) for name in clusters if name not in known] if isinstance(clusters, (list, tuple)) else [str(clusters)]
        if strangers:
            problems.add(f"{path}.clusters", f"must be a list of clusters of the mesh, and {', '.join(strangers)} is none")
        if (texts["namespace"], texts["name"]) in parsed:
            problems.add(f"{path}.name", f"{texts['name']} is there twice")
        if not wrong and not strangers:
            parsed[texts["namespace"], texts["name"]] = ProviderPolicy(**texts, clusters=tuple(map(str, clusters)))
    return list(parsed.values())


def _is(obj: Object, policy: ProviderPolicy) -> bool:
    metadata = obj["metadata"]
    return (obj.get("kind"), metadata.get("namespace") or "", metadata["name"]) == (policy.kind, policy.namespace, policy.name)


def _not_replaced(policy: ProviderPolicy, row: Object | None, foreseen: bool) -> Iterator[str]:
    if row is None:
        yield f"{policy.title} names the intent {policy.intent}, which is not in connectivityIntents. Add it, or correct the name."
        return
    conditions = {str(entry.get("type")): str(entry.get("status")) for entry in row.get("conditions") or ()}
    is_in_force = conditions.get("Accepted") == "True" if foreseen else row.get("phase") == "Applied"
    if not is_in_force:
        phase = row.get("phase")
        yield f"{policy.title} stays: the intent {policy.intent}, which replaces it, is {phase} and not Applied in every cluster."


def _foreign(cluster: str, policy: ProviderPolicy, obj: Object, managers: Collection[str]) -> Iterator[str]:
    metadata = obj["metadata"]
    if OWNER_LABEL in (metadata.get("labels") or {}):
        yield f"{policy.title} in {cluster} is a policy of this project. Take it out of the list."
        return
    writers = {str(entry.get("manager")) for entry in metadata.get("managedFields") or () if not entry.get("subresource")}
    others = sorted(writers - {*managers})
    if others:
        yield (
            f"{policy.title} in {cluster} was written by {', '.join(others)}, and not by {', '.join(sorted(managers))} alone. "
            "If these are field managers of the provider, name them."
        )
    elif not writers:
        yield f"{policy.title} in {cluster} does not say who wrote it. Delete it yourself."


def _deletion(cluster: str, policy: ProviderPolicy, obj: Object) -> dict[str, str]:
    metadata = obj["metadata"]
    return {
        "cluster": cluster,
        "kind": policy.kind,
        "namespace": policy.namespace,
        "name": policy.name,
        "uid": str(metadata.get("uid") or ""),
        "resourceVersion": str(metadata.get("resourceVersion") or ""),
    }
