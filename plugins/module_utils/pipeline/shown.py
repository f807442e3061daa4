# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values that a run shows while it goes on: sentences, shown as they are, and data, which the receiver of ``Ports.show`` formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..findings.finding import Finding

if TYPE_CHECKING:  # each run shows few of these values, and should not import what the others are made by
    from ..ca.roll import RollPlan
    from ..envelope.envelope import Envelope
    from ..identity.decide import IdentityDecision
    from ..rehearse.rehearsal import Rehearsals

Tone = Literal["", "good", "attention", "bad"]


@dataclass(frozen=True)
class Sentence:
    """One line of text for a person."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Waiting:
    """Sign of life of a wait or of writes: where it is, for a line of a terminal that changes, and news for a line of a log, if any."""

    state: str
    news: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class FindingsMade:
    """Findings of one step of the run, in the order in which they are shown.

    ``brief``: only the first ones, unless everything is asked for. For findings that stop nothing and of which there may be hundreds.
    ``which``: what the heading says of them, for instance that one more is shown elsewhere; "" for nothing.
    """

    findings: Sequence[Finding]
    brief: bool = False
    which: str = ""


@dataclass(frozen=True)
class PlanMade:
    """The plan, before any of it is written: ``Plan.to_dict()``."""

    plan: Mapping[str, Any]


@dataclass(frozen=True)
class WritesBegin:
    """The number of steps that are written now. What was shown before is from before them."""

    steps: int


@dataclass(frozen=True)
class LinksMeasured:
    """The state of a binding and of its links: its name, and ``status.binding``.

    ``brief``: if the mesh is as it should be, that is said in one line, as nothing was done.
    """

    name: str
    status: Mapping[str, Any]
    brief: bool = False


@dataclass(frozen=True)
class ItemsMeasured:
    """The state of every item: name of the binding, rows by kind as ``item_rows`` makes them, and findings about items.

    ``brief``: if all items are as they should be, that is said in one line, as nothing was done.
    """

    name: str
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    findings: Sequence[Finding]
    brief: bool = False


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


@dataclass(frozen=True)
class WorkloadsMeasured:
    """The state of every workload of a tenant: workspace and namespace, and rows ``{name, status}``."""

    name: str
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RightsMade:
    """The manifest with the rights of an account, and the clusters for which it is: inventory names, and YAML."""

    clusters: Sequence[str]
    manifest: str


@dataclass(frozen=True)
class LossesRehearsed:
    """What each loss would do: name of the binding, and the rehearsals, the gravest first."""

    name: str
    rehearsals: Rehearsals


@dataclass(frozen=True)
class EnvelopeMeasured:
    """How large a mesh is, and what is left: name of the binding, and the envelope."""

    name: str
    envelope: Envelope


@dataclass(frozen=True)
class ArchiveMade:
    """An archive for a bug report: its path, its summary (``gather.archive.summary``), and its size in bytes."""

    path: str
    summary: Mapping[str, Any]
    size: int


Shown: TypeAlias = (
    Sentence
    | Waiting
    | FindingsMade
    | PlanMade
    | WritesBegin
    | LinksMeasured
    | ItemsMeasured
    | IdentitiesDecided
    | StageReached
    | TrustMeasured
    | WorkloadsMeasured
    | RightsMade
    | LossesRehearsed
    | EnvelopeMeasured
    | ArchiveMade
)
