# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A plan and its parts: steps, each one API call, and recipes for the values of Secrets.

A plan is a value without secrets: it says where a value comes from, never what it is. The engine reads and mints the values when it
applies the plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from ..base.errors import InvalidInput
from ..base.gc_pause import collector_paused
from ..findings.finding import Finding


class Literal(NamedTuple):
    """Recipe: a value that is no secret."""

    text: str


class FromSecret(NamedTuple):
    """Recipe: a value that a Secret has already, as observed."""

    cluster: str  # inventory name
    secret: str
    key: str


class Minted(NamedTuple):
    """Recipe: half of a new client certificate. ``part`` is ``certificate`` or ``key``. Equal requests of one step share one key pair."""

    issuer: str  # inventory name of the cluster whose cilium-ca signs
    common_name: str
    days: int
    part: str


class NewAuthority(NamedTuple):
    """Recipe: half of a new CA. ``part`` is ``certificate`` or ``key``. Equal requests of one plan are one CA."""

    like: str  # inventory name of the cluster whose present CA has the kind of key that the new one gets
    days: int
    part: str
    group: str  # distinguishes this CA from others of the plan
    common_name: str


class IssuedAgain(NamedTuple):
    """Recipe: half of a leaf of the step's own cluster, issued again by its ``cilium-ca``. ``part`` is ``certificate`` or ``key``."""

    secret: str  # the TLS Secret whose tls.crt is followed
    part: str


class MemberToken(NamedTuple):
    """Recipe: a token of a ServiceAccount, issued by TokenRequest just before it is written, and never read back."""

    cluster: str  # inventory name of the cluster that has the account
    namespace: str
    account: str
    seconds: int  # lifetime that is asked for; the API server may grant less
    audience: str  # "": the API server's own
    purpose: str  # distinguishes requests of one plan


Recipe: TypeAlias = Literal | FromSecret | Minted | NewAuthority | IssuedAgain | MemberToken
"""Any recipe. They are named tuples: a mesh of 255 clusters has 300,000, and as JSON each is an array whose length identifies its type."""


@dataclass(frozen=True, kw_only=True)
class ApplySecret:
    """Server-side apply of all keys of the binding in one Secret; its keys that are not in ``data`` are removed."""

    namespace: str
    name: str
    data: Mapping[str, Recipe] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ApplyHostAliases:
    """Server-side apply of all hostAliases entries of the binding in one workload's pod template."""

    namespace: str
    kind: str  # "Deployment" or "DaemonSet"
    name: str
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # IP -> host names
    annotations: Mapping[str, str] = field(default_factory=dict)  # of the workload itself, which restart nothing


@dataclass(frozen=True, kw_only=True)
class WriteUsers:
    """Write of users.yaml: it is one string, so it is rewritten as a whole, only if the ConfigMap is still the one that was read."""

    namespace: str
    text: str
    annotation_key: str  # names the binding's own users
    annotation: str  # its value; "" removes it
    resource_version: str  # "" creates the ConfigMap
    labels: Mapping[str, str] = field(default_factory=dict)  # only when it is created
    marks: Mapping[str, str] = field(default_factory=dict)  # further annotations, only when it is created
    name: str = "clustermesh-remote-users"


@dataclass(frozen=True, kw_only=True)
class DeleteObject:
    """Deletion of an object that this binding created and in which no other writer has a field."""

    namespace: str
    kind: str  # "Secret" or "ConfigMap"
    name: str
    uid: str
    resource_version: str


NOW: Final = "{time-of-the-write}"
"""Placeholder in a body for the time of the write (RFC 3339, UTC): a plan, and so its hash, has no time in it."""


@dataclass(frozen=True, kw_only=True)
class ApiWrite:
    """One API call of any other kind.

    ``method``: ``apply`` (server-side apply without force), ``create`` (POST to the collection ``path``), ``merge`` (RFC 7386) or
    ``delete``. ``body`` is plain JSON without secrets; ``metadata.uid`` and ``metadata.resourceVersion`` in it are preconditions.
    ``secret_data`` becomes base64 under ``data``.
    """

    method: str
    path: str  # absolute API path
    body: Mapping[str, Any] = field(default_factory=dict)
    secret_data: Mapping[str, Recipe] = field(default_factory=dict)
    manager: str = ""  # field manager, if the fields go back to their earlier owner; "": the plan's


Action: TypeAlias = ApplySecret | ApplyHostAliases | WriteUsers | DeleteObject | ApiWrite


@dataclass(frozen=True, kw_only=True)
class Step:
    """One write of a plan. Steps of a wave may run side by side in different clusters; within a cluster they keep their order."""

    wave: int
    cluster: str  # inventory name
    verb: str  # "apply", "create", "patch" or "delete"
    object: str  # e.g. "Secret kube-system/cilium-kvstoremesh"
    why: str
    disruption: str = ""  # "" or what stops for a moment
    undo: str = ""
    item: str = ""  # the item that it is for (mesh/binding/item_kinds.py), "" for the mesh itself
    needs: tuple[str, ...] = ()  # of a deletion, or what takes something back: writes without which it is not done (``needs_written``)
    action: Action

    @cached_property
    def digest(self) -> str:
        """SHA-256 hex of everything that the step says and does.

        Versions of objects are left out: they change with every write of any writer.
        """
        return digest_of([*self._said().values(), _action_data(self.action), *self.needs])

    def needs_written(self, other: Step) -> bool:
        """Return whether this deletion is done only after ``other``, a step of an earlier wave, was carried out.

        An entry of ``needs`` is a kind of items, for its writes in the same cluster, or one item, for its writes in every cluster: what
        goes may be replaced by what they write. A kind means its deletions in the same cluster too: waves are ordered so that what opens
        goes before what restricts it, also when another item restricts it.
        """
        if not other.item:
            return False
        if other.cluster == self.cluster and other.item.partition("/")[0] in self.needs:
            return True
        return other.item in self.needs and not other.needs

    def to_dict(self) -> dict[str, Any]:
        """Return the step as plain data for results: its description and digest, without its action."""
        return {**self._said(), "digest": self.digest}

    def _said(self) -> dict[str, Any]:
        keys = ("wave", "cluster", "verb", "object", "why", "disruption", "undo")
        said = {key: getattr(self, key) for key in keys}
        return {**said, "item": self.item} if self.item else said


class LinkPlan(NamedTuple):
    """Endpoint and trust decided for one ordered pair."""

    cluster: str  # inventory name
    peer: str  # inventory name
    endpoint: str  # URL
    trust: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Choices of the user about the certificates that a plan mints.

    :raises InvalidInput: when a choice has no such value.
    """

    certificate_days: int = 365
    renew_before_days: int = 30

    def __post_init__(self) -> None:
        """Check the choices.

        :raises InvalidInput: when a choice has no such value.
        """
        for name, days, least in (("certificate_days", self.certificate_days, 1), ("renew_before_days", self.renew_before_days, 0)):
            if days < least:
                raise InvalidInput(f"{name} is {days}.", remedy=f"Use {least} or more.")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every write of a run, decided before the first one.

    :param options: choices of the user as plain data: planning again, to apply this very plan, takes the same choices.
    :param relied_on: inventory name -> section -> fingerprint of the facts on which the decisions rely (links/fingerprint.py).
    :param not_carried_out: items that are refused or wait. An approval has to name them, since the steps say nothing about them.
    """

    manager: str
    steps: tuple[Step, ...] = ()
    problems: tuple[Finding, ...] = ()
    links: tuple[LinkPlan, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    relied_on: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    not_carried_out: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.steps

    @property
    def blocked(self) -> bool:
        """Whether a blocking problem stands."""
        return any(problem.blocks for problem in self.problems)

    @property
    def waves(self) -> tuple[tuple[Step, ...], ...]:
        """Steps by wave, in order."""
        numbers = sorted({step.wave for step in self.steps})
        return tuple(tuple(s for s in self.steps if s.wave == number) for number in numbers)

    @cached_property
    @collector_paused()
    def hash(self) -> str:
        """Plan hash: SHA-256 hex over the steps with their recipes, the options, and the fingerprints.

        Equal for equal clusters; no secret.
        """
        rest = {"manager": self.manager, "options": self.options, "reliedOn": self.relied_on, **self._left_out()}
        return digest_of([*(step.digest for step in self.steps), rest])

    @collector_paused()
    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data for results: hash, steps, problems, links, options, reliedOn, and notCarriedOut if there is any."""
        return {
            "hash": self.hash,
            "steps": [step.to_dict() for step in self.steps],
            "problems": [problem.to_dict() for problem in self.problems],
            "links": [link._asdict() for link in self.links],
            "options": dict(self.options),
            "reliedOn": {host: dict(sections) for host, sections in self.relied_on.items()},
            **self._left_out(),
        }

    def _left_out(self) -> dict[str, Any]:
        return {"notCarriedOut": list(self.not_carried_out)} if self.not_carried_out else {}


def digest_of(value: Any) -> str:
    """Return the SHA-256 hex of plain data in one canonical JSON form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _action_data(action: Action) -> dict[str, Any]:
    """Return an action as data for ``digest_of``, without versions of objects, which change with every write of any writer.

    Where a version matters, it is in ``relied_on``.
    """
    data = {f.name: getattr(action, f.name) for f in fields(action) if f.name not in ("resource_version", "uid")}
    if isinstance(action, ApiWrite):
        data["body"] = _without_versions(action.body)
    if isinstance(action, ApplyHostAliases) and not action.annotations:
        del data["annotations"]  # the digests of plans that were approved before there were any stay
    return {"type": type(action).__name__, **data}


def _without_versions(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in (body.get("metadata") or {}).items() if k not in ("resourceVersion", "uid")}
    return {**body, "metadata": metadata} if "metadata" in body else dict(body)
