# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A plan and what it is made of: steps, each one API call, and recipes for the values of Secrets.

A plan is a value without secrets: it says where a value comes from, never what it is. Whoever applies it reads, mints and writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from .collector import collector_paused
from .errors import InvalidInput
from .findings import Finding
from .model import MANAGER_DOMAIN

TRUST_CHOICES: Final = ("auto", "same_ca", "minted", "copied")
ADDRESS_CHOICES: Final = ("InternalIP", "ExternalIP")

OWNER_LABEL = f"{MANAGER_DOMAIN}/owner"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
SOURCE_NAME_LABEL = "edge-connect.eu/source-name"
SOURCE_WORKSPACE_LABEL = "edge-connect.eu/source-workspace"
PEERS_ANNOTATION = f"peers.{MANAGER_DOMAIN}"  # followed by /<owner>: JSON {inventory name: cluster name} of the peers in a Secret
ADOPTED_ANNOTATION = f"adopted.{MANAGER_DOMAIN}"  # followed by /<owner>: what stood there before this binding took over (adopt.py)
USERS_ANNOTATION = f"users.{MANAGER_DOMAIN}"  # followed by /<owner>: the users that a binding added, comma-separated


class Literal(NamedTuple):
    """A value that is no secret."""

    text: str


class FromSecret(NamedTuple):
    """A value that stands in a Secret already, as observed."""

    cluster: str  # inventory name
    secret: str
    key: str


class Minted(NamedTuple):
    """Half of a new client certificate: ``part`` is ``certificate`` or ``key``. Equal requests of one step share one key pair."""

    issuer: str  # inventory name of the cluster whose cilium-ca signs
    common_name: str
    days: int
    part: str


class NewAuthority(NamedTuple):
    """Half of a new CA: ``part`` is ``certificate`` or ``key``. Equal requests of one plan are one CA."""

    like: str  # inventory name of the cluster whose present CA has the kind of key that the new one gets
    days: int
    part: str
    group: str  # what tells this CA from others of the plan
    common_name: str


class IssuedAgain(NamedTuple):
    """Half of a leaf of the step's own cluster, issued again by ``cilium-ca`` there: ``part`` is ``certificate`` or ``key``."""

    secret: str  # the TLS Secret whose tls.crt is followed
    part: str


Recipe: TypeAlias = Literal | FromSecret | Minted | NewAuthority | IssuedAgain
"""Named tuples of one to five fields: a mesh of 255 clusters has 300,000, and as JSON each is an array that tells which it is."""


@dataclass(frozen=True, kw_only=True)
class ApplySecret:
    """Server-side apply of every key of ours in one Secret; keys of ours that are not in ``data`` go."""

    namespace: str
    name: str
    data: Mapping[str, Recipe] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ApplyHostAliases:
    """Server-side apply of every hostAliases entry of ours in one workload's pod template."""

    namespace: str
    kind: str  # "Deployment" or "DaemonSet"
    name: str
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # IP -> host names


@dataclass(frozen=True, kw_only=True)
class WriteUsers:
    """users.yaml is one string, so it is rewritten as a whole, only if the ConfigMap is still the one that was read."""

    namespace: str
    text: str
    annotation_key: str  # names the binding's own users
    annotation: str  # its value; "" removes it
    resource_version: str  # "" creates the ConfigMap
    labels: Mapping[str, str] = field(default_factory=dict)  # only when it is created
    name: str = "clustermesh-remote-users"


@dataclass(frozen=True, kw_only=True)
class DeleteObject:
    """Deletes an object that this binding created and in which nothing of anybody is left."""

    namespace: str
    kind: str  # "Secret" or "ConfigMap"
    name: str
    uid: str
    resource_version: str


NOW: Final = "{time-of-the-write}"
"""Where this stands in a body of ``ApiWrite``, the time of the write is put (RFC 3339, UTC): a plan, and so its hash, has no time in it."""


@dataclass(frozen=True, kw_only=True)
class ApiWrite:
    """One API call that none of the others describes.

    ``method``: ``apply`` (server-side apply without force), ``create`` (POST to the collection ``path``), ``merge`` (RFC 7386) or
    ``delete``. ``body`` is plain JSON without secrets; ``metadata.uid`` and ``metadata.resourceVersion`` in it are preconditions.
    ``secret_data`` becomes base64 under ``data``.
    """

    method: str
    path: str  # absolute API path
    body: Mapping[str, Any] = field(default_factory=dict)
    secret_data: Mapping[str, Recipe] = field(default_factory=dict)
    manager: str = ""  # field manager, where what is written goes back to whom it belonged; "" is the plan's


Action: TypeAlias = ApplySecret | ApplyHostAliases | WriteUsers | DeleteObject | ApiWrite


@dataclass(frozen=True, kw_only=True)
class Step:
    """One write. Steps of a wave may run side by side in different clusters; within a cluster they keep their order."""

    wave: int
    cluster: str  # inventory name
    verb: str  # "apply", "create", "patch" or "delete"
    object: str  # e.g. "Secret kube-system/cilium-kvstoremesh"
    why: str
    disruption: str = ""  # "" or what stops for a moment
    undo: str = ""
    item: str = ""  # the item that it is for (items/kinds.py), "" for the mesh itself
    action: Action

    @cached_property
    def digest(self) -> str:
        """SHA-256 hex of everything that the step says and does, without versions of objects: they change with every write of anybody."""
        return digest_of([*self._said().values(), _action_data(self.action)])

    def to_dict(self) -> dict[str, Any]:
        return {**self._said(), "digest": self.digest}

    def _said(self) -> dict[str, Any]:
        keys = ("wave", "cluster", "verb", "object", "why", "disruption", "undo")
        said = {key: getattr(self, key) for key in keys}
        return {**said, "item": self.item} if self.item else said


class LinkPlan(NamedTuple):
    """What was decided for one ordered pair."""

    cluster: str  # inventory name
    peer: str  # inventory name
    endpoint: str  # URL
    trust: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Choices of the user that are not part of the mesh."""

    certificate_days: int = 365
    renew_before_days: int = 30
    trust: str = "auto"  # or same_ca, minted, copied
    node_addresses: str = "InternalIP"  # or ExternalIP
    resolved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # DNS name -> addresses, looked up by the caller
    repair: bool = False  # take back keys that this binding wrote and somebody else changed

    def __post_init__(self) -> None:
        """Raises InvalidInput for a choice that there is not."""
        for name, value, choices in (("trust", self.trust, TRUST_CHOICES), ("node_addresses", self.node_addresses, ADDRESS_CHOICES)):
            if value not in choices:
                raise InvalidInput(f"{name} is {value!r}.", remedy=f"Use one of: {', '.join(choices)}.")
        for name, days, least in (("certificate_days", self.certificate_days, 1), ("renew_before_days", self.renew_before_days, 0)):
            if days < least:
                raise InvalidInput(f"{name} is {days}.", remedy=f"Use {least} or more.")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every write, decided before the first one.

    :param options: what the user chose, as plain data: whoever plans again, to apply this very plan, chooses the same.
    :param relied_on: inventory name -> section -> digest of the facts that the decisions rest on (relied_on.py).
    """

    manager: str
    steps: tuple[Step, ...] = ()
    problems: tuple[Finding, ...] = ()
    links: tuple[LinkPlan, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    relied_on: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.steps

    @property
    def blocked(self) -> bool:
        return any(problem.blocks for problem in self.problems)

    @property
    def waves(self) -> tuple[tuple[Step, ...], ...]:
        """The steps by wave, in order."""
        numbers = sorted({step.wave for step in self.steps})
        return tuple(tuple(s for s in self.steps if s.wave == number) for number in numbers)

    @cached_property
    @collector_paused()
    def hash(self) -> str:
        """SHA-256 hex over the steps with their recipes, the options, and all that was relied on. Equal for equal clusters; no secret."""
        rest = {"manager": self.manager, "options": self.options, "reliedOn": self.relied_on}
        return digest_of([*(step.digest for step in self.steps), rest])

    @collector_paused()
    def to_dict(self) -> dict[str, Any]:
        return {
            "hash": self.hash,
            "steps": [step.to_dict() for step in self.steps],
            "problems": [problem.to_dict() for problem in self.problems],
            "links": [link._asdict() for link in self.links],
            "options": dict(self.options),
            "reliedOn": {host: dict(sections) for host, sections in self.relied_on.items()},
        }


def digest_of(value: Any) -> str:
    """SHA-256 hex of plain data in one canonical JSON form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _action_data(action: Action) -> dict[str, Any]:
    """An action as data for ``digest_of``, without what changes with every write of anybody; where that counts, it is in relied_on."""
    data = {f.name: getattr(action, f.name) for f in fields(action) if f.name not in ("resource_version", "uid")}
    if isinstance(action, ApiWrite):
        data["body"] = _without_versions(action.body)
    return {"type": type(action).__name__, **data}


def _without_versions(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in (body.get("metadata") or {}).items() if k not in ("resourceVersion", "uid")}
    return {**body, "metadata": metadata} if "metadata" in body else dict(body)
