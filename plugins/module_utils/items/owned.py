# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects that an item owns as a whole: those to create, change and delete, and foreign ones, which stay. Pure.

Every such object carries the labels of its binding and the annotation ``ITEM_ANNOTATION``. There is no other inventory: a binding's
objects are found by these marks, so nothing has to be kept in step with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.item_kinds import ItemKind, ItemRef
from ..mesh.binding.model import MANAGER_DOMAIN, Binding
from ..mesh.facts.traffic import ObjectFacts
from ..mesh.ownership.marks import MANAGED_BY_LABEL, OWNER_LABEL
from ..mesh.ownership.objects import labels_of_new_object
from ..plan.steps import ApiWrite, Step, digest_of
from .policy_waves import Rule, cease_wave, replaces_at_once, span_of

ITEM_ANNOTATION: Final = f"{MANAGER_DOMAIN}/item"
"""Annotation with the item that an object was made for, e.g. ``globalServices/nginx``."""

CONTENT_ANNOTATION: Final = f"{MANAGER_DOMAIN}/content"
"""Annotation with the digest of the applied object. If a field is no longer wanted (a port of a rule, say), all wanted fields are still in
place; only the digest shows that the object has more than it should."""

FORMER_RULES_ANNOTATION: Final = f"{MANAGER_DOMAIN}/former-rules"
"""Annotation of a policy in ``specs`` of which former rules stay until the end of the run, with their digest: they are this mesh's."""

FOREIGN: Final = "CM-ITEM-02"
"""Code of the finding about a foreign object with the name of an object of an item."""

DRIFTED: Final = "CM-ITEM-04"
"""Code of the finding about an object of an item in which another writer added fields."""

EXACT: Final = frozenset({"CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"})
"""Kinds in which any further field changes the meaning, and to which API servers add no defaults: such an object is compared exactly."""

NAME_LIMIT: Final = 63


@dataclass(frozen=True, kw_only=True)
class DesiredObject:
    """Object as an item wants it.

    ``body`` has apiVersion, kind, metadata.name, metadata.namespace and all fields of the item; ``owned_object`` adds the marks.
    """

    cluster: str  # inventory name
    collection: str  # API path that it is created in
    body: Mapping[str, Any]
    why: str

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.body["metadata"]["name"])

    @property
    def path(self) -> str:
        """API path of the object."""
        return f"{self.collection}/{self.name}"

    @property
    def shown(self) -> str:
        """Name of the object for messages, e.g. ``CiliumNetworkPolicy production/allow-frontend-1a2b3c4d``."""
        namespace = self.body["metadata"].get("namespace", "")
        return f"{self.body['kind']} {namespace + '/' if namespace else ''}{self.name}"


def object_name(binding: Binding, ref: ItemRef, *more: str) -> str:
    """Return the name of an object of ``ref``: readable, and different from that of every other item, binding and workspace.

    It has at most 63 characters.
    """
    digest = hashlib.sha256("\0".join((binding.owner, str(ref), *more)).encode()).hexdigest()[:10]
    readable = "".join(c if c.isalnum() else "-" for c in ref.name)[: NAME_LIMIT - 11].strip("-")
    return f"{readable}-{digest}"


def item_marks(binding: Binding, ref: ItemRef) -> dict[str, dict[str, str]]:
    """Return the labels and annotations of every object of an item, as part of metadata."""
    return {"labels": labels_of_new_object(binding), "annotations": {ITEM_ANNOTATION: str(ref)}}


def owned_object(binding: Binding, ref: ItemRef, cluster: str, collection: str, body: Mapping[str, Any], *, why: str) -> DesiredObject:
    """Return ``body`` with the marks of the binding and the item."""
    metadata, own = dict(body["metadata"]), item_marks(binding, ref)
    for key, values in own.items():
        metadata[key] = {**(metadata.get(key) or {}), **values}
    content = digest_of({**body, "metadata": metadata})[:16]
    metadata["annotations"] = {**metadata["annotations"], CONTENT_ANNOTATION: content}
    return DesiredObject(cluster=cluster, collection=collection, body={**body, "metadata": metadata}, why=why)


def owning_item(binding: Binding, found: ObjectFacts) -> ItemRef | None:
    """Return the item of this binding that made the object; None if the object is foreign."""
    if found.labels.get(OWNER_LABEL) != binding.owner or found.labels.get(MANAGED_BY_LABEL) != MANAGER_DOMAIN:
        return None
    return ItemRef.parse(found.annotations.get(ITEM_ANNOTATION, ""))


def object_changes(
    binding: Binding,
    ref: ItemRef,
    wanted: Iterable[DesiredObject],
    observed: Mapping[str, Iterable[ObjectFacts]],
    *,
    wave: int = 0,
    prune_wave: int = 0,
) -> tuple[list[Step], list[Finding]]:
    """Return the steps that make the objects of ``ref`` as wanted and prune those no longer wanted, and findings about foreign ones.

    :param observed: by inventory name, every object of the kinds that the item may have; clusters that are not in it are left alone.
    :param wave: of writes; 0: of each policy by what it says (items/policy_waves.py), and so with ``prune_wave``.
    """
    steps: list[Step] = []
    findings: list[Finding] = []
    places = {host: {entry.path: entry for entry in entries} for host, entries in observed.items()}
    kept: dict[str, set[str]] = {}
    for entry in wanted:
        if entry.cluster not in places:
            continue
        kept.setdefault(entry.cluster, set()).add(entry.path)
        found = places[entry.cluster].get(entry.path)
        if found is not None and owning_item(binding, found) is None:
            findings.append(_foreign(ref, entry))
        elif found is None or not matches_body(found, entry.body):
            steps += _writes(ref, entry, found, wave, prune_wave)
        elif entry.body["kind"] in EXACT and (found.spec != entry.body.get("spec") or found.specs):
            findings.append(_drifted(ref, entry))
    for host, entries in places.items():
        gone = [o for path, o in entries.items() if owning_item(binding, o) == ref and path not in kept.get(host, ())]
        why = "the item no longer asks for it"
        steps += [_prune(ref, host, o, prune_wave, why, needs=_needs(ref, o.kind)) for o in sorted(gone, key=_is_policy)]
    return steps, findings


def prune_steps(
    binding: Binding, kind: ItemKind, kept: Collection[str], observed: Mapping[str, Iterable[ObjectFacts]], *, wave: int = 0
) -> list[Step]:
    """Return the deletion of every object whose item of ``kind`` does not exist any more.

    :param kept: names of the items that exist.
    :param wave: as ``prune_wave`` of ``object_changes``.
    """
    steps = []
    for host, entries in observed.items():
        for entry in sorted(entries, key=_is_policy):
            ref = owning_item(binding, entry)
            if ref is not None and ref.kind is kind and ref.name not in kept:
                why = f"{kind.crd} {ref.name} is no longer wanted"
                steps.append(_prune(ref, host, entry, wave, why, needs=(kind.value,)))
    return steps


def matches_body(observed: ObjectFacts, body: Mapping[str, Any]) -> bool:
    """Return whether the object has everything that ``body`` wants.

    Further labels and annotations of other writers do not matter; lists are compared as a whole.
    """
    metadata = body["metadata"]
    marked = all(observed.labels.get(k) == v for k, v in (metadata.get("labels") or {}).items()) and all(
        observed.annotations.get(k) == v for k, v in (metadata.get("annotations") or {}).items()
    )
    return marked and contains(observed.spec, body.get("spec") or {})


def contains(observed: Any, wanted: Any) -> bool:
    """Return whether ``wanted`` is within ``observed``.

    Mappings are compared key by key (the API server adds defaults), lists element by element and by length.
    """
    if observed == wanted:  # nearly always, and in C: a mesh of 1,000 items compares 9,000 specs
        return True
    if isinstance(wanted, Mapping):
        return isinstance(observed, Mapping) and all(key in observed and contains(observed[key], value) for key, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        same = isinstance(observed, (list, tuple)) and len(observed) == len(wanted)
        return same and all(contains(a, b) for a, b in zip(observed, wanted, strict=True))
    return False


def delete_step(ref: ItemRef, host: str, found: ObjectFacts, *, wave: int, why: str, needs: tuple[str, ...]) -> Step:
    """Return the deletion of exactly the observed object, with its uid and resource version as preconditions.

    :param needs: see ``Step.needs``.
    """
    body = {"metadata": {"uid": found.uid, "resourceVersion": found.resource_version}}
    return Step(
        wave=wave,
        cluster=host,
        verb="delete",
        object=found.shown,
        why=why,
        undo=f"put {ref.kind.crd} {ref.name} back",
        item=str(ref),
        needs=needs,
        action=ApiWrite(method="delete", path=found.path, body=body),
    )


def _is_policy(found: ObjectFacts) -> bool:
    """Return whether the object goes after all others of its item: it may restrict what they open."""
    return found.kind in EXACT


def _prune(ref: ItemRef, host: str, found: ObjectFacts, wave: int, why: str, *, needs: tuple[str, ...]) -> Step:
    when = _cease_wave(wave, (found.spec, *_former_rules(found))) if _is_policy(found) else wave
    return delete_step(ref, host, found, wave=when, why=why, needs=needs)


def _cease_wave(wave: int, rules: Iterable[Rule]) -> int:
    """Return the wave in which rules cease: after the other objects of the kind, or by what they say if ``wave`` is 0."""
    return wave + 1 if wave else cease_wave(rules)


def _needs(ref: ItemRef, kind: str) -> tuple[str, ...]:
    """Return what has to be written before something of an item goes. What a policy closes, another item may close from now on."""
    return (str(ref), ref.kind.value) if kind in EXACT else (str(ref),)


def _former_rules(observed: ObjectFacts) -> tuple[Rule, ...]:
    """Return the rules that this mesh left beside the new one, in a run that did not come to its end."""
    ours = observed.specs and observed.annotations.get(FORMER_RULES_ANNOTATION) == digest_of(list(observed.specs))[:16]
    return observed.specs if ours else ()


def _writes(ref: ItemRef, wanted: DesiredObject, observed: ObjectFacts | None, wave: int, prune_wave: int) -> list[Step]:
    """Return the write of an object; of a policy whose rule changes, two: the new rule beside the former ones, then alone."""
    kind, rule = wanted.body["kind"], wanted.body.get("spec") or {}
    if kind not in EXACT:
        return [_apply(ref, wanted, observed, wave)]
    begin = wave or span_of(rule).begin
    former = () if observed is None else tuple(entry for entry in (observed.spec, *_former_rules(observed)) if entry and entry != rule)
    if observed is None or not former or (len(former) == 1 and observed.spec != rule and replaces_at_once(rule, former[0])):
        return [_apply(ref, wanted, observed, begin)]
    metadata = dict(wanted.body["metadata"])
    metadata["annotations"] = {
        **metadata["annotations"],
        CONTENT_ANNOTATION: digest_of([wanted.body, former])[:16],
        FORMER_RULES_ANNOTATION: digest_of(list(former))[:16],
    }
    both = replace(
        wanted, body={**wanted.body, "metadata": metadata, "specs": list(former)}, why=f"{wanted.why}; the former rule stays for now"
    )
    alone = _apply(ref, replace(wanted, why=f"{wanted.why}; the former rule goes"), observed, _cease_wave(prune_wave, former))
    last = replace(alone, needs=_needs(ref, kind))
    return [_apply(ref, both, observed, begin), last] if observed.spec != rule else [last]


def _apply(ref: ItemRef, wanted: DesiredObject, observed: ObjectFacts | None, wave: int) -> Step:
    make: Callable[..., Step] = partial(
        Step,
        wave=wave,
        cluster=wanted.cluster,
        object=wanted.shown,
        why=wanted.why,
        item=str(ref),
        undo=f"remove {ref.kind.crd} {ref.name}",
    )
    body = dict(wanted.body)
    if observed is not None:  # an object that another writer deletes and creates anew meanwhile is foreign
        body = {**body, "metadata": {**body["metadata"], "uid": observed.uid}}
    return make(verb="create" if observed is None else "patch", action=ApiWrite(method="apply", path=wanted.path, body=body))


def _foreign(ref: ItemRef, wanted: DesiredObject) -> Finding:
    return finding(
        FOREIGN,
        cluster=wanted.cluster,
        item=str(ref),
        summary=f"{wanted.shown} exists and was not made by this mesh; it is left as it is",
        evidence=f"its labels {OWNER_LABEL} and {MANAGED_BY_LABEL} name another owner, or none",
        fix=f"Rename {ref.kind.crd} {ref.name}, or delete that object if it is not needed.",
    )


def _drifted(ref: ItemRef, wanted: DesiredObject) -> Finding:
    return finding(
        DRIFTED,
        cluster=wanted.cluster,
        item=str(ref),
        summary=f"another writer has added to {wanted.shown}, so it says more than {ref.kind.crd} {ref.name}",
        evidence="its spec holds all that this mesh wrote for the item, and fields that this mesh did not write",
        fix="Remove the added fields, or delete the object: the next run writes it again.",
    )
