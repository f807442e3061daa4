# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A finding: one fact about the fitness of a cluster, a pair, an item or the mesh, and what its code says about it.

The catalogue (catalogue.py) has a row for every code, such as ``CM-CIDR-01``. The code is the name of the page in ``docs/runbooks``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Severity(StrEnum):
    """Effect of a finding on the run."""

    BLOCKING = "blocking"  # nothing is written anywhere while it stands; of a member that cannot take part, none of its links
    OUTAGE = "outage"  # the run goes on, and traffic that passes today stops with its writes
    REMEDIABLE = "remediable"  # the run goes on, but something does not work or will stop working; the fix is known
    ADVISORY = "advisory"  # for information; nothing needs to be done now


class Scope(StrEnum):
    """Subject of a finding. The first five are scopes of checks and decide with which arguments a check function is called."""

    CLUSTER = "cluster"  # function(context, ClusterFacts)
    PAIR = "pair"  # function(context, local ClusterFacts, peer ClusterFacts), once per ordered pair of the mesh's links
    MESH = "mesh"  # function(context)
    COMMON_PEER = "common_peer"  # function(context), once per group of clusters with a common peer: for values that must be unique there
    CONNECTED = "connected"  # function(context), once per group of clusters that links connect: for values that must be equal there
    ITEM = "item"  # one item (mesh/binding/item_kinds.py), in one or several clusters
    FABRIC = "fabric"  # the bindings of a fabric together
    RUN = "run"  # one run of a playbook or module


class Cure(StrEnum):
    """Effort that the fix of a finding takes, which decides whether a cluster is eligible (report/eligibility.py)."""

    LIVE = "live"  # objects and settings that take effect by themselves
    RESTART = "restart"  # a value of the installation, and workloads of Cilium that start anew
    REINSTALL = "reinstall"  # a cluster, its nodes or its pods have to be made or numbered anew


_FIELDS_OF_RESULT: Final = ("code", "severity", "cluster", "peer", "summary", "evidence", "fix", "accepted")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of a check or a plan: what is wrong, on which object, what was read, and how to fix it.

    ``to_dict`` returns the contract ``{code, severity, cluster, peer, summary, evidence, fix, accepted, anchor}``, and ``item`` where it is
    about one.
    """

    code: str
    severity: Severity
    cluster: str = ""
    peer: str = ""
    summary: str  # one sentence, names the thing
    evidence: str = ""  # what was read, and where; never a value of a Secret
    fix: str = ""  # a command or a Helm value
    accepted: bool = False  # the user listed the code in ``accept``; it no longer blocks
    item: str = ""  # the item that it is about (mesh/binding/item_kinds.py), e.g. "globalServices/nginx"; it then concerns that item alone
    others: tuple[str, ...] = ()  # further clusters that it is about, where there are more than ``cluster`` and ``peer``

    @property
    def anchor(self) -> str:
        """Path of the runbook page."""
        return f"docs/runbooks/{self.code}.md"

    @property
    def blocks(self) -> bool:
        """Whether the finding stops the run: it is blocking and the user does not accept it."""
        return self.severity is Severity.BLOCKING and not self.accepted

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as data for results; see the class for its keys."""
        values = {key: getattr(self, key) for key in _FIELDS_OF_RESULT}  # not asdict(): it copies deeply, and there may be thousands
        about = {"item": self.item} if self.item else {}
        return {**values, **about, "severity": self.severity.value, "anchor": self.anchor}


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings: those that block first, then by severity, code, item, cluster and peer."""
    order = list(Severity)
    return tuple(sorted(findings, key=lambda f: (not f.blocks, order.index(f.severity), f.code, f.item, f.cluster, f.peer)))
