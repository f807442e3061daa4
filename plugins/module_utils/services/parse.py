# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The spec of a GlobalService -> ``items.models.GlobalService``. Its structure is that of the CRD (mesh/binding/schemas.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ..base.input_problems import Problems, clip, quoted, suggest
from ..base.structure import SchemaReader
from ..items.labels import valid_key
from ..items.models import AFFINITIES, Failover, GlobalService, ServiceSelector
from ..mesh.binding.schemas import SPECS
from .annotations import AFFINITY, ALLOWED, GLOBAL, NEWER, SHARED, can_be_permitted

LONGEST_DETECTION: Final = 86400  # seconds

_DURATION: Final = re.compile(r"(?=.)(?:(?P<h>[0-9]{1,5})h)?(?:(?P<m>[0-9]{1,5})m)?(?:(?P<s>[0-9]{1,5})s)?")
_HINTS: Final = {
    "selector": "it takes a namespace, and a name or a labelSelector",
}


def parse_global_service(problems: Problems, name: str, spec: Mapping[str, Any], members: tuple[str, ...]) -> GlobalService | None:
    """Parse the spec of a GlobalService. See ``KindRow`` (reconcile/kinds.py)."""
    before = len(problems.found)
    given = SchemaReader(problems, _HINTS).read(SPECS["GlobalService"], _flat_labels(problems, spec))
    if len(problems.found) > before:
        return None
    selector = _selector(problems, given["selector"])
    annotations, further = _annotations(problems, given.get("globalAnnotations", {}))
    service = GlobalService(
        name=name,
        selector=selector,
        targets=_targets(problems, given.get("targetClusters"), members),
        annotations={key: value for key, value in annotations.items() if key not in (SHARED, AFFINITY)},
        further=further,
        shared=_agreed(problems, "shared", given.get("shared"), SHARED, annotations, {"true": True, "false": False}),
        affinity=_agreed(problems, "affinity", given.get("affinity"), AFFINITY, annotations, {word.lower(): word for word in AFFINITIES}),
        backend=given["backend"],
        create_missing=given["createMissingServices"],
        failover=_failover(problems, given["failover"]) if "failover" in given else None,
    )
    _refuse_contradictions(problems, service)
    return service if len(problems.found) == before else None


def _flat_labels(problems: Problems, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec with ``{matchLabels: map}``, as Kubernetes writes a selector, as the flat map that the custom resource has."""
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    labels = selector.get("labelSelector") if isinstance(selector, Mapping) else None
    if not isinstance(selector, Mapping) or not isinstance(labels, Mapping):
        return spec
    if not any(isinstance(labels.get(key), (Mapping, list)) for key in ("matchLabels", "matchExpressions")):
        return spec
    given = problems.mapping("selector.labelSelector", labels, ("matchLabels",), optional=False)
    return {**spec, "selector": {**selector, "labelSelector": given.get("matchLabels") or {}}}


def _selector(problems: Problems, given: Mapping[str, Any]) -> ServiceSelector:
    labels = given.get("labelSelector")
    if "name" not in given and labels is None:
        problems.add("selector", "has neither name nor labelSelector, and would match every Service of the namespace; give one of them")
    for key in labels or {}:
        if not isinstance(key, str) or not valid_key(key):
            problems.add("selector.labelSelector", f"{quoted(str(key))} is not the key of a label")
    return ServiceSelector(namespace=given["namespace"], name=given.get("name", ""), labels=labels or {})


def _targets(problems: Problems, value: Any, members: tuple[str, ...]) -> tuple[str, ...]:
    """Parse the target clusters; all members if none is named (seed: "empty = all")."""
    if not value:
        return members
    for place, item in enumerate(value):
        if item in value[:place]:
            problems.add(f"targetClusters[{place}]", f"{quoted(item)} is named twice")
        elif item not in members:
            hint = suggest(item, members, "its members are")
            problems.add(f"targetClusters[{place}]", f"{quoted(item)} is not a member of the mesh; {hint}")
    return tuple(host for host in members if host in value)


def _annotations(problems: Problems, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Parse the annotations into those that Cilium reads of a global Service, and others, which each cluster has to permit.

    The first have the newer keys, and values in lower case. Half of the tutorials show the older keys; they mean the same, and are
    translated.
    """
    found: dict[str, str] = {}
    further: dict[str, str] = {}
    for written, text in given.items():
        path = f"globalAnnotations.{clip(str(written))}"
        key, item = NEWER.get(str(written), str(written)), text.lower()
        if key == GLOBAL:
            if item != "true":
                problems.add(path, "can be true alone, which every GlobalService makes it; delete the GlobalService instead")
        elif key not in ALLOWED and can_be_permitted(key):
            further[key] = text
        elif key not in ALLOWED:
            problems.add(path, f"is not the key of an annotation that an item may set, such as {', '.join(ALLOWED)}, or example.com/team")
        elif item not in ALLOWED[key]:
            problems.add(path, f"must be one of {', '.join(ALLOWED[key])}, not {quoted(text)}")
        elif found.get(key, item) != item:
            problems.add(path, f"contradicts its other key in globalAnnotations: {found[key]} and {item}")
        else:
            found[key] = item
    return found, further


def _agreed(problems: Problems, name: str, field: Any, key: str, annotations: Mapping[str, str], meaning: Mapping[str, Any]) -> Any:
    """Return the field of the spec, or the value of the annotation in its place; both may be given when they mean the same."""
    said = meaning.get(annotations[key]) if key in annotations else None
    if field is not None and said is not None and field != said:
        problems.add(name, f"is {str(field).lower()}, and globalAnnotations says {annotations[key]}; give one of them")
    return said if field is None else field


def _failover(problems: Problems, given: Mapping[str, Any]) -> Failover:
    return Failover(
        detect_within=_seconds(problems, "failover.detectWithin", given["detectWithin"]),
        min_local_ready=given["minLocalReady"],
        hysteresis=given["hysteresis"],
    )


def _seconds(problems: Problems, path: str, value: int | str) -> int:
    """Parse a duration such as ``90``, ``"90s"`` or ``"1m30s"`` into seconds."""
    if isinstance(value, int):
        return value
    match = _DURATION.fullmatch(value)
    hours, minutes, rest = (int(match[unit] or 0) for unit in "hms") if match else (0, 0, 0)
    seconds = hours * 3600 + minutes * 60 + rest
    if not 1 <= seconds <= LONGEST_DETECTION:
        problems.add(path, f'must be seconds, or a text like "90s" or "1m30s", from 1 s to {LONGEST_DETECTION} s, not {quoted(value)}')
    return seconds


def _refuse_contradictions(problems: Problems, service: GlobalService) -> None:
    mcs = service.backend == "MCS"
    if mcs and service.shared is False:
        problems.add("shared", "is false, and backend MCS exports the Service; remove one of them")
    if mcs and service.further:
        keys = ", ".join(service.further)
        problems.add("globalAnnotations", f"{keys}: not for backend MCS, whose annotations go to Services of all importing clusters")
    if mcs and service.create_missing:
        problems.add("createMissingServices", "is not for backend MCS, with which Cilium makes the Services of importing clusters itself")
    if mcs and service.failover is not None:
        problems.add("failover", "is not for backend MCS: the annotations of derived Services are Cilium's own; use backend Annotations")
    if service.failover is not None and service.shared is False:
        problems.add("failover", "needs backends that are exported, and shared is false; remove one of them")
