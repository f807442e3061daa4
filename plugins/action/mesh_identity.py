# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_identity: which name and id each cluster holds; and one of each for a cluster that was never meshed, when asked.

A cluster that is or was in a mesh is never renumbered: it is refused with a recipe, and nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from ..module_utils.columns import table
from ..module_utils.errors import ClusterError, Forbidden, InvalidInput
from ..module_utils.findings import CheckContext, Finding, Severity, ordered, registered, run
from ..module_utils.identity import Decision, Verdict, Wish, decide
from ..module_utils.identity_findings import SOLVED, foreign_leases, identity_findings
from ..module_utils.model import MANAGER_DOMAIN, Mesh
from ..module_utils.observe import Observation, observe
from ..module_utils.observe.objects import mapping, text
from ..module_utils.plan_identity import plan_assign
from ..module_utils.registry import KEY, Registry, mesh_registry, registry_name
from ..module_utils.steps import MANAGED_BY_LABEL
from ..plugin_utils.assigning import Assigned, Assignment, leases_data
from ..plugin_utils.engine import PARALLEL, requests
from ..plugin_utils.execution import NOTHING_WRITTEN, PlanAction
from ..plugin_utils.mesh_action import Call
from ..plugin_utils.outcome import Outcome, failure_findings, finding_of, refusal
from ..plugin_utils.play import accesses, asked, mesh_of
from ..plugin_utils.report import Line, findings_lines
from ..plugin_utils.spec import MESH, REPORT, Spec

_SPEC: Spec = {
    **MESH,
    **REPORT,
    "identity_policy": {"type": "str", "choices": ["verify", "assign"], "default": "verify"},
    "names": {"type": "dict", "default": {}},
    "quarantine_hours": {"type": "float", "default": 24.0},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 600},
}

_FAMILIES = ("CM-ID-", "CM-LEASE-", "CM-MESH-")
_COLOURS = {Verdict.REFUSE: "red", Verdict.ASSIGN: "yellow", Verdict.RESUME: "yellow"}


class ActionModule(PlanAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        wishes = _wishes(call.params["names"])
        if not 0 <= call.params["quarantine_hours"] <= 24 * 365:
            raise InvalidInput(f"quarantine_hours is {call.params['quarantine_hours']}.", remedy="Use 0 to 8760.")
        mesh = mesh_of(call.play, call.params["mesh"])
        call = replace(call, params={**call.params, "parallel": PARALLEL, "max_failures": None, "wishes": wishes})
        with self.observing(call, mesh) as observation:
            outcome = self._look(call, mesh, observation)
            return replace(outcome, requests=requests(observation))

    def _look(self, call: Call, mesh: Mesh, observation: Observation) -> Outcome:
        assign = call.params["identity_policy"] == "assign"
        facts, quarantine = observation.facts, timedelta(hours=call.params["quarantine_hours"])
        registry = mesh_registry(mesh, {host: facts[host] for host in mesh.clusters if host in facts})
        decisions = decide(mesh, facts, registry, wishes=call.params["wishes"], now=call.now, quarantine=quarantine)
        findings = _findings(call, mesh, observation, decisions, assign)
        self.so_far = replace(self.so_far, findings=findings, extra=_extra(decisions, registry))
        self.show([*findings_lines(findings), *_decision_lines(decisions)])
        error = refusal(findings, NOTHING_WRITTEN if assign else "see the findings.")
        if error or not assign:
            return replace(self.so_far, error=error)
        plan = plan_assign(mesh, facts, decisions, registry)
        self.announce(call, plan, observation)
        if call.check_mode or (plan.empty and not any(d.verdict is Verdict.RESUME for d in decisions)):
            return self.so_far
        return self._assign(call, mesh, observation, registry, decisions)

    def _assign(self, call: Call, mesh: Mesh, observation: Observation, registry: Registry, decisions: tuple[Decision, ...]) -> Outcome:
        members = accesses(call.play, asked(call.play, mesh))
        # Should it end by a defect of ours, writes may have been made: better to claim a change too many than one too few.
        self.so_far = replace(self.so_far, changed=True)
        done = Assignment(
            mesh=mesh,
            observation=observation,
            wishes=call.params["wishes"],
            quarantine=timedelta(hours=call.params["quarantine_hours"]),
            now=call.now,
            wait=call.params["wait"],
            timeout=float(call.params["wait_timeout"]),
            say=lambda sentence: self.show([Line(f"  {sentence}")]),
            look=lambda: observe(members, parallel=PARALLEL, registry=registry_name(mesh.binding)),
        ).run(registry, decisions)
        self.show([*findings_lines(done.findings), *_proof_lines(done)])
        return replace(
            self.so_far,
            changed=done.changed,
            findings=(*done.findings, *self.so_far.findings),
            extra={**_extra(done.decisions, done.registry), "proofs": [asdict(proof) for proof in done.proofs]},
            error="" if done.waits or not done.stopped else f"Stopped: {done.stopped}.",
        )


def _wishes(names: Any) -> dict[str, Wish]:
    """The option ``names``: inventory name -> {name, id}."""
    wishes: dict[str, Wish] = {}
    for host, wanted in dict(names).items():
        known = isinstance(wanted, Mapping) and set(wanted) <= {"name", "id"}
        name, number = (wanted.get("name", ""), wanted.get("id")) if known else ("", None)
        if isinstance(number, str) and number.isascii() and number.isdecimal():
            number = int(number)
        if not known or not isinstance(name, str) or isinstance(number, bool) or not isinstance(number, int | None):
            raise InvalidInput(
                f"names gives {str(host)!r} something else than a name and an id.", remedy="Write HOST: {name: NAME, id: 7}."
            )
        wishes[str(host)] = Wish(name=name, id=None if number is None else int(number))  # Ansible tags numbers too
    return wishes


def _findings(call: Call, mesh: Mesh, observation: Observation, decisions: tuple[Decision, ...], assign: bool) -> tuple[Finding, ...]:
    """What the checks of identity say, what the decisions say, and what other bindings have on record."""
    context = CheckContext(mesh=mesh, facts=observation.facts, failures=observation.failures, now=call.now)
    checks = run(context, [entry for code, entry in registered().items() if code.startswith(_FAMILIES)])
    mended = {d.host for d in decisions if d.verdict in (Verdict.ASSIGN, Verdict.RESUME) and d.id is not None} if assign else set()
    kept = [f for f in checks if not (f.cluster in mended and f.code in (*SOLVED, "CM-LEASE-15"))]
    silent = failure_findings(
        observation.failures.values(), Severity.REMEDIABLE, "Its lease stays as it is; a majority of the members has to answer."
    )
    return ordered((*kept, *silent, *identity_findings(decisions, observation.facts, assign=assign), *_other_bindings(mesh, observation)))


def _other_bindings(mesh: Mesh, observation: Observation) -> Iterable[Finding]:
    """Leases of other bindings, by one list per cluster of what this collection made; where RBAC forbids that, it is said."""
    found: dict[str, dict[str, str]] = {}
    for host, cluster in observation.clusters.items():
        path = f"/api/v1/namespaces/{observation.facts[host].namespace}/configmaps"
        try:
            items = cluster.list(path, label_selector=f"{MANAGED_BY_LABEL}={MANAGER_DOMAIN}")
        except Forbidden as error:
            yield replace(finding_of(error), severity=Severity.ADVISORY, evidence="Leases of other bindings were not looked at.")
            continue
        except ClusterError as error:
            yield replace(finding_of(error), severity=Severity.REMEDIABLE)
            continue
        found[host] = {text(item, "metadata", "name"): text(mapping(item, "data"), KEY) for item in items}
        found[host] = {name: content for name, content in found[host].items() if content}
    yield from foreign_leases(mesh, observation.facts, found)


def _extra(decisions: tuple[Decision, ...], registry: Registry) -> dict[str, Any]:
    rows = [{**asdict(d), "verdict": d.verdict.value, "reasons": list(d.reasons), "recipe": list(d.recipe)} for d in decisions]
    return {"identities": rows, "leases": list(leases_data(registry)), "proofs": []}


def _decision_lines(decisions: tuple[Decision, ...]) -> list[Line]:
    rows = [(d.host, d.verdict.value, d.name or "-", str(d.id or "-"), "; ".join(d.reasons)) for d in decisions]
    lines = [Line(f"  {row}", _COLOURS.get(d.verdict, "")) for row, d in zip(table(rows), decisions, strict=True)]
    return [Line("Identities:"), *lines] if lines else []


def _proof_lines(done: Assigned) -> list[Line]:
    return [Line(f"  {proof.host}: {'; '.join(proof.evidence)}", "green" if proof.proven else "yellow") for proof in done.proofs]
