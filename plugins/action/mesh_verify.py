# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_verify: runs the checks for connecting or disconnecting a mesh, or for each cluster by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..module_utils.base.errors import MeshError
from ..module_utils.checks import TO_DISCONNECT, run_checks
from ..module_utils.checks.context import CheckContext
from ..module_utils.checks.registry import Check, registered
from ..module_utils.findings.finding import Finding, Scope
from ..module_utils.leases.registry import registry_name
from ..module_utils.mesh.binding.model import Mesh
from ..module_utils.mesh.facts.cluster import as_data
from ..module_utils.observe import Observation
from ..module_utils.pipeline.envelope import sizes_of
from ..module_utils.pipeline.judgement import context_of, judge_and_plan
from ..module_utils.pipeline.links import contacts
from ..module_utils.pipeline.options import PARALLEL, ConnectOptions
from ..module_utils.pipeline.outcome import Outcome, Recorder, finding_of, refusal_sentence
from ..module_utils.pipeline.participants import participating_members, silence
from ..module_utils.pipeline.ports import Ports
from ..module_utils.pipeline.shown import FindingsMade
from ..module_utils.report.eligibility import eligibility
from ..module_utils.report.junit import JUnitReport, junit
from ..module_utils.report.passed import passed_sentence
from ..plugin_utils.files import check_places, forget, write_whole
from ..plugin_utils.fitted import Line
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import lone_clusters, mesh_of, mesh_to_verify
from ..plugin_utils.report import eligibility_lines
from ..plugin_utils.verify_document import document

_FILES = ("junit", "json")
UNBOUND = (
    "No binding says which clusters become a mesh: every host of the play is checked, for a full mesh without a name. "
    "Set cilium_mesh.binding to check a mesh that exists or is planned."
)


class ActionModule(MeshAction):
    """Action mesh_verify: runs the checks and writes nothing to a cluster."""

    def execute(self, call: Call) -> Outcome:
        """Run the checks of ``purpose``, and write the reports that the options name."""
        places = check_places({option: call.params[option] or "" for option in _FILES})
        self._report = JUnitReport(name="", clusters=(), observed=frozenset(), checks=(), findings=(), now=call.now)
        try:
            outcome = self._verify(call)
        except MeshError as error:
            finding = finding_of(error)
            self._write_reports(call, places, Outcome(findings=(finding,), error=str(error)))
            raise
        except BaseException:
            for path in places.values():
                forget(path)
            raise
        with Recorder(outcome):
            self._write_reports(call, places, outcome)
        return outcome

    def _verify(self, call: Call) -> Outcome:
        purpose = call.params["purpose"]
        mesh, unbound = _mesh(call, purpose)
        if unbound:
            self.show([Line(UNBOUND, "yellow")])
        self._report = replace(self._report, name=mesh.binding.name, clusters=mesh.clusters)
        registry = "" if purpose == "cluster" else registry_name(mesh.binding)
        with call.ports.observe(
            call.play.access(participating_members(call.play, mesh)), parallel=PARALLEL, registry=registry
        ) as observation:
            context = context_of(call.ports, observation, mesh, ConnectOptions.of(call.params), call.now)
            context = _with_probes(call.ports, context, observation, call.params)
            if purpose == "connect":
                context = replace(context, sizes=sizes_of(call.ports, observation))
            if _reads_peer_records(call.params):
                context = replace(context, peer_records=call.ports.peer_records(observation, mesh))
            findings = _findings_of(context, purpose)
            who = participating_members(call.play, mesh)
            judged = eligibility(findings, mesh.clusters, observed=observation.facts, asked=who)
            rows = {host: row.to_dict() for host, row in judged.items()}
            ran = [check.code for check in _checks_of(purpose) if check.code not in _skipped_checks(call.params)]
            passed = passed_sentence(ran, findings, list(observation.facts))
            call.ports.show(FindingsMade(findings))
            self.show([Line(passed)] if passed else [])
            self.show([*eligibility_lines(rows), *([] if findings else [_no_findings(mesh, purpose, unbound=unbound)])])
            self._report = replace(
                self._report,
                observed=frozenset(observation.facts),
                checks=_checks_of(purpose),
                skipped=_skipped_checks(call.params),
            )
            judges = call.params["fail_on"] == "blocking"
            return Outcome(
                findings=findings,
                clusters=mesh.clusters,
                **contacts(observation),
                error=refusal_sentence(findings, "see the findings.") if judges else "",
                unmet=silence(call.play, mesh, observation.failures, call.params["max_failures"]) if judges else "",
                extra={"eligibility": rows, "probes": [as_data(probe) for probe in context.probes]},
            )

    def _write_reports(self, call: Call, places: Mapping[str, str], outcome: Outcome) -> None:
        """Write the report files; also in check mode, as no cluster is changed by that."""
        report = replace(self._report, findings=outcome.findings)
        if "junit" in places:
            write_whole("junit", places["junit"], junit(report))
        if "json" in places:
            write_whole("json", places["json"], document(report, call.params["purpose"], outcome))


def _mesh(call: Call, purpose: str) -> tuple[Mesh, bool]:
    """Return the mesh to verify, and whether no binding says it."""
    given = call.params["mesh"]
    if purpose == "cluster":
        return lone_clusters(call.play, given), False
    return mesh_to_verify(call.play, given) if purpose == "connect" else (mesh_of(call.play, given, limited=True), False)


def _reads_peer_records(params: Mapping[str, Any]) -> bool:
    return bool(params["claims"]) and params["purpose"] == "connect"


def _skipped_checks(params: Mapping[str, Any]) -> dict[str, str]:
    """Return why checks did not run: code -> reason."""
    off = {"CM-PROBE-": "" if _probes(params) else "probe is off", "CM-CLAIM-": "" if _reads_peer_records(params) else "claims is off"}
    return {code: why for code in registered() for prefix, why in off.items() if why and code.startswith(prefix)}


def _probes(params: Mapping[str, Any]) -> bool:
    return bool(params["probe"]) and params["purpose"] != "disconnect"


def _with_probes(ports: Ports, context: CheckContext, observation: Observation, params: Mapping[str, Any]) -> CheckContext:
    """Return the context with the results of TLS handshakes; unchanged for a disconnection, which needs none."""
    if not _probes(params):
        return context
    members = context.mesh.members_in(observation.facts)
    seconds = params["probe_timeout"]
    probes = ports.probe_endpoints(
        members, context.decisions.endpoints, observation.secrets, resolved=context.decisions.policy.resolved, timeout=seconds
    )
    return replace(context, probes=probes)


def _findings_of(context: CheckContext, purpose: str) -> tuple[Finding, ...]:
    if purpose == "connect":
        return judge_and_plan(context, ConnectOptions(), "verify")[0]
    if purpose == "disconnect":
        return run_checks(context, "disconnect")
    return tuple(finding for finding in run_checks(context, "verify") if _of_one_cluster(finding))


def _checks_of(purpose: str) -> tuple[Check, ...]:
    """Return the checks that run for ``purpose``."""
    every = registered().values()
    if purpose == "disconnect":
        return tuple(check for check in every if check.code in TO_DISCONNECT)
    return tuple(check for check in every if purpose == "connect" or check.scope is Scope.CLUSTER)


def _of_one_cluster(finding: Finding) -> bool:
    """Return whether a finding is about one cluster. Codes without a check are of clusters that did not answer."""
    check = registered().get(finding.code)
    return check is None or check.scope is Scope.CLUSTER


def _no_findings(mesh: Mesh, purpose: str, *, unbound: bool) -> Line:
    name = "" if unbound else f" as mesh {mesh.binding.name}"
    what = "each by itself" if purpose == "cluster" else f"to {purpose}{name}"
    return Line(f"No findings: {', '.join(mesh.clusters)}, {what}", "green")
