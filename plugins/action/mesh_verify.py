# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_verify: is the mesh fit to be connected or taken apart, or each cluster fit to be meshed?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..module_utils.checks import TO_DISCONNECT, run_checks
from ..module_utils.eligibility import eligibility
from ..module_utils.errors import InvalidInput, MeshError
from ..module_utils.facts import as_data
from ..module_utils.findings import Check, CheckContext, Finding, Scope, registered
from ..module_utils.junit import Report, junit
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation, observe
from ..module_utils.probe_tls import probe_endpoints
from ..module_utils.registry import registry_name
from ..plugin_utils.engine import PARALLEL, context_of, judge_and_plan, requests
from ..plugin_utils.files import check_places, forget, write_whole
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.outcome import Outcome, finding_of, refusal
from ..plugin_utils.play import accesses, asked, lone_clusters, mesh_of
from ..plugin_utils.proving import claims_of
from ..plugin_utils.report import Line, eligibility_lines, findings_lines
from ..plugin_utils.spec import JUDGEMENT, MESH, REPORT, Spec
from ..plugin_utils.verify_document import document

_FILES = ("junit", "json")

_SPEC: Spec = {
    **MESH,
    **JUDGEMENT,
    **REPORT,
    "purpose": {"type": "str", "choices": ["connect", "disconnect", "cluster"], "default": "connect"},
    "fail_on": {"type": "str", "choices": ["blocking", "never"], "default": "blocking"},
    "probe": {"type": "bool", "default": True},
    "probe_timeout": {"type": "float", "default": 3.0},
    "claims": {"type": "bool", "default": False},
    "junit": {"type": "path"},
    "json": {"type": "path"},
}


class ActionModule(MeshAction):
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        if not 0 < call.params["probe_timeout"] <= 60:
            raise InvalidInput(f"probe_timeout is {call.params['probe_timeout']}.", remedy="Use more than 0 and at most 60 seconds.")
        places = check_places({option: call.params[option] or "" for option in _FILES})
        self._looked_at = Report(name="", clusters=(), observed=frozenset(), checks=(), findings=(), now=call.now)
        try:
            self.so_far = self._verify(call)
        except MeshError as error:
            finding = finding_of(error)
            self._keep(call, places, Outcome(findings=(finding,), error=str(error)))
            raise
        except BaseException:
            for path in places.values():
                forget(path)
            raise
        self._keep(call, places, self.so_far)
        return self.so_far

    def _verify(self, call: Call) -> Outcome:
        purpose = call.params["purpose"]
        given = call.params["mesh"]
        mesh = lone_clusters(call.play, given) if purpose == "cluster" else mesh_of(call.play, given, limited=True)
        self._looked_at = replace(self._looked_at, name=mesh.binding.name, clusters=mesh.clusters)
        registry = "" if purpose == "cluster" else registry_name(mesh.binding)
        with observe(accesses(call.play, asked(call.play, mesh)), parallel=PARALLEL, registry=registry) as observation:
            context = _probed(context_of(observation, mesh, call.params, call.now), observation, call.params)
            if _claims(call.params):
                context = replace(context, claims=claims_of(observation, mesh))
            findings = _findings(context, purpose)
            rows = {host: row.to_dict() for host, row in eligibility(findings, mesh.clusters).items()}
            self.show([*(findings_lines(findings) or [_fit(mesh, purpose)]), *eligibility_lines(rows)])
            self._looked_at = replace(
                self._looked_at,
                observed=frozenset(observation.facts),
                checks=_checks(purpose),
                skipped=_skipped(call.params),
            )
            error = refusal(findings, "see the findings.") if call.params["fail_on"] == "blocking" else ""
            extra = {"eligibility": rows, "probes": [as_data(probe) for probe in context.probes]}
            return Outcome(findings=findings, clusters=mesh.clusters, requests=requests(observation), error=error, extra=extra)

    def _keep(self, call: Call, places: Mapping[str, str], outcome: Outcome) -> None:
        """Also in check mode: the files are what a person asked to be told, and no cluster is changed."""
        report = replace(self._looked_at, findings=outcome.findings)
        if "junit" in places:
            write_whole("junit", places["junit"], junit(report))
        if "json" in places:
            write_whole("json", places["json"], document(report, call.params["purpose"], outcome))


def _claims(params: Mapping[str, Any]) -> bool:
    return bool(params["claims"]) and params["purpose"] == "connect"


def _skipped(params: Mapping[str, Any]) -> dict[str, str]:
    """Code -> why nothing was looked at."""
    off = {"CM-PROBE-": "" if _probes(params) else "probe is off", "CM-CLAIM-": "" if _claims(params) else "claims is off"}
    return {code: why for code in registered() for prefix, why in off.items() if why and code.startswith(prefix)}


def _probes(params: Mapping[str, Any]) -> bool:
    return bool(params["probe"]) and params["purpose"] != "disconnect"


def _probed(context: CheckContext, observation: Observation, params: Mapping[str, Any]) -> CheckContext:
    """With what TLS handshakes say. To take a mesh apart nobody has to be reached."""
    if not _probes(params):
        return context
    members = {host: observation.facts[host] for host in context.mesh.clusters if host in observation.facts}
    seconds = params["probe_timeout"]
    probes = probe_endpoints(members, context.choices, observation.secrets, resolved=context.resolved, timeout=seconds)
    return replace(context, probes=probes)


def _findings(context: CheckContext, purpose: str) -> tuple[Finding, ...]:
    if purpose == "connect":
        return judge_and_plan(context)[0]
    if purpose == "disconnect":
        return run_checks(context, "disconnect")
    return tuple(finding for finding in run_checks(context, "verify") if _of_one_cluster(finding))


def _checks(purpose: str) -> tuple[Check, ...]:
    """Those that ``purpose`` runs."""
    every = registered().values()
    if purpose == "disconnect":
        return tuple(check for check in every if check.code in TO_DISCONNECT)
    return tuple(check for check in every if purpose == "connect" or check.scope is Scope.CLUSTER)


def _of_one_cluster(finding: Finding) -> bool:
    """Findings outside the registry are clusters that did not answer."""
    check = registered().get(finding.code)
    return check is None or check.scope is Scope.CLUSTER


def _fit(mesh: Mesh, purpose: str) -> Line:
    what = "each by itself" if purpose == "cluster" else f"to {purpose} as mesh {mesh.binding.name}"
    return Line(f"No findings: {', '.join(mesh.clusters)}, {what}", "green")
