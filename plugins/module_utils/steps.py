# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A plan and what it is made of: steps, each one API call, and recipes for the values of Secrets.

A plan is a value without secrets: it says where a value comes from, never what it is. Whoever applies it reads, mints and writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

from .errors import InvalidInput
from .facts import as_data
from .findings import Finding
from .model import MANAGER_DOMAIN

TRUST_CHOICES: Final = ("auto", "same_ca", "minted", "copied")
ADDRESS_CHOICES: Final = ("InternalIP", "ExternalIP")

OWNER_LABEL = f"{MANAGER_DOMAIN}/owner"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
SOURCE_NAME_LABEL = "edge-connect.eu/source-name"
SOURCE_WORKSPACE_LABEL = "edge-connect.eu/source-workspace"
PEERS_ANNOTATION = f"peers.{MANAGER_DOMAIN}"  # followed by /<owner>: JSON {inventory name: cluster name} of the peers in a Secret
USERS_ANNOTATION = f"users.{MANAGER_DOMAIN}"  # followed by /<owner>: the users that a binding added, comma-separated


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is no secret."""

    text: str


@dataclass(frozen=True, slots=True)
class FromSecret:
    """A value that stands in a Secret already, as observed."""

    cluster: str  # inventory name
    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class Minted:
    """Half of a new client certificate: ``part`` is ``certificate`` or ``key``. Equal requests of one step share one key pair."""

    issuer: str  # inventory name of the cluster whose cilium-ca signs
    common_name: str
    days: int
    part: str


Recipe: TypeAlias = Literal | FromSecret | Minted


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


Action: TypeAlias = ApplySecret | ApplyHostAliases | WriteUsers | DeleteObject


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
    action: Action

    def to_dict(self) -> dict[str, Any]:
        keys = ("wave", "cluster", "verb", "object", "why", "disruption", "undo")
        return {key: getattr(self, key) for key in keys}


@dataclass(frozen=True, kw_only=True)
class LinkPlan:
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
    """Every write, decided before the first one. ``relied_on`` holds, per cluster, a digest of the facts that the decisions rest on."""

    manager: str
    steps: tuple[Step, ...] = ()
    problems: tuple[Finding, ...] = ()
    links: tuple[LinkPlan, ...] = ()
    relied_on: Mapping[str, str] = field(default_factory=dict)

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
    def hash(self) -> str:
        """SHA-256 hex over the steps with their recipes and over all that was relied on. Equal for equal clusters; holds no secret."""
        steps = [{**step.to_dict(), "action": _action_data(step.action)} for step in self.steps]
        return digest_of({"manager": self.manager, "steps": steps, "reliedOn": dict(self.relied_on)})

    def to_dict(self) -> dict[str, Any]:
        return {
            "hash": self.hash,
            "steps": [step.to_dict() for step in self.steps],
            "problems": [problem.to_dict() for problem in self.problems],
            "links": [as_data(link) for link in self.links],
        }


def digest_of(value: Any) -> str:
    """SHA-256 hex of plain data in one canonical JSON form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _action_data(action: Action) -> dict[str, Any]:
    if isinstance(action, ApplySecret):  # the bulk of a plan: by hand, as each value is one of three flat shapes
        data = as_data(replace(action, data={}))
        return {**data, "type": "ApplySecret", "data": {key: _recipe_data(recipe) for key, recipe in action.data.items()}}
    # Versions of objects change with every write of anybody; what the plan rests on is in relied_on.
    data = as_data(action)
    for volatile in ("resource_version", "uid"):
        data.pop(volatile, None)
    return {"type": type(action).__name__, **data}


def _recipe_data(recipe: Recipe) -> list[str | int]:
    if isinstance(recipe, Literal):
        return ["literal", recipe.text]
    if isinstance(recipe, FromSecret):
        return ["secret", recipe.cluster, recipe.secret, recipe.key]
    return ["minted", recipe.issuer, recipe.common_name, recipe.days, recipe.part]
