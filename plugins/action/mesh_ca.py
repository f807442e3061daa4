# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_ca: what the trust of a mesh depends on, its renewal, and another CA for clusters without a dropped link."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ..module_utils.ca.guards import OTHERS_CODE
from ..module_utils.ca.methods import Issuing, read_issuing
from ..module_utils.ca.renew import only_renewals
from ..module_utils.ca.report import trust_report
from ..module_utils.ca.roll import Request
from ..module_utils.ca.signing import CA_DAYS
from ..module_utils.ca.state import Stage
from ..module_utils.errors import ClusterError, InvalidInput
from ..module_utils.facts import ClusterFacts
from ..module_utils.findings import Severity
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation, observe
from ..module_utils.registry import registry_name
from ..plugin_utils.ca_lines import stage_lines, trust_lines
from ..plugin_utils.ca_run import RollRun, World
from ..plugin_utils.engine import context_of, judge_and_plan, requests
from ..plugin_utils.execution import NOTHING_WRITTEN, PlanAction
from ..plugin_utils.mesh_action import Call
from ..plugin_utils.outcome import Outcome, failure_findings, refusal
from ..plugin_utils.play import accesses, mesh_of
from ..plugin_utils.report import findings_lines
from ..plugin_utils.spec import JUDGEMENT, MESH, REPORT, Spec

_SPEC: Spec = {
    **MESH,
    **JUDGEMENT,
    **REPORT,
    "state": {"type": "str", "choices": ["reported", "renewed", "rolled", "shared"], "default": "reported"},
    "clusters": {"type": "list", "elements": "str", "default": []},
    "source": {"type": "str", "default": ""},
    "confirm": {"type": "str", "default": ""},
    "stage": {"type": "str", "choices": [stage.value for stage in Stage], "default": Stage.DROP.value},
    "ca_days": {"type": "int", "default": CA_DAYS},
    "certificate_days": {"type": "int", "default": 365},
    "renew_before_days": {"type": "int", "default": 30},
    "parallel": {"type": "int", "default": 10},
    "wait_timeout": {"type": "int", "default": 300},
}
_LATER = {"max_failures": None, "repair": False}  # options of mesh_connect that mean nothing here


class ActionModule(PlanAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        mesh = mesh_of(call.play, call.params["mesh"])
        call = replace(call, params={**call.params, **_LATER})
        request = _request(mesh, call.params)
        self.so_far = Outcome(clusters=mesh.clusters)
        if call.params["state"] in ("rolled", "shared"):
            return self._roll(call, mesh, request)
        with self._observe(call, mesh) as observation:
            self.so_far = Outcome(clusters=mesh.clusters, requests=requests(observation))
            outcome = self._renew(call, mesh, observation) if call.params["state"] == "renewed" else self._report(call, mesh, observation)
            return replace(outcome, requests=requests(observation))

    def _observe(self, call: Call, mesh: Mesh) -> Observation:
        members = accesses(call.play, mesh.clusters)
        return observe(members, parallel=call.params["parallel"], registry=registry_name(mesh.binding))

    def _report(self, call: Call, mesh: Mesh, observation: Observation) -> Outcome:
        """Members that do not answer are findings; the rest is reported."""
        findings = failure_findings(observation.failures.values(), severity=_severity(observation), consequence="Its trust is not known.")
        self.show(findings_lines(findings))
        extra = self._trust(call, mesh, observation)
        error = "" if observation.facts else "No cluster answers."
        return replace(self.so_far, findings=findings, extra=extra, error=error)

    def _renew(self, call: Call, mesh: Mesh, observation: Observation) -> Outcome:
        context = context_of(observation, mesh, _without_own_codes(call.params), call.now)
        days = {key: call.params[key] for key in ("certificate_days", "renew_before_days")}
        findings, whole = judge_and_plan(context, **days)
        self.show(findings_lines(findings))
        if whole is None:
            return replace(self.so_far, findings=findings, error=refusal(findings, NOTHING_WRITTEN))
        plan = only_renewals(whole, observation.facts)
        self.so_far = replace(self.so_far, findings=findings)
        self.announce(call, plan, observation)
        if call.check_mode or plan.empty:
            return replace(self.so_far, extra=self._trust(call, mesh, observation))
        self.apply(call, mesh, plan, observation)
        with self._observe(call, mesh) as after:
            return replace(self.so_far, extra=self._trust(call, mesh, after))

    def _roll(self, call: Call, mesh: Mesh, request: Callable[[Mapping[str, ClusterFacts]], Request]) -> Outcome:
        world = World(
            observe=lambda: self._observe(call, mesh),
            show=self.show,
            now=lambda: call.now if call.check_mode else datetime.now(UTC),
            clock=time.monotonic,
            sleep=time.sleep,
        )
        run = RollRun(world=world, mesh=mesh, params=call.params, request=request, diff=call.diff)
        try:
            run.run(check=call.check_mode)
        finally:
            self.so_far = _outcome(mesh, run)
        if run.plan.ends or run.plan.stage is None:
            self.show(stage_lines(mesh.binding.name, run.plan))
        with self._observe(call, mesh) as after:
            return replace(self.so_far, extra={**self.so_far.extra, **self._trust(call, mesh, after)})

    def _trust(self, call: Call, mesh: Mesh, observation: Observation) -> dict[str, Any]:
        """Key ``trust`` of the result, and its table. As of now: certificates may be younger than the task."""
        if not observation.facts:
            return {"trust": {"clusters": [], "pairs": []}}
        now = datetime.now(UTC)
        context = context_of(observation, mesh, _without_own_codes(call.params), now)
        days = call.params["renew_before_days"]
        report = trust_report(mesh, observation.facts, context.choices, _issuing(observation), now=now, renew_before_days=days)
        self.show(trust_lines(mesh.binding.name, report))
        return {"trust": report}


def _outcome(mesh: Mesh, run: RollRun) -> Outcome:
    return Outcome(
        changed=run.changed,
        findings=run.findings,
        plan=run.plan_data(),
        clusters=mesh.clusters,
        requests=run.requests,
        error=run.error,
        diff=tuple(run.diffs),
        extra={"roll": run.data()},
    )


def _issuing(observation: Observation) -> dict[str, Issuing]:
    """Who issues, where that may be read."""
    found = {}
    for host, facts in observation.facts.items():
        try:
            found[host] = read_issuing(observation.clusters[host], facts)
        except ClusterError:  # RBAC, mostly: the column stays empty
            continue
    return found


def _request(mesh: Mesh, params: Mapping[str, Any]) -> Callable[[Mapping[str, ClusterFacts]], Request]:
    """What is asked for, as a function of what is there: with ``shared`` those roll whose CA is not the source's.

    :raises InvalidInput: an option is missing, names a stranger, or belongs to another state.
    """
    state, named, source, confirm = params["state"], [str(c) for c in params["clusters"]], params["source"], params["confirm"]
    strangers = [name for name in (*named, *([source] if source else [])) if name not in mesh.clusters]
    if strangers:
        raise InvalidInput(
            f"{', '.join(strangers)}: no member of the mesh.", remedy=f"Its members are {', '.join(mesh.clusters)}; name these."
        )
    if named and state != "rolled":
        raise InvalidInput("clusters is for state=rolled.", remedy="With state=shared every member but the source takes the source's CA.")
    if (source or confirm) and state != "shared":
        raise InvalidInput("source and confirm are for state=shared.", remedy="Leave them out.")
    if state == "shared":
        _confirmed(mesh, source, confirm)
    for name, least in (("ca_days", 2), ("wait_timeout", 0), ("parallel", 1), ("certificate_days", 1), ("renew_before_days", 0)):
        if params[name] < least:
            raise InvalidInput(f"{name} is {params[name]}.", remedy=f"Use {least} or more.")
    until = Stage(params["stage"])

    def request(facts: Mapping[str, ClusterFacts]) -> Request:
        if state == "shared":
            wanted = tuple(host for host in mesh.clusters if host != source and facts[host].ca.digest != facts[source].ca.digest)
        else:
            wanted = tuple(host for host in mesh.clusters if not named or host in named)
        return Request(clusters=wanted, days=params["ca_days"], source=source, until=until)

    return request


def _confirmed(mesh: Mesh, source: str, confirm: str) -> None:
    if not source:
        raise InvalidInput("state=shared needs source.", remedy="Name the member whose CA, with its key, the others are to take.")
    if confirm != mesh.binding.name:
        raise InvalidInput(
            f"state=shared copies the CA of {source}, with its private key, into every other member: each can then speak for each.",
            remedy=f"If that is meant, set confirm to the name of the mesh, {mesh.binding.name}.",
        )


def _without_own_codes(params: Mapping[str, Any]) -> dict[str, Any]:
    """CM-CA-04 is accepted here; the checks of connect do not know it."""
    return {**params, "accept": [code for code in params["accept"] if code != OTHERS_CODE]}


def _severity(observation: Observation) -> Severity:
    return Severity.REMEDIABLE if observation.facts else Severity.BLOCKING
