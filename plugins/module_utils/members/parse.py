# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of the part of the variable ``fleet`` that is about clusters. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, Final

from ..base.errors import InvalidInput
from ..base.input_problems import LABEL, SUBDOMAIN, Problems, child_path, list_items, quoted, sentence, suggest
from ..fleet.names import Tenant
from .models import Member, MemberRequest

_OWN: Final = ("workspace", "namespace", "karmada", "managementPlane", "managementNamespace", "clusters")
_CLUSTER: Final = ("name", "host", "provider", "region", "zone", "labels", "spec")
_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_KEY_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
RESERVED: Final = ("karmada.io", "k8s.io", "kubernetes.io", "edge-connect.eu", "edge-portal.eu")
"""Domains of labels that tenants do not set: Karmada and this project act on them."""
MOST_LABELS: Final = 32
_REMEDY: Final = "See docs/fleet-clusters.md for the variable fleet; no cluster was contacted."


def parse_members(raw: Any, inventory: Collection[str], only: Collection[str] = ()) -> MemberRequest:
    """Return the clusters that the variable describes.

    Keys that belong to workloads are not read.

    :param raw: value of the variable ``fleet``.
    :param inventory: names of all hosts.
    :param only: names of clusters to which the run is limited; () for all.
    :raises InvalidInput: when something is not valid; it lists all problems.
    """
    problems = Problems()
    if not isinstance(raw, Mapping):
        raise InvalidInput("fleet must be a mapping with workspace, karmada and clusters.", remedy=_REMEDY)
    for key in raw:  # a key like one of ours that is none would be without effect
        near = get_close_matches(str(key).lower(), [own.lower() for own in _OWN], n=1, cutoff=0.8)
        if key not in _OWN and near:
            problems.add(child_path("fleet", key), f"unknown key; {suggest(str(key), _OWN, 'the keys are')}")
    workspace = _required(problems, "fleet.workspace", raw.get("workspace"))
    if workspace and not _VALUE.fullmatch(workspace):
        problems.add("fleet.workspace", f"{quoted(workspace)} is no value of a label, of at most 63 characters")
    tenant = Tenant(workspace, _label(problems, "fleet.namespace", raw.get("namespace"), "default"))
    karmada = _host(problems, "fleet.karmada", _required(problems, "fleet.karmada", raw.get("karmada")), inventory)
    management = _host(problems, "fleet.managementPlane", _text(problems, "fleet.managementPlane", raw.get("managementPlane")), inventory)
    namespace = _label(problems, "fleet.managementNamespace", raw.get("managementNamespace"), "default")
    members = [_member(problems, where, entry, tenant, inventory) for where, entry in _entries(problems, raw.get("clusters"))]
    _require_unique(problems, members, (karmada, management))
    names = [member.name for member in members]
    for stranger in sorted(set(only) - set(names)):
        problems.add("clusters", f"{quoted(stranger)} is no cluster of fleet.clusters; {suggest(stranger, names, 'it has')}")
    if problems.found:
        raise InvalidInput(sentence(problems.found), remedy=_REMEDY)
    chosen = tuple(member for member in members if not only or member.name in only)
    return MemberRequest(tenant=tenant, karmada=karmada, management=management, management_namespace=namespace, members=chosen)


def _entries(problems: Problems, value: Any) -> list[tuple[str, Any]]:
    found = list_items(problems, "fleet.clusters", value, "clusters")
    if not found and not problems.found:
        problems.add("fleet.clusters", "names no cluster")
    return found


def _member(problems: Problems, where: str, entry: Any, tenant: Tenant, inventory: Collection[str]) -> Member:
    given = problems.mapping(where, entry, _CLUSTER, optional=False)
    name = _required(problems, f"{where}.name", given.get("name"))
    if name and not SUBDOMAIN.fullmatch(name):
        problems.add(f"{where}.name", f"{quoted(name)} is no name of an object: small letters, digits, dashes and dots")
    host = _text(problems, f"{where}.host", given.get("host")) or name
    fields = {key: _value(problems, f"{where}.{key}", given.get(key)) for key in ("provider", "region", "zone")}
    spec = problems.mapping(f"{where}.spec", given.get("spec"), tuple(given.get("spec") or ()), optional=True)
    return Member(
        tenant=tenant,
        name=name,
        host=_host(problems, f"{where}.host", host, inventory),
        labels=_labels(problems, f"{where}.labels", given.get("labels")),
        spec=spec,
        **fields,
    )


def _labels(problems: Problems, where: str, value: Any) -> dict[str, str]:
    given = problems.mapping(where, value, tuple(value) if isinstance(value, Mapping) else (), optional=True)
    if len(given) > MOST_LABELS:
        problems.add(where, f"has {len(given)} labels; at most {MOST_LABELS} are possible")
    for key, text in given.items():
        domain, slash, short = key.rpartition("/")
        if not _KEY_NAME.fullmatch(short) or (slash and not SUBDOMAIN.fullmatch(domain)):
            problems.add(child_path(where, key), "is no key of a label")
        elif any(domain == own or domain.endswith(f".{own}") for own in RESERVED):
            problems.add(child_path(where, key), f"labels of the domains {', '.join(RESERVED)} are not a tenant's")
        if not isinstance(text, str) or not _VALUE.fullmatch(text):
            problems.add(child_path(where, key), "must be a text of at most 63 letters, digits, dashes, dots and underscores")
    return {key: text for key, text in given.items() if isinstance(text, str)}


def _require_unique(problems: Problems, members: list[Member], planes: tuple[str, str]) -> None:
    for what in ("name", "host"):
        for value, number in Counter(getattr(member, what) for member in members).items():
            if value and number > 1:
                problems.add("fleet.clusters", f"the {what} {quoted(value)} is there {number} times")
    for member in members:
        if member.host and member.host in planes:
            problems.add("fleet.clusters", f"{quoted(member.host)} is Karmada or the management plane, and no member")


def _text(problems: Problems, where: str, value: Any) -> str:
    found = problems.typed(where, value, str, "a text")
    return str(found) if found else ""


def _required(problems: Problems, where: str, value: Any) -> str:
    found = _text(problems, where, value)
    if not found and (value is None or value == ""):
        problems.add(where, "is missing")
    return found


def _label(problems: Problems, where: str, value: Any, default: str) -> str:
    found = _text(problems, where, value) or default
    if not LABEL.fullmatch(found):
        problems.add(where, f"{quoted(found)} is no name of a namespace")
    return found


def _value(problems: Problems, where: str, value: Any) -> str:
    found = _text(problems, where, value)
    if not _VALUE.fullmatch(found):
        problems.add(where, f"{quoted(found)} is no value of a label, of at most 63 characters")
    return found


def _host(problems: Problems, where: str, host: str, inventory: Collection[str]) -> str:
    if host and host not in inventory:
        problems.add(where, f"{quoted(host)} is no host of the inventory; {suggest(host, sorted(inventory), 'it has')}")
    return host
