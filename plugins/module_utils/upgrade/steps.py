# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ordered steps of an upgrade, as people and pipelines carry them out: before each hop, the hop with its values, and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..base.tables import count
from ..findings.wording import command, kubectl
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.ownership.gitops import HELM_NAME
from ..mesh.ownership.installers import installer, set_values
from ..mesh.versions.minors import Minor
from .effect import Need
from .forecast import Forecast, HopForecast


class StepKind(StrEnum):
    """What a step is."""

    PREPARE = "prepare"
    UPGRADE = "upgrade"
    CONNECT = "connect"
    VERIFY = "verify"


@dataclass(frozen=True, kw_only=True)
class UpgradeStep:
    """One step. ``restarts`` are the workloads that it restarts, ``values`` the Helm values that it sets."""

    number: int
    kind: StepKind
    cluster: str  # inventory name
    hop: str  # "1.18 to 1.19"
    text: str
    values: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    restarts: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the step as results have it."""
        return {
            "number": self.number,
            "kind": self.kind.value,
            "cluster": self.cluster,
            "hop": self.hop,
            "text": self.text,
            "values": list(self.values),
            "commands": list(self.commands),
            "restarts": list(self.restarts),
        }


def upgrade_steps(forecast: Forecast) -> tuple[UpgradeStep, ...]:
    """Return all steps in the order in which they are to be done. A member is finished before the next one begins."""
    found: list[UpgradeStep] = []
    for hop in forecast.hops:
        for kind, text, values, commands, restarts in _parts(hop, forecast.values):
            found.append(
                UpgradeStep(
                    number=len(found) + 1,
                    kind=kind,
                    cluster=hop.hop.host,
                    hop=f"{hop.hop.before} to {hop.hop.after}",
                    text=text,
                    values=values,
                    commands=commands,
                    restarts=restarts,
                )
            )
    return tuple(found)


def _parts(hop: HopForecast, given: Mapping[str, str]) -> Iterator[tuple[StepKind, str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
    for effect in hop.of(Need.BEFORE):
        yield StepKind.PREPARE, effect.summary, effect.values, effect.commands, ()
    needed = (value for effect in hop.of(Need.WITH) for value in effect.values if value.partition("=")[0] not in given)
    values = tuple(dict.fromkeys((*(f"{key}={value}" for key, value in given.items()), *needed)))
    text = f"Upgrade Cilium to the newest patch of {hop.hop.after}, and wait until the agents are ready"
    yield StepKind.UPGRADE, text, values, upgrade_commands(hop.facts, hop.hop.after, values), restarts_of(hop.facts)
    after = hop.of(Need.AFTER)
    if hop.writes or after or not hop.planned:
        restarted = tuple(dict.fromkeys(f"{step.disruption} in {step.cluster}" for step in hop.writes if step.disruption))
        what = f"Run the playbook connect: it writes {count(len(hop.writes), 'object')}" if hop.writes else "Run the playbook connect"
        notes = tuple(f"{step.cluster}: {step.verb} {step.object}" for step in hop.writes)
        yield StepKind.CONNECT, what, (), (*notes, *(line for effect in after for line in effect.commands)), restarted
    yield StepKind.VERIFY, "Run the playbook status, and go on when every link is ready", (), (), ()


def upgrade_commands(facts: ClusterFacts, after: Minor, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the commands of a hop for Helm, or the place where another installer takes its values.

    The values of the user are read and given again: with ``--reuse-values`` Helm would take the defaults of the old chart too, which
    Cilium's upgrade guide warns of.
    """
    found = installer(facts)
    if found is not None:
        return (set_values(found, (f"version {after}", *values)),)
    release, file = facts.config_annotations.get(HELM_NAME, "cilium"), f"values-{facts.host}.yaml"
    words = ["helm", "upgrade", release, "cilium", "--repo", "https://helm.cilium.io", "--version", f"~{after}.0"]
    words += ["--namespace", facts.namespace, "--values", file]
    for value in values:
        words += ["--set", value]
    return (
        f"{command('helm', 'get', 'values', release, '--namespace', facts.namespace, '--output', 'yaml')} > {command(file)}",
        command(*words),
        f"or, with the exact version: {command(*_cilium_cli(facts, after, file, values))}",
        kubectl(facts, "rollout", "status", "daemonset/cilium"),
    )


def _cilium_cli(facts: ClusterFacts, after: Minor, file: str, values: tuple[str, ...]) -> list[str]:
    """Return the command of the cilium CLI, which takes no range of versions."""
    words = ["cilium", "upgrade", "--version", f"{after}.PATCH", "--namespace", facts.namespace, "--values", file]
    return [*words, *(word for value in values for word in ("--set", value))]


def restarts_of(facts: ClusterFacts) -> tuple[str, ...]:
    """Return the workloads that every hop restarts, as their images change."""
    found = []
    if facts.agent is not None:
        found.append(f"DaemonSet {facts.agent.name} ({count(facts.agent.desired, 'pod')}, one node after the other)")
    found += [f"Deployment {workload.name}" for workload in (facts.operator, facts.apiserver) if workload is not None]
    return tuple(found)
