# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The spec of a GlobalService -> ``items.models.GlobalService``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ..items.labels import valid_key, valid_value
from ..items.models import AFFINITIES, Failover, GlobalService, ServiceSelector
from ..problems import LABEL, Problems, clip, is_empty, items_of, kind_of, shown, suggest
from .annotations import AFFINITY, ALLOWED, GLOBAL, NEWER, SHARED

BACKENDS: Final = ("Annotations", "MCS")
KEYS: Final = (
    "selector",
    "targetClusters",
    "globalAnnotations",
    "shared",
    "affinity",
    "backend",
    "createMissingServices",
    "failover",
)
LONGEST_DETECTION: Final = 86400  # seconds
MOST_ENDPOINTS: Final = 1_000_000

_DURATION: Final = re.compile(r"(?=.)(?:(?P<h>[0-9]{1,5})h)?(?:(?P<m>[0-9]{1,5})m)?(?:(?P<s>[0-9]{1,5})s)?")


def parse_global_service(problems: Problems, name: str, spec: Mapping[str, Any], members: tuple[str, ...]) -> GlobalService | None:
    """See ``items.parse.ItemParser``."""
    before = len(problems.found)
    given = problems.mapping("", spec, KEYS, optional=False)
    selector = _selector(problems, given.get("selector"))
    annotations = _annotations(problems, given.get("globalAnnotations"))
    shared = problems.typed("shared", given.get("shared"), bool, "true or false")
    affinity = _choice(problems, "affinity", given.get("affinity"), AFFINITIES)
    create = problems.typed("createMissingServices", given.get("createMissingServices"), bool, "true or false")
    service = GlobalService(
        name=name,
        selector=selector or ServiceSelector(namespace=""),
        targets=_targets(problems, given.get("targetClusters"), members),
        annotations={key: value for key, value in annotations.items() if key not in (SHARED, AFFINITY)},
        shared=_agreed(problems, "shared", shared, SHARED, annotations, {"true": True, "false": False}),
        affinity=_agreed(problems, "affinity", affinity, AFFINITY, annotations, {word.lower(): word for word in AFFINITIES}),
        backend=_choice(problems, "backend", given.get("backend"), BACKENDS) or BACKENDS[0],
        create_missing=bool(create),
        failover=_failover(problems, given.get("failover")),
    )
    _refuse_contradictions(problems, service)
    return service if selector is not None and len(problems.found) == before else None


def _selector(problems: Problems, value: Any) -> ServiceSelector | None:
    if value is None:
        problems.add("selector", "is missing; it takes a namespace and either a name or a labelSelector")
        return None
    given = problems.mapping("selector", value, ("namespace", "name", "labelSelector"), optional=False)
    if not isinstance(value, Mapping):
        return None
    namespace = _dns_label(problems, "selector.namespace", given.get("namespace"))
    if given.get("name") is not None and given.get("labelSelector") is not None:
        problems.add("selector", "has both name and labelSelector; give one of them")
        return None
    if given.get("labelSelector") is not None:
        labels = _labels(problems, "selector.labelSelector", given["labelSelector"])
        return ServiceSelector(namespace=namespace, labels=labels) if namespace and labels else None
    if given.get("name") is None:
        problems.add("selector", "has neither name nor labelSelector, and would match every Service of the namespace; give one of them")
        return None
    name = _dns_label(problems, "selector.name", given["name"])
    return ServiceSelector(namespace=namespace, name=name) if namespace and name else None


def _labels(problems: Problems, path: str, value: Any) -> dict[str, str]:
    """A flat map, or ``{matchLabels: map}`` as Kubernetes writes it. {} when something is wrong."""
    if isinstance(value, Mapping) and any(isinstance(value.get(key), (Mapping, list)) for key in ("matchLabels", "matchExpressions")):
        nested = problems.mapping(path, value, ("matchLabels",), optional=False)
        return _labels(problems, f"{path}.matchLabels", nested.get("matchLabels") or {})
    if not isinstance(value, Mapping):
        problems.add(path, f"must be a mapping of labels, not {kind_of(value)}")
        return {}
    if not value:
        problems.add(path, "is empty and would match every Service of the namespace; name at least one label")
    found = {}
    for key, item in value.items():
        if not isinstance(key, str) or not valid_key(key):
            problems.add(path, f"{shown(str(key))} is not the key of a label")
        elif not isinstance(item, str):
            problems.add(f"{path}.{clip(key)}", f"must be a text, not {kind_of(item)}; put it in quotes")
        elif not valid_value(item):
            problems.add(f"{path}.{clip(key)}", f"{shown(item)} is not the value of a label")
        else:
            found[str(key)] = str(item)
    return found if len(found) == len(value) else {}


def _targets(problems: Problems, value: Any, members: tuple[str, ...]) -> tuple[str, ...]:
    """All members when none is named (seed: "empty = all")."""
    if is_empty(value):
        return members
    found: list[str] = []
    for where, item in items_of(problems, "targetClusters", value, "cluster names"):
        if not isinstance(item, str):
            problems.add(where, f"must be the name of a cluster, not {kind_of(item)}")
        elif item in found:
            problems.add(where, f"{shown(item)} is named twice")
        elif item not in members:
            problems.add(where, f"{shown(item)} is not a member of the mesh; {suggest(item, members, 'its members are')}")
        else:
            found.append(str(item))
    return tuple(host for host in members if host in found)


def _annotations(problems: Problems, value: Any) -> dict[str, str]:
    """By the newer keys, values in lower case. An older key is what half of the tutorials show; it means the same, and is translated."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.add("globalAnnotations", f"must be a mapping of annotations, not {kind_of(value)}")
        return {}
    found: dict[str, str] = {}
    for given, item in value.items():
        path = f"globalAnnotations.{clip(str(given))}"
        key = NEWER.get(str(given), str(given))
        if key == GLOBAL:
            problems.add(path, "is what a GlobalService is for; remove it")
        elif key not in ALLOWED:
            problems.add(path, f"is not allowed; allowed are {', '.join(ALLOWED)}")
        elif not isinstance(item, str):
            problems.add(path, f"must be a text, not {kind_of(item)}; put it in quotes")
        elif item.lower() not in ALLOWED[key]:
            problems.add(path, f"must be one of {', '.join(ALLOWED[key])}, not {shown(item)}")
        elif found.get(key, item.lower()) != item.lower():
            problems.add(path, f"contradicts its other key in globalAnnotations: {found[key]} and {item.lower()}")
        else:
            found[key] = item.lower()
    return found


def _agreed(problems: Problems, name: str, field: Any, key: str, annotations: Mapping[str, str], meaning: Mapping[str, Any]) -> Any:
    """The field of the spec, or what the annotation says in its place; both may be given when they mean the same."""
    said = meaning.get(annotations[key]) if key in annotations else None
    if field is not None and said is not None and field != said:
        problems.add(name, f"is {str(field).lower()}, and globalAnnotations says {annotations[key]}; give one of them")
    return said if field is None else field


def _choice(problems: Problems, path: str, value: Any, choices: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in choices:
        what = shown(value) if isinstance(value, str) else kind_of(value)
        problems.add(path, f"must be one of {', '.join(choices)}, not {what}")
        return None
    return str(value)


def _failover(problems: Problems, value: Any) -> Failover | None:
    if value is None:
        return None
    known = ("detectWithin", "minLocalReady", "hysteresis")
    given = problems.mapping("failover", value, known, optional=False)
    default = Failover()
    detect = given.get("detectWithin")
    return Failover(
        detect_within=default.detect_within if detect is None else _seconds(problems, "failover.detectWithin", detect),
        min_local_ready=_count(problems, "failover.minLocalReady", given.get("minLocalReady"), default.min_local_ready, least=1),
        hysteresis=_count(problems, "failover.hysteresis", given.get("hysteresis"), default.hysteresis, least=0),
    )


def _seconds(problems: Problems, path: str, value: Any) -> int:
    """``90``, ``"90s"``, ``"1m30s"``."""
    seconds = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        hours, minutes, rest = (int(match[unit] or 0) for unit in "hms")
        seconds = hours * 3600 + minutes * 60 + rest
    if seconds is None or not 1 <= seconds <= LONGEST_DETECTION:
        what = shown(value) if isinstance(value, str) else str(seconds) if seconds is not None else kind_of(value)
        problems.add(path, f'must be seconds, or a text like "90s" or "1m30s", from 1 s to {LONGEST_DETECTION} s, not {what}')
        return 1
    return seconds


def _count(problems: Problems, path: str, value: Any, default: int, *, least: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_ENDPOINTS:
        what = str(value) if isinstance(value, int) and not isinstance(value, bool) else kind_of(value)
        problems.add(path, f"must be a number from {least} to {MOST_ENDPOINTS}, not {what}")
        return default
    return value


def _refuse_contradictions(problems: Problems, service: GlobalService) -> None:
    mcs = service.backend == "MCS"
    if mcs and service.shared is False:
        problems.add("shared", "is false, and backend MCS exports the Service; remove one of them")
    if mcs and service.create_missing:
        problems.add("createMissingServices", "is not for backend MCS, with which Cilium makes the Services of importing clusters itself")
    if mcs and service.failover is not None:
        problems.add("failover", "is not for backend MCS: the annotations of derived Services are Cilium's own; use backend Annotations")
    if service.failover is not None and service.shared is False:
        problems.add("failover", "needs backends that are exported, and shared is false; remove one of them")


def _dns_label(problems: Problems, path: str, value: Any) -> str:
    if value is None:
        problems.add(path, "is missing")
        return ""
    if not isinstance(value, str) or not LABEL.fullmatch(value):
        what = shown(value) if isinstance(value, str) else kind_of(value)
        problems.add(path, f"must be a DNS-1123 label (lower-case letters, digits, -), not {what}")
        return ""
    return str(value)
