# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values that a run shows while it goes on: sentences, shown as they are, and data, which the receiver of ``Ports.show`` formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..ca.roll import RollPlan
from ..findings.finding import Finding
from ..identity.decide import IdentityDecision

Tone = Literal["", "good", "attention", "bad"]


@dataclass(frozen=True)
class Sentence:
    """One line of text for a person."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class FindingsMade:
    """Findings of one step of the run, in the order in which they are shown."""

    findings: Sequence[Finding]


@dataclass(frozen=True)
class PlanMade:
    """The plan, before any of it is written: ``Plan.to_dict()``."""

    plan: Mapping[str, Any]


@dataclass(frozen=True)
class LinksMeasured:
    """The state of a binding and of its links: its name, and ``status.binding``."""

    name: str
    status: Mapping[str, Any]


@dataclass(frozen=True)
class ItemsMeasured:
    """The state of every item: name of the binding, rows by kind as ``item_rows`` makes them, and findings about items."""

    name: str
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    findings: Sequence[Finding]


@dataclass(frozen=True)
class IdentitiesDecided:
    """Cluster name and id that each member holds or gets."""

    decisions: Sequence[IdentityDecision]


@dataclass(frozen=True)
class StageReached:
    """Stage of the CA roll of a binding."""

    name: str
    plan: RollPlan


@dataclass(frozen=True)
class TrustMeasured:
    """Certificates and CAs of a binding: its name, and the report of ``ca.report.trust_report``."""

    name: str
    report: Mapping[str, Any]


Shown: TypeAlias = Sentence | FindingsMade | PlanMade | LinksMeasured | ItemsMeasured | IdentitiesDecided | StageReached | TrustMeasured
