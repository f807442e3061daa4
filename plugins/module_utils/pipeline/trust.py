# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The runs that report the certificates and CAs of a mesh, and renew certificates."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ..base.errors import ClusterError
from ..ca.guards import OTHERS_CODE
from ..ca.renew import not_renewable, only_renewals
from ..ca.report import trust_report
from ..checks.context import CheckContext
from ..findings.finding import Finding, Severity, ordered
from ..findings.wording import listed
from ..mesh.trust.issuing import Issuing
from ..observe import Observation
from .connect import NOTHING_WRITTEN, carry_out
from .judgement import context_of, judge_and_plan
from .links import contacts
from .options import ConnectOptions
from .outcome import Outcome, Recorder, failure_findings, finding_of, refusal_sentence
from .participants import silence
from .run import Run, announce, locked, observation_stands
from .shown import FindingsMade, TrustMeasured
from .trust_ports import REAL_TRUST_PORTS, TrustPorts


def report_trust(run: Run, options: ConnectOptions, reach: TrustPorts = REAL_TRUST_PORTS) -> Outcome:
    """Report the certificates and CAs of the members that answer; the others are findings.

    :raises Interrupted: when an error ended the run.
    """
    with Recorder(Outcome(clusters=run.mesh.clusters)) as recorder, run.observe(options.parallel) as observation:
        severity = Severity.REMEDIABLE if observation.facts else Severity.BLOCKING
        findings = failure_findings(observation.failures.values(), severity=severity, consequence="Its trust is not known.")
        run.ports.show(FindingsMade(findings))
        recorder.note(**contacts(observation))
        error = "" if observation.facts else "No cluster answers."
        recorder.note(findings=findings, error=error)
        measure_trust(run, reach, options, observation, recorder)
        recorder.note(**contacts(observation))
        recorder.note(unmet="" if error else silence(run.who, run.mesh, observation.failures, options.max_failures))
    return recorder.outcome


def renew(run: Run, options: ConnectOptions, reach: TrustPorts = REAL_TRUST_PORTS) -> Outcome:
    """Renew the certificates that are due, and report all.

    :raises Interrupted: when an error ended the run.
    """
    return locked(run, options, "renew certificates", lambda locking: _renew(locking, reach, options))


def _renew(run: Run, reach: TrustPorts, options: ConnectOptions) -> Outcome | None:
    """Observe, plan and write once; return None if the clusters have to be observed again."""
    with Recorder(Outcome(clusters=run.mesh.clusters)) as recorder, run.observe(options.parallel) as observation:
        recorder.note(**contacts(observation))
        context = context_of(run.ports, observation, run.mesh, without_own_codes(options), run.now)
        findings, whole = judge_and_plan(context, options)
        plan = only_renewals(whole, observation.facts) if whole is not None else None
        if plan is not None and not observation_stands(run, observation, write=not plan.empty):
            return None
        run.ports.show(FindingsMade(findings))
        recorder.note(findings=findings, error=refusal_sentence(findings, NOTHING_WRITTEN) if plan is None else "")
        if plan is None:
            return recorder.outcome
        announce(run, plan, observation, recorder)
        if run.check_mode or plan.empty:
            measure_trust(run, reach, options, observation, recorder)
        else:
            carry_out(run, options, plan, observation, recorder)
            with run.observe(options.parallel) as after:
                measure_trust(run, reach, options, after, recorder)
        silent = silence(run.who, run.mesh, observation.failures, options.max_failures)
        recorder.note(**contacts(observation), unmet=" ".join(filter(None, (silent, _not_renewed(context, options)))))
    return recorder.outcome


def _not_renewed(context: CheckContext, options: ConnectOptions) -> str:
    """Return the sentence that names links whose certificate is due and stays, since the CA that issued it cannot be read; "" for none."""
    due_by = context.now + timedelta(days=options.renew_before_days)
    stuck = [f"{local} -> {peer}" for local, peer in not_renewable(context.decisions, due_by)]
    if not stuck:
        return ""
    return f"The client certificates of {listed(stuck)} are due and were not renewed, since Secret cilium-ca of the peer may not be read."


def measure_trust(run: Run, reach: TrustPorts, options: ConnectOptions, observation: Observation, recorder: Recorder) -> None:
    """Show the certificates and CAs of the mesh, and record them, with a finding for each cluster that does not say who issues them.

    Ages count from now and not from the beginning of the run, which may be before the certificates were issued.
    """
    if not observation.facts:
        recorder.note(extra={**recorder.outcome.extra, "trust": {"clusters": [], "pairs": []}})
        return
    now = run.ports.now()
    context = context_of(run.ports, observation, run.mesh, without_own_codes(options), now)
    days = options.renew_before_days
    issuing, unread = _issuing(reach, observation)
    report = trust_report(context.decisions, issuing, renew_before_days=days)
    run.ports.show(FindingsMade(unread))
    run.ports.show(TrustMeasured(run.mesh.binding.name, report))
    recorder.note(extra={**recorder.outcome.extra, "trust": report}, findings=ordered((*recorder.outcome.findings, *unread)))


def without_own_codes(options: ConnectOptions) -> ConnectOptions:
    """Return the options without CM-CA-04 in ``accept``, which the checks of connect do not know."""
    return replace(options, accept=tuple(code for code in options.accept if code != OTHERS_CODE))


def _issuing(reach: TrustPorts, observation: Observation) -> tuple[dict[str, Issuing], tuple[Finding, ...]]:
    """Return what issues the certificates of each cluster, by inventory name, and a finding for each where that cannot be read."""
    found: dict[str, Issuing] = {}
    unread: list[Finding] = []
    for host in observation.facts:
        try:
            found[host] = reach.read_issuing(observation, host)
        except ClusterError as error:  # RBAC, mostly
            unread.append(finding_of(error, Severity.ADVISORY, "Who issues its certificates, and when, is not known."))
    return found, tuple(unread)
