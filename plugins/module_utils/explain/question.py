# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Question of an explanation: the options ``source``, ``target``, ``port`` and ``protocol`` of mesh_explain, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..base.errors import InvalidInput
from ..base.input_problems import SUBDOMAIN, Problems, quoted, sentence, suggest
from ..items.labels import valid_key, valid_value

PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
LAST_PORT: Final = 65535


@dataclass(frozen=True, kw_only=True)
class QuestionSide:
    """Source or target of a question. Exactly one of ``pod``, ``labels`` and ``service`` is given; a source has no ``service``."""

    cluster: str = ""  # inventory name; "" for a service: as the source's cluster resolves it
    namespace: str
    pod: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    service: str = ""

    def __str__(self) -> str:
        """``Service production/nginx``, ``pod production/web-1 in c1``, ``pods app=web of production in c1``."""
        where = f" in {self.cluster}" if self.cluster else ""
        if self.service:
            return f"Service {self.namespace}/{self.service}{where}"
        if self.pod:
            return f"pod {self.namespace}/{self.pod}{where}"
        labels = ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        return f"pods {labels} of {self.namespace}{where}"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Question whether ``source`` can reach ``target`` on a port.

    For a Service it is the Service's port, by number or name; for pods the pods' own.
    """

    source: QuestionSide
    target: QuestionSide
    port: int = 0  # 0: by name
    port_name: str = ""
    protocol: str = "TCP"

    @property
    def shown_port(self) -> str:
        """Port and protocol as text."""
        return f"{self.port or self.port_name}/{self.protocol}"


def question_of(params: Mapping[str, Any], members: Sequence[str]) -> Question:
    """Parse the options.

    :raises InvalidInput: an option is not valid; the message lists all of them.
    """
    problems = Problems()
    source = _side(problems, "source", params.get("source"), members, service=False)
    target = _side(problems, "target", params.get("target"), members, service=True)
    protocol = str(params.get("protocol") or "TCP").upper()
    if protocol not in PROTOCOLS:
        problems.add("protocol", f"{quoted(protocol)} is not known; {suggest(protocol, PROTOCOLS, 'use one of')}")
    port, name = _port(problems, params.get("port"), named=target is not None and bool(target.service))
    if problems.found or source is None or target is None:
        raise InvalidInput(sentence(problems.found), remedy="See docs/explain.md for how to name both ends.")
    return Question(source=source, target=target, port=port, port_name=name, protocol=protocol)


def _side(problems: Problems, path: str, value: Any, members: Sequence[str], *, service: bool) -> QuestionSide | None:
    before = len(problems.found)
    keys = ("cluster", "namespace", "pod", "name", "labels", *(("service",) if service else ()))
    given = {key: entry for key, entry in problems.mapping(path, value, keys, optional=False).items() if entry not in (None, "", {})}
    ways = [key for key in ("pod", "name", "labels", "service") if key in given]
    if len(ways) != 1 and len(problems.found) == before:
        problems.add(path, f"needs exactly one of {', '.join(keys[2:])}, not {' and '.join(ways) or 'none of them'}")
    cluster, namespace = given.get("cluster", ""), given.get("namespace")
    if cluster not in members and (cluster or "service" not in ways):
        problems.add(
            f"{path}.cluster", f"{quoted(str(cluster))} is no member of the mesh; {suggest(str(cluster), members, 'its members are')}"
        )
    for key in ("namespace", *(way for way in ways if way in ("pod", "service"))):
        text = given.get(key)
        if not isinstance(text, str) or not SUBDOMAIN.fullmatch(text):
            problems.add(f"{path}.{key}", f"{quoted(str(text))} is not a DNS-1123 name" if text is not None else "is missing")
    labels = _labels(problems, path, given)
    if len(problems.found) > before:
        return None
    return QuestionSide(
        cluster=str(cluster),
        namespace=str(namespace),
        pod=str(given.get("pod", "")),
        labels=labels,
        service=str(given.get("service", "")),
    )


def _labels(problems: Problems, path: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Parse labels. ``name: web`` is short for the label app=web, as in a ConnectivityIntent."""
    if "name" in given:
        value = given["name"]
        if not isinstance(value, str) or not valid_value(value):
            problems.add(f"{path}.name", f"{quoted(str(value))} is not the value of a label")
            return {}
        return {"app": str(value)}
    found = problems.typed(f"{path}.labels", given.get("labels"), Mapping, "a mapping of labels") or {}
    for key, value in found.items():
        if not isinstance(key, str) or not valid_key(key) or not isinstance(value, str) or not valid_value(value):
            problems.add(f"{path}.labels", f"{quoted(f'{key}={value}')} is not a label")
    return {str(key): str(value) for key, value in found.items()}


def _port(problems: Problems, value: Any, *, named: bool) -> tuple[int, str]:
    text = str(value) if value is not None and not isinstance(value, bool) else ""
    if text.isascii() and text.isdecimal() and len(text) <= len(str(LAST_PORT)) and 1 <= int(text) <= LAST_PORT:
        return int(text), ""
    if named and text and not text.isdecimal() and valid_value(text):  # a name has a letter in it (IANA service names)
        return 0, text
    words = "1 to 65535, or the name of a port of the Service" if named else f"1 to {LAST_PORT}"
    problems.add("port", f"must be {words}, not {quoted(str(value))}" if value is not None else "is missing")
    return 0, ""
