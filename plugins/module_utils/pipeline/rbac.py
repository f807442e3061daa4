# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run that makes the RBAC rights of a mesh: it reads what decides them in each cluster, and returns manifests or writes the objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.json_fields import items, text
from ..findings.finding import Finding, Severity, ordered
from ..kubeconfig.access import ClusterAccess
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.ownership.marks import OWNER_LABEL
from ..mesh.trust.issuing import CRON_JOB
from ..observe import Observation
from ..observe.answers import refused
from ..observe.reads import Read
from ..plan.steps import ApiWrite, Plan, Step
from ..rbac.circumstances import names_in, of_cluster
from ..rbac.manifest import Account, Grant, default_name, manifest_of, objects_of
from ..rbac.plan import COLLECTIONS, ROOT, Present, path_of, rbac_steps
from ..rbac.rule import Circumstance, Function, Known
from .fleet_diff import as_text, sides_of
from .links import contacts
from .options import PARALLEL
from .outcome import Outcome, Recorder, failure_findings, finding_of, refusal_sentence
from .participants import participating_members
from .progress import writing
from .run import Run
from .shown import FindingsMade, PlanMade, RightsMade

PRINTED: Final = "printed"
ABSENT: Final = "absent"
_UNKNOWN: Final = "It was not read, so rules that only some clusters need are in its manifest too, each with the circumstance."


@dataclass(frozen=True, kw_only=True)
class RbacOptions:
    """What is asked for. ``of_mesh``: circumstances that the items decide. ``name``: "" is that of the leases of the mesh.

    An ``account`` that is a ServiceAccount without a namespace is in that of Cilium.
    """

    state: str
    functions: frozenset[Function]
    of_mesh: Known
    account: Account
    name: str = ""
    item_namespaces: tuple[str, ...] = ()


def make_rights(run: Run, options: RbacOptions) -> Outcome:
    """Show the manifest of each cluster; or write the objects, or withdraw them.

    :raises InvalidInput: when a host has no usable variables; no request was sent.
    :raises Interrupted: when an error ended the run.
    """
    members = run.who.access(participating_members(run.who, run.mesh))
    with run.ports.observe(members, parallel=PARALLEL) as observation:
        grants = {access.host: _grant(run, options, access, observation) for access in members}
        if options.state == PRINTED:
            return _printed(run, grants, observation)
        return _written(run, options, grants, observation)


def _grant(run: Run, options: RbacOptions, access: ClusterAccess, observation: Observation) -> Grant:
    facts, account = observation.facts.get(access.host), options.account
    if account.kind == "ServiceAccount" and not account.namespace:
        account = Account(kind=account.kind, name=account.name, namespace=access.namespace)
    known = _known(run, facts, observation, options.functions) if facts is not None else {}
    return Grant(
        binding=run.mesh.binding,
        name=options.name or default_name(run.mesh.binding),
        subject=account,
        functions=options.functions,
        namespace=access.namespace,
        known={**known, **options.of_mesh, Circumstance.RESERVED_BALANCER: bool(access.elb_id)},
        names=names_in(facts),
        item_namespaces=options.item_namespaces,
    )


def _known(run: Run, facts: ClusterFacts, observation: Observation, functions: frozenset[Function]) -> Known:
    reads = {"groups": Read(path="/apis")}
    if Function.CA in functions:
        reads["certgen"] = Read(path=f"/apis/batch/v1/namespaces/{facts.namespace}/cronjobs/{CRON_JOB}", optional=True)
    found = run.ports.read(observation, facts.host, reads)
    groups = frozenset(text(group, "name") for group in items(found["groups"] or {}, "groups"))
    unknown = "certgen" not in found or refused(found["certgen"])
    return of_cluster(facts, groups, None if unknown else found["certgen"] is not None)


def _printed(run: Run, grants: Mapping[str, Grant], observation: Observation) -> Outcome:
    findings = failure_findings(observation.failures.values(), Severity.ADVISORY, _UNKNOWN)
    run.ports.show(FindingsMade(findings))
    for row in _manifests(grants):
        run.ports.show(RightsMade(row["clusters"], row["manifest"]))
    return _outcome(run, grants, observation, findings=findings)


def _manifests(grants: Mapping[str, Grant]) -> list[dict[str, Any]]:
    """Return each manifest once, with the clusters for which it is: those of a mesh are mostly alike."""
    found: dict[str, list[str]] = {}
    for host, grant in grants.items():
        found.setdefault(manifest_of(grant), []).append(host)
    return [{"clusters": hosts, "manifest": manifest} for manifest, hosts in found.items()]


def _outcome(run: Run, grants: Mapping[str, Grant], observation: Observation, **fields: Any) -> Outcome:
    made = {"rbac": {"manifests": _manifests(grants)}}
    return Outcome(clusters=run.mesh.clusters, **contacts(observation), extra=made, **fields)


def _written(run: Run, options: RbacOptions, grants: Mapping[str, Grant], observation: Observation) -> Outcome:
    """Write what differs, in the clusters that answer; all is decided before the first write."""
    silent = failure_findings(observation.failures.values(), Severity.REMEDIABLE, "Its rights stay as they are.")
    present: dict[str, Present] = {}
    steps: list[Step] = []
    problems: list[Finding] = []
    for host, grant in grants.items():
        if host in observation.facts:
            present[host] = _present(run, observation, host, grant, wanted=options.state != ABSENT)
            made, found = rbac_steps(grant, host, present[host], wanted=options.state != ABSENT)
            steps += made
            problems += found
    plan = Plan(manager=run.mesh.binding.manager, steps=tuple(sorted(steps, key=lambda step: step.wave)), problems=tuple(problems))
    findings = ordered((*problems, *silent))
    run.ports.show(FindingsMade(findings))
    run.ports.show(PlanMade(plan.to_dict()))
    refused = refusal_sentence(problems, "nothing was written anywhere.")
    diff = tuple(_diffs(plan.steps, present)) if run.diff else ()
    missed = f"Not reached: {', '.join(observation.failures)}. Their rights stay as they are." if silent else ""
    with Recorder(
        _outcome(run, grants, observation, findings=findings, plan=plan.to_dict(), diff=diff, error=refused or missed)
    ) as recorder:
        if refused or plan.empty:
            return recorder.outcome
        recorder.note(changed=True)
        if not run.check_mode:
            done = run.ports.apply(plan, observation, now=run.ports.now(), parallel=PARALLEL, progress=writing(run.ports))
            late = tuple(finding_of(error) for error in done.failures.values())
            run.ports.show(FindingsMade(late))
            recorder.note(
                changed=done.changed,
                findings=ordered((*findings, *late)),
                **contacts(observation),
                error=" ".join(filter(None, (missed, f"Rights of {', '.join(done.failures)} could not be written." if late else ""))),
            )
    return recorder.outcome


def _present(run: Run, observation: Observation, host: str, grant: Grant, *, wanted: bool) -> Present:
    label = f"{OWNER_LABEL}={grant.binding.owner}"
    at = {path: Read(path=path) for path in (path_of(body) for body in objects_of(grant))} if wanted else {}
    own = {plural: Read(path=f"{ROOT}/{plural}", many=True, label_selector=label) for plural in COLLECTIONS}
    return Present(at=run.ports.read(observation, host, at), own=run.ports.read(observation, host, own))


def _diffs(steps: Iterable[Step], present: Mapping[str, Present]) -> Iterator[dict[str, str]]:
    for step in steps:
        if isinstance(step.action, ApiWrite):
            before, after = sides_of(step.action, present[step.cluster].at.get(step.action.path))
            header = f"{step.cluster}{step.action.path}"
            yield {"before": as_text(before), "after": as_text(after), "before_header": header, "after_header": header}
