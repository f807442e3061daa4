# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Global services, intents and exposed services: from one observation to all their writes, and to a status of each of them.

An item that is refused, waits, or fails in a cluster takes no other item with it; the run then fails, and says which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from ..module_utils.apply import ApplyResult, apply_plan
from ..module_utils.diff import diff_plan
from ..module_utils.errors import MeshError
from ..module_utils.findings import Finding, Severity, ordered
from ..module_utils.items.desired import Desired
from ..module_utils.items.kinds import ItemKind
from ..module_utils.items.observe_scene import as_if_connected, observe_again, observe_scene
from ..module_utils.items.parse import desired_of
from ..module_utils.items.planned import Verdict
from ..module_utils.items.rows import Course, Rows, item_rows, look_again
from ..module_utils.items.run import ItemsPlan, plan_items, waits_for_mesh
from ..module_utils.items.scene import Scene
from ..module_utils.model import Mesh
from ..module_utils.observe import Observation, observe
from ..module_utils.plan_report import SHORT_HASH
from ..module_utils.registry import registry_name
from ..module_utils.status import build_status
from ..module_utils.stored_plan import stored_plan
from ..module_utils.topology import Topology
from .engine import not_seen, read_all, requests
from .items_participants import NO_ROWS, silent_findings
from .items_probes import probes_of
from .items_report import absent_line, items_lines, some_items
from .mesh_action import Call, MeshAction
from .outcome import Outcome, count, finding_of, refusal
from .participants import check_breadth, failures_left, left_out_lines, look_at_former
from .play import accesses, asked, mesh_of, plain
from .proving import prove_all
from .report import Line, findings_lines, plan_lines
from .spec import BREADTH, MESH, PREVIOUS, REPORT, Spec

NOTHING_WRITTEN: Final = "nothing was written anywhere."
PLAN_CHANGED: Final = "CM-PLAN-01"

ITEMS: Final[Spec] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "require_connected": {"type": "bool", "default": True},
    "assume_connected": {"type": "bool", "default": False},
    "binding_status": {"type": "dict"},
    **PREVIOUS,
    "former": {"type": "list", "elements": "str", "default": []},
    "probe_image": {"type": "str", "default": ""},
    "hash": {"type": "str", "default": ""},
}
"""Options of the actions that carry items out. The twin of doc_fragments/_mesh.py, ITEMS: change both."""


_SPEC: Spec = {**MESH, **REPORT, **BREADTH, **ITEMS}


class ItemsAction(MeshAction):
    """Base of the actions: they declare the kinds of items that are theirs. Everything found out so far stands in ``self.so_far``."""

    KINDS: ClassVar[tuple[ItemKind, ...]] = tuple(ItemKind)
    SPEC = _SPEC

    def execute(self, call: Call) -> Outcome:
        check_breadth(call.params)
        approved = stored_plan(call.params["hash"]) if call.params["hash"] else None
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        desired = self._desired(call, mesh)
        self.so_far = Outcome(clusters=mesh.clusters, extra={"status": NO_ROWS})
        if not desired.kinds:
            self.show([Line(f"{' and '.join(kind.value for kind in self.KINDS)}: not in cilium_mesh, so nothing is done about them")])
            return self.so_far
        members = accesses(call.play, asked(call.play, mesh))
        with observe(members, parallel=call.params["parallel"], registry=registry_name(mesh.binding)) as observation:
            look_at_former(call, mesh, observation, call.params["former"])
            scene, former = self._scenes(call, desired, observation)
            refused = self._silent(call, scene, observation)
            self.so_far = replace(self.so_far, requests=requests(observation))
            if refused:
                return self.so_far
            decided = self._plan(call, desired, scene, former)
            if approved is not None and not approved.is_the_same_as(decided.plan.hash):
                return self._plan_changed(approved.hash, decided.plan.hash)
            after, course = scene, Course()
            if not call.check_mode:
                after, course = self._carry_out(call, desired, decided, scene, observation)
            outcome = self._tell(call, desired, decided, after, course)
            return replace(outcome, requests=requests(observation))

    def _desired(self, call: Call, mesh: Mesh) -> Desired:
        """With ``state: absent`` there is no item of these kinds, whatever the file says."""
        if call.params["state"] == "absent":
            return Desired(mesh=mesh, kinds=frozenset(self.KINDS))
        return desired_of(plain(call.params["mesh"]), mesh, kinds=self.KINDS)

    def _scenes(self, call: Call, desired: Desired, observation: Observation) -> tuple[Scene, Scene | None]:
        """Of the members, and of clusters that left, where something may be left of items."""
        mesh, parallel = desired.mesh, call.params["parallel"]
        status = self._binding_status(call, desired, observation)
        scene = observe_scene(observation, mesh, desired.kinds, now=call.now, binding_status=status, parallel=parallel)
        gone = observation.former
        if gone is None or not gone.facts:
            return scene, None
        left = Mesh(binding=replace(mesh.binding, cluster_refs=tuple(gone.facts), topology=Topology()))
        return scene, observe_scene(gone, left, desired.kinds, now=call.now, parallel=parallel)

    def _binding_status(self, call: Call, desired: Desired, observation: Observation) -> Mapping[str, Any] | None:
        """As an earlier task measured it, or measured now; None where nobody asks. Links are proven by new connections where a member is
        silent, and for a failover contract, which promises to notice within seconds what kvstoremesh notices within 100."""
        mesh = desired.mesh
        if call.params["state"] == "absent" or not call.params["require_connected"]:
            return None
        status: Mapping[str, Any] = plain(call.params["binding_status"] or {})
        if not status.get("phase"):
            proven = bool(observation.failures) or any(service.failover for service in desired.services)
            readers = prove_all(observation, mesh) if proven else read_all(observation, mesh)
            status = build_status(mesh, observation.facts, not_seen(observation, mesh), readers, now=datetime.now(UTC))
        return as_if_connected(status, observation.facts) if call.check_mode and call.params["assume_connected"] else status

    def _silent(self, call: Call, scene: Scene, observation: Observation) -> bool:
        """Clusters that did not answer, as findings; True when they stop the run."""
        findings = silent_findings(
            scene,
            observation.former,
            leaving=call.params["state"] == "absent",
            max_failures=call.params["max_failures"],
        )
        self.show(findings_lines(findings))
        self.so_far = replace(self.so_far, findings=findings, error=refusal(findings, NOTHING_WRITTEN))
        return bool(self.so_far.error)

    def _plan(self, call: Call, desired: Desired, scene: Scene, former: Scene | None) -> ItemsPlan:
        """Decide, and show the plan, for people and as data, before anything is done."""
        waits = waits_for_mesh(scene)
        options = {
            "purpose": "items",
            "state": call.params["state"],
            "kinds": sorted(kind.value for kind in desired.kinds),
            "requireConnected": call.params["require_connected"],
        }
        decided = plan_items(desired, scene, former=former, waits=waits, options=options)
        data = decided.plan.to_dict()
        self.show(plan_lines(data))
        every = {**scene.facts, **(former.facts if former else {})}
        seen = {**scene.traffic, **(former.traffic if former else {})}
        diff = tuple(diff_plan(decided.plan, every, seen)) if call.diff else ()
        findings = ordered((*self.so_far.findings, *decided.findings))
        changed = call.check_mode and not decided.plan.empty
        self.so_far = replace(self.so_far, changed=changed, plan=data, diff=diff, findings=findings)
        return decided

    def _plan_changed(self, was: str, now: str) -> Outcome:
        finding = Finding(
            code=PLAN_CHANGED,
            severity=Severity.BLOCKING,
            summary=f"plan {was[:SHORT_HASH]}, which was approved, is no longer what has to be done; that is now plan {now[:SHORT_HASH]}",
            fix=f"look at the fresh plan, and approve its hash {now[:SHORT_HASH]}",
        )
        self.show(findings_lines([finding]))
        error = f"{PLAN_CHANGED}: {finding.summary}; {NOTHING_WRITTEN}"
        return replace(self.so_far, changed=False, findings=(finding, *self.so_far.findings), error=error)

    def _carry_out(self, call: Call, desired: Desired, decided: ItemsPlan, scene: Scene, observation: Observation) -> tuple[Scene, Course]:
        """Write what was announced, look again, and probe."""
        failed: dict[str, dict[str, str]] = {}
        written: frozenset[str] = frozenset()
        if not decided.plan.empty:
            done = self._apply(call, desired.mesh, decided, observation)
            failed = {item: {host: error.message for host, error in errors.items()} for item, errors in done.items.items()}
            written = frozenset(step.item for step in done.applied)
            hosts = {step.cluster for step in done.applied}
            scene = observe_again(scene, observation, desired.kinds, hosts, parallel=call.params["parallel"]) if hosts else scene
        probes, findings = probes_of(desired, decided, scene, observation, failed=failed, written=written, params=plain(call.params))
        self.so_far = replace(self.so_far, findings=ordered((*self.so_far.findings, *findings)))
        return scene, Course(failed=failed, probes=probes)

    def _apply(self, call: Call, mesh: Mesh, decided: ItemsPlan, observation: Observation) -> ApplyResult:
        # Should apply_plan end by a defect of ours, writes may have been made: better to claim a change too many than one too few.
        before, self.so_far = self.so_far, replace(self.so_far, changed=True)
        try:
            allowed = failures_left(call.params["max_failures"], mesh, observation)
            done = apply_plan(decided.plan, observation.whole, now=call.now, parallel=call.params["parallel"], max_failures=allowed)
        except MeshError:  # it raises these only before the first write
            self.so_far = before
            raise
        ended = [finding_of(error) for _host, error in sorted(done.failures.items())]
        single = [
            replace(finding_of(error), item=item)
            for item, errors in done.items.items()
            for host, error in errors.items()
            if error is not done.failures.get(host)
        ]
        self.show(findings_lines(ended))
        self.so_far = replace(self.so_far, changed=done.changed, findings=ordered((*self.so_far.findings, *ended, *single)))
        return done

    def _tell(self, call: Call, desired: Desired, decided: ItemsPlan, scene: Scene, course: Course) -> Outcome:
        """The status of every item, and what makes the run a failure."""
        previous: Mapping[str, Any] | None = plain(call.params["previous_status"])
        rows = item_rows(desired, decided, scene, course, now=datetime.now(UTC), previous=previous)
        self.show(items_lines(desired.mesh.binding.name, rows, [f for f in self.so_far.findings if f.item]))
        if call.params["state"] == "absent" and not call.check_mode:
            self.show([absent_line(desired.mesh, desired.kinds, scene.hosts, course.failed)])
        self.show(left_out_lines(call.play, desired.mesh))
        extra = {"status": rows, "requeue_seconds": look_again(desired, rows)}
        return replace(self.so_far, extra=extra, error=_failure(decided, scene, course, rows))


def _failure(decided: ItemsPlan, scene: Scene, course: Course, rows: Rows) -> str:
    """One sentence on every item that was not carried out; "" when all were."""
    refused = [str(plan.ref) for plan in decided.of(Verdict.REFUSED)]
    waiting = [str(plan.ref) for plan in decided.of(Verdict.WAITING)]
    failed = sorted({host for errors in course.failed.values() for host in errors})
    blocking = [finding for finding in decided.findings if finding.blocks and finding.item not in refused]
    parts = [
        some_items(refused, "refused"),
        some_items(waiting, f"waiting for {scene.binding.name} to be connected (phase {scene.phase or 'not known'})"),
        some_items(course.failed, f"not written in {', '.join(failed)}"),
        refusal(blocking, "what they are about was left as it is").rstrip("."),
    ]
    said = "; ".join(part for part in parts if part)
    every = sum(len(entries) for entries in rows.values())
    return f"Of {count(every, 'item')}: {said}." if said and every else f"{said}." if said else ""
