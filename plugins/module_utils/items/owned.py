# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects that an item makes as a whole: what is to be created, changed, deleted, and what is somebody else's and stays. Pure.

Every such object carries the labels of its binding and the annotation ``ITEM_ANNOTATION``. That is the whole inventory: what a binding made
is found on the objects themselves, so nothing has to be kept in step with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ..findings import Finding, Severity
from ..model import MANAGER_DOMAIN, Binding
from ..ownership import labels_of_new_object
from ..steps import MANAGED_BY_LABEL, OWNER_LABEL, ApiWrite, Step, digest_of
from .facts import ObjectFacts
from .kinds import ItemKind, ItemRef

ITEM_ANNOTATION: Final = f"{MANAGER_DOMAIN}/item"
"""``globalServices/nginx``: the item that an object was made for."""

CONTENT_ANNOTATION: Final = f"{MANAGER_DOMAIN}/content"
"""Digest of what was applied. A field that is no longer wanted (a port of a rule, say) leaves everything that is wanted in its place; only
the digest tells that the object says more than it should."""

FOREIGN: Final = "CM-ITEM-02"
"""Code of the finding about an object of somebody else that stands where ours should."""

DRIFTED: Final = "CM-ITEM-04"
"""Code of the finding about an object of ours in which somebody else has written."""

EXACT: Final = frozenset({"CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"})
"""Kinds in which a word more changes the meaning, and to which API servers add no defaults: such an object has to be ours to the letter."""

NAME_LIMIT: Final = 63


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An object as it should be. ``body`` has apiVersion, kind, metadata.name, metadata.namespace and all that is ours; ``owned_object``
    puts the marks on it."""

    cluster: str  # inventory name
    collection: str  # API path that it is created in
    body: Mapping[str, Any]
    why: str

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.name}"

    @property
    def shown(self) -> str:
        """``CiliumNetworkPolicy production/allow-frontend-1a2b3c4d``."""
        namespace = self.body["metadata"].get("namespace", "")
        return f"{self.body['kind']} {namespace + '/' if namespace else ''}{self.name}"


def object_name(binding: Binding, ref: ItemRef, *more: str) -> str:
    """Name of an object of ``ref``: readable, and unlike that of every other item, binding and workspace. At most 63 characters."""
    digest = hashlib.sha256("\0".join((binding.owner, str(ref), *more)).encode()).hexdigest()[:10]
    readable = "".join(c if c.isalnum() else "-" for c in ref.name)[: NAME_LIMIT - 11].strip("-")
    return f"{readable}-{digest}"


def marks(binding: Binding, ref: ItemRef) -> dict[str, dict[str, str]]:
    """Labels and annotations of every object of ours, as part of metadata."""
    return {"labels": labels_of_new_object(binding), "annotations": {ITEM_ANNOTATION: str(ref)}}


def owned_object(binding: Binding, ref: ItemRef, cluster: str, collection: str, body: Mapping[str, Any], *, why: str) -> Wanted:
    """``body`` with the marks of the binding and the item."""
    metadata, own = dict(body["metadata"]), marks(binding, ref)
    for key, values in own.items():
        metadata[key] = {**(metadata.get(key) or {}), **values}
    content = digest_of({**body, "metadata": metadata})[:16]
    metadata["annotations"] = {**metadata["annotations"], CONTENT_ANNOTATION: content}
    return Wanted(cluster=cluster, collection=collection, body={**body, "metadata": metadata}, why=why)


def item_of(binding: Binding, found: ObjectFacts) -> ItemRef | None:
    """The item of this binding that made the object; None when it is somebody else's."""
    if found.labels.get(OWNER_LABEL) != binding.owner or found.labels.get(MANAGED_BY_LABEL) != MANAGER_DOMAIN:
        return None
    return ItemRef.parse(found.annotations.get(ITEM_ANNOTATION, ""))


def changes(
    binding: Binding, ref: ItemRef, wanted: Iterable[Wanted], observed: Mapping[str, Iterable[ObjectFacts]], *, wave: int, prune_wave: int
) -> tuple[list[Step], list[Finding]]:
    """Steps that make the objects of ``ref`` as wanted, deletion of those that it no longer wants, and findings about foreign ones.

    :param observed: by inventory name, every object of the kinds that the item may have; clusters that are not in it are left alone.
    """
    steps: list[Step] = []
    findings: list[Finding] = []
    places = {host: {entry.path: entry for entry in entries} for host, entries in observed.items()}
    kept: dict[str, set[str]] = {}
    for entry in wanted:
        if entry.cluster not in places:
            continue
        kept.setdefault(entry.cluster, set()).add(entry.path)
        there = places[entry.cluster].get(entry.path)
        if there is not None and item_of(binding, there) is None:
            findings.append(_foreign(ref, entry))
        elif there is None or not says(there, entry.body):
            steps.append(_apply(ref, entry, there, wave))
        elif entry.body["kind"] in EXACT and (there.spec != entry.body.get("spec") or there.specs):
            findings.append(_drifted(ref, entry))
    for host, entries in places.items():
        gone = [o for path, o in entries.items() if item_of(binding, o) == ref and path not in kept.get(host, ())]
        steps += [delete_step(ref, host, o, wave=prune_wave, why="the item no longer asks for it") for o in gone]
    return steps, findings


def leftovers(
    binding: Binding, kind: ItemKind, kept: Collection[str], observed: Mapping[str, Iterable[ObjectFacts]], *, wave: int
) -> list[Step]:
    """Deletion of every object that an item of ``kind`` made which is no more. ``kept``: names of the items that there are."""
    steps = []
    for host, entries in observed.items():
        for entry in entries:
            ref = item_of(binding, entry)
            if ref is not None and ref.kind is kind and ref.name not in kept:
                steps.append(delete_step(ref, host, entry, wave=wave, why=f"{kind.crd} {ref.name} is no more"))
    return steps


def says(there: ObjectFacts, body: Mapping[str, Any]) -> bool:
    """Does the object hold everything that ``body`` wants? Labels and annotations of others beside ours do not matter; lists are whole."""
    metadata = body["metadata"]
    marked = all(there.labels.get(k) == v for k, v in (metadata.get("labels") or {}).items()) and all(
        there.annotations.get(k) == v for k, v in (metadata.get("annotations") or {}).items()
    )
    return marked and holds(there.spec, body.get("spec") or {})


def holds(there: Any, wanted: Any) -> bool:
    """``wanted`` within ``there``: mappings key by key (the API server adds defaults), lists element by element and of equal length."""
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(key in there and holds(there[key], value) for key, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        same = isinstance(there, (list, tuple)) and len(there) == len(wanted)
        return same and all(holds(a, b) for a, b in zip(there, wanted, strict=True))
    return bool(there == wanted)


def delete_step(ref: ItemRef, host: str, found: ObjectFacts, *, wave: int, why: str) -> Step:
    """Deletion of exactly the object that was seen."""
    body = {"metadata": {"uid": found.uid, "resourceVersion": found.resource_version}}
    return Step(
        wave=wave,
        cluster=host,
        verb="delete",
        object=found.shown,
        why=why,
        undo=f"put {ref.kind.crd} {ref.name} back",
        item=str(ref),
        action=ApiWrite(method="delete", path=found.path, body=body),
    )


def _apply(ref: ItemRef, wanted: Wanted, there: ObjectFacts | None, wave: int) -> Step:
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
    if there is not None:  # an object that somebody deletes and makes anew meanwhile is not ours
        body = {**body, "metadata": {**body["metadata"], "uid": there.uid}}
    return make(verb="create" if there is None else "patch", action=ApiWrite(method="apply", path=wanted.path, body=body))


def _foreign(ref: ItemRef, wanted: Wanted) -> Finding:
    return Finding(
        code=FOREIGN,
        severity=Severity.BLOCKING,
        cluster=wanted.cluster,
        item=str(ref),
        summary=f"{wanted.shown} exists and was not made by this mesh; it is left as it is",
        evidence=f"its labels {OWNER_LABEL} and {MANAGED_BY_LABEL} name somebody else, or nobody",
        fix=f"Rename {ref.kind.crd} {ref.name}, or delete that object if nobody needs it.",
    )


def _drifted(ref: ItemRef, wanted: Wanted) -> Finding:
    return Finding(
        code=DRIFTED,
        severity=Severity.BLOCKING,
        cluster=wanted.cluster,
        item=str(ref),
        summary=f"somebody else has added to {wanted.shown}, so it says more than {ref.kind.crd} {ref.name}",
        evidence="its spec holds all that was written for the item, and fields that were not",
        fix="Take the addition out, or delete the object: the next run makes it as it should be.",
    )
