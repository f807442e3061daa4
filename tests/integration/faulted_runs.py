# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Playbooks of which one API call fails, behind the fault proxy, and what must hold afterwards (docs/reliability.md).

A scene is a run that leads the mesh from one state to another. `Bench.attempt` lets one call of it fail, runs it once more, and
returns what did not hold. Scenes lead to one another in a circle, so that a case seldom needs a run of its own to get to its beginning.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import MANAGER_DOMAIN
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import MANAGED_BY_LABEL
from tests.integration.mesh_lab import KINDS, NAMESPACE, MeshLab
from tests.integration.shop import EXPOSURE, INTENT, SERVICE
from tests.integration.shop import NAMESPACE as SHOP
from tests.lab.pristine import listed
from tests.testing.fault_proxy import FAULTS, OF_READS, OF_WRITES, TOKEN, Call, FaultProxy
from tests.testing.killed_playbook import kill_run
from tests.testing.playbooks import PlaybookRun, run_warm

Variables = dict[str, Any]

LOCK_SECONDS: Final = 10  # a busy machine needs longer than the shortest
LOCK_OF_A_KILLED_RUN: Final = 5  # the shortest: the next run waits for its end
PATIENT: Final[Variables] = {"cilium_mesh_lock_timeout": 120}
QUICK: Final = {"connect": 2.0, "read": 2.0}
"""Timeouts of the client in seconds, for calls that get no answer; users have longer ones."""
OURS: Final = f"{MANAGED_BY_LABEL}={MANAGER_DOMAIN}"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
FOREIGN: Final = (
    *KINDS,
    f"/api/v1/namespaces/{SHOP}/services",
    f"/api/v1/namespaces/{SHOP}/configmaps",
    f"/apis/cilium.io/v2/namespaces/{SHOP}/ciliumnetworkpolicies",
)


@dataclass(frozen=True)
class Scene:
    """A run that leads from one state of the mesh to another."""

    name: str
    playbook: str
    begins: str
    ends: str
    items: bool | None = None  # its file has the items, or says that there are none; None: it does not speak of items
    variables: Mapping[str, Any] = field(default_factory=dict)


SCENES: Final = {
    scene.name: scene
    for scene in (
        Scene("connect", "connect", "apart", "meshed", variables={"mesh_connect_wait": False}),
        Scene("disconnect", "disconnect", "meshed", "apart"),
        Scene("measure", "connect", "meshed", "meshed", variables={"mesh_connect_wait_timeout": 60}),
        Scene("items", "mesh", "meshed", "filled", items=True, variables={"mesh_connect_wait_timeout": 60}),
        Scene("items withdrawn", "mesh", "filled", "meshed", items=False, variables={"mesh_connect_wait_timeout": 60}),
        Scene("certificates renewed", "ca", "meshed", "meshed", variables={"ca_sync_state": "renewed"}),
    )
}
ROLL: Final = Scene("roll", "ca", "meshed", "meshed", variables={"ca_sync_state": "rolled", "ca_sync_wait_timeout": 300})


@dataclass(frozen=True, order=True)
class Case:
    """One call of a scene, and the fault that it meets."""

    scene: str
    call: Call
    fault: str


@dataclass
class Verdict:
    """What came of a case. ``problems`` is empty where all held; ``reached`` is false where the run had no time to make the call."""

    case: Case
    reached: bool = True
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    output: str = ""


class Bench:
    """A lab, the proxy before its API servers, and the state that its mesh is in."""

    def __init__(self, lab: MeshLab, proxy: FaultProxy) -> None:
        self.lab, self.proxy = lab, proxy
        self.state = "apart"
        self._age = 400  # days of the last certificates: each run of "certificates renewed" asks for a day more
        self._pid = 0
        self._paused = False
        self._writes: dict[str, list[Call]] = {}  # by scene: what it writes where nothing fails
        self._always: dict[str, set[Call]] = {}  # by scene: what each recording has, without what depends on time
        self.know_foreign_values()

    def know_foreign_values(self) -> None:
        """Take what other managers own now for what no run may change."""
        self.foreign = foreign_values(self.lab)

    def record(self, scene: Scene) -> list[Call]:
        """Return the calls of a scene that fails nowhere, in the order of their names."""
        self.play_once(scene)
        self._writes[scene.name] = sorted(self.proxy.written)
        timeless = {call for call in self.proxy.calls if not depends_on_time(call)}
        self._always[scene.name] = self._always.get(scene.name, timeless) & timeless
        return sorted(self.proxy.calls)

    def play_once(self, scene: Scene) -> None:
        """Run a scene that meets no fault; the lock of a run that was killed before may still hold."""
        self.go(scene.begins)
        self._age += 1
        self.proxy.begin()
        run = self._play(scene, quick=False, **PATIENT)
        assert run.rc == 0, run.output
        self.state = scene.ends

    def go(self, state: str) -> None:
        """Bring the mesh into a state by runs that meet no fault."""
        ways = {
            "apart": ["items withdrawn", "disconnect"] if self.state == "filled" else ["disconnect"],
            "meshed": ["connect", "measure"] if self.state == "apart" else ["items withdrawn"],
            "filled": ["connect", "measure", "items"] if self.state == "apart" else ["items"],
        }
        for name in ways[state] if state != self.state else ():
            if name == "measure" and self._paused:
                continue  # no link gets ready
            self.proxy.begin()
            run = self._play(SCENES[name], quick=False, **PATIENT)
            assert run.rc == 0, run.output
            self.state = SCENES[name].ends

    def rollouts(self, *, paused: bool) -> None:
        """Let changed pod templates wait, since a restart of the mesh pods costs more than all else; or let them go on."""
        self._paused = paused
        for name in self.lab.names:
            self.lab.api(name).patch(
                f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/clustermesh-apiserver", {"spec": {"paused": paused}}
            )
        self.know_foreign_values()

    def attempt(self, case: Case) -> Verdict:
        """Run a scene with its fault and once more, and look at everything that must hold."""
        scene, began = SCENES[case.scene], time.monotonic()
        self.go(scene.begins)
        verdict = Verdict(case)
        self._age += 1
        held = self._holders()
        self.proxy.begin(case.call, FAULTS[case.fault], kill=lambda: kill_run(self._pid))
        run = self._play(scene, quick="silent" in case.fault)
        verdict.reached, verdict.output = self.proxy.met, run.output
        if not verdict.reached and case.call in self._always[scene.name]:
            missed = sorted(self._always[scene.name] - set(self.proxy.calls))
            verdict.problems.append(f"the run did not make the call, which each recording has, nor {len(missed)} in all: {missed[:9]}")
        written, locked = list(self.proxy.written), bool(self.proxy.carried_out)
        verdict.problems += self._truthful(case, run, written)
        verdict.problems += self._locks(run, held)
        verdict.problems += self._links(run, "the run")
        if written and run.rc:
            status = run_warm("status", inventory=self.lab.inventory(), variables={"cilium_mesh": self.lab.mesh()})
            verdict.problems += self._links(status, "status")
        done = run.rc == 0
        if not done and (written or locked or run.status == "killed"):
            self.proxy.begin()
            again = self._play(scene, quick=False, **PATIENT)
            done = again.rc == 0
            verdict.problems += [] if done else [f"one more run fails:\n{again.output}"]
            self.state = "unknown"
        self.state = scene.ends if done else self.state
        if done and scene.ends == "apart":
            left = {name: self.lab.api(name).list(LEASES, label_selector=OURS) for name in self.lab.names}
            verdict.problems += [
                f"a lock is left in {name}, which has nothing of the mesh any more" for name, found in left.items() if found
            ]
        # A run that succeeded by the very writes of one that met no fault needs no third run to be believed.
        if done and (run.rc or sorted(written) != self._writes.get(scene.name)):
            verdict.problems += self._converged(scene)
        verdict.problems += [f"foreign: {what}" for what in differences(self.foreign, foreign_values(self.lab))] if written else []
        verdict.seconds = time.monotonic() - began
        return verdict

    def roll(self, faults: Sequence[tuple[Call | None, str]]) -> int:
        """Roll the CA of every cluster, where each run meets the next of ``faults``, and then by a run without a fault.

        A run that ends the roll is followed by another roll.

        :param faults: a call and its fault; None is the second write, so that each run is stopped about one write further on than the last.
        :return: how many faults were met; a run that goes on with a roll does not make every call that a whole roll makes
        """
        met = 0
        for call, fault in faults:
            held = self._holders()
            self.proxy.begin(call, FAULTS[fault], kill=lambda: kill_run(self._pid), write=0 if call else 2)
            run = self._play(ROLL, quick="silent" in fault, **PATIENT)
            written, codes = self.proxy.written, run.finding_codes()
            writes = [call for call in self.proxy.calls if call.writes and not call.is_of_the_lock]
            print(f"status {run.rc}: {f'{call or writes[1]} | {fault}' if self.proxy.met else f'no fault met {codes}'}", flush=True)
            problems = [*self._truthful(None, run, written), *self._locks(run, held), *self._links(run, "the run")]
            assert not problems, f"{call} | {fault}: {problems}\n{run.output}"
            # A machine that does much else may be too slow to renew so short a lock; nothing else ends a run that met no fault.
            assert run.rc <= 0 or self.proxy.met or "CM-LOCK-02" in codes, run.output
            met += self.proxy.met
        self.play_once(ROLL)
        return met

    def _play(self, scene: Scene, *, quick: bool, check: bool = False, **more: Any) -> PlaybookRun:
        mesh = self.lab.mesh()
        if scene.items is not None:
            items = [[SERVICE], [INTENT], [EXPOSURE]] if scene.items else [[], [], []]
            mesh |= dict(zip(("globalServices", "connectivityIntents", "exposedServices"), items, strict=True))
        renewal = {"ca_sync_certificate_days": self._age + 1, "ca_sync_renew_before_days": self._age} if scene.playbook == "ca" else {}
        seconds = LOCK_OF_A_KILLED_RUN if self.proxy.kills else LOCK_SECONDS
        self.lab.runs_that_wrote.append(scene.playbook)
        return run_warm(
            scene.playbook,
            inventory=self.lab.inventory(self.proxy.hosts()),
            variables={"cilium_mesh": mesh, "cilium_mesh_lock_duration": seconds, **scene.variables, **renewal, **more},
            arguments=["--check"] if check else [],
            timeouts=QUICK if quick else None,
            started=self._started,
        )

    def _started(self, pid: int) -> None:
        self._pid = pid

    def _converged(self, scene: Scene) -> list[str]:
        self.proxy.begin()
        check = self._play(scene, quick=False, check=True)
        if check.rc or check.changed or (check.mesh_result or {}).get("plan", {}).get("steps"):
            return [f"something is left to do:\n{check.output}"]
        return []

    def _truthful(self, case: Case | None, run: PlaybookRun, written: Sequence[Call]) -> Iterator[str]:
        """Look at what the run said of itself."""
        said = "\n".join((run.output, *run.events))
        for secret in (TOKEN, "PRIVATE KEY", "Traceback (most recent call last)"):
            if secret in said:
                yield f"the output has {secret!r}"
        if run.status == "killed":
            return
        result = run.mesh_result or {}
        if run.mesh_result is None:
            yield "there is no mesh_result"
        if run.rc not in (0, 2):
            yield f"the exit status is {run.rc}"
        if written and not result.get("changed"):
            yield f"{written[0]} was carried out, and the run says that nothing changed"
        if run.rc == 2:
            findings = [finding for finding in result.get("findings", []) if finding["severity"] != "advisory"]
            named = [finding for finding in findings if case is None or finding["cluster"] == case.call.cluster]
            yield from (f"finding {finding['code']} does not say what to do" for finding in named if not finding["fix"])
            if not named:
                yield "no finding names the cluster"

    def _holders(self) -> dict[str, tuple[str, int]]:
        """Return who holds the lock of each cluster, and for how many seconds; a run that was killed earlier may still stand there."""
        leases = {name: self.lab.api(name).list(LEASES, label_selector=OURS) for name in self.lab.names}
        specs = {name: lease.get("spec") or {} for name, found in leases.items() for lease in found}
        return {name: (spec["holderIdentity"], spec["leaseDurationSeconds"]) for name, spec in specs.items() if spec.get("holderIdentity")}

    def _locks(self, run: PlaybookRun, before: Mapping[str, tuple[str, int]]) -> Iterator[str]:
        for name, (holder, seconds) in self._holders().items():
            if seconds > LOCK_SECONDS:
                yield f"the lock in {name} lasts longer than asked"
            if run.status != "killed" and before.get(name, ("", 0))[0] != holder:
                yield f"the lock in {name} was not given back"

    def _links(self, run: PlaybookRun, who: str) -> Iterator[str]:
        """Compare what is called ready with the objects that make a pair: each side has to hold the way to the other."""
        status = ((run.mesh_result or {}).get("status") or {}).get("binding") or {}
        ready = {(row["cluster"], row["peer"]) for row in status.get("links") or () if row.get("ready")}
        claimed = set(permutations(self.lab.names, 2)) if status.get("phase") == "Connected" else set()
        if not ready | claimed:
            return
        held = {(name, peer) for name in self.lab.names for peer in self.lab.secret(name, "cilium-kvstoremesh")}
        for one, other in sorted(ready | claimed):
            if (one, other) not in held:
                yield f"{who} calls {one} -> {other} ready, and {one} has no way to it"
        for one, other in sorted(claimed - ready):
            yield f"{who} calls the mesh Connected, and {one} -> {other} is not ready"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the places of which the values differ."""
    return [place for place in sorted(before.keys() | now.keys()) if before.get(place) != now.get(place)]


def foreign_values(lab: MeshLab) -> dict[str, Any]:
    """Return every value that a manager other than ours owns, by cluster, object and path of the field.

    Statuses, and what controllers count in workloads, are left out: they change by themselves.
    """
    found: dict[str, Any] = {}
    for name in lab.names:
        for path in FOREIGN:
            for item in listed(lab.api(name), path):
                for entry in item["metadata"].get("managedFields") or ():
                    if (
                        MANAGER_DOMAIN not in entry["manager"]
                        and not entry.get("subresource")
                        and entry["manager"] != "kube-controller-manager"
                    ):
                        for field_path, value in _values(entry.get("fieldsV1") or {}, item, ""):
                            found[f"{name}{path}/{item['metadata']['name']} {entry['manager']} {field_path}"] = value
    return found


def _values(fields: Mapping[str, Any], value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Walk fieldsV1 (structured-merge-diff, serialize-pe.go): ``f:`` is a field, ``k:`` an entry of a list by its keys."""
    for key, below in fields.items():
        kind, _, name = key.partition(":")
        if kind == "f" and isinstance(value, Mapping):
            inner = value.get(name)
        elif kind == "k" and isinstance(value, list):
            wanted = json.loads(name)
            inner = next((entry for entry in value if wanted.items() <= entry.items()), None)
        else:
            continue
        if below and below != {".": {}}:
            yield from _values(below, inner, f"{path}.{name}")
        elif not isinstance(inner, (Mapping, list)):
            yield f"{path}.{name}", inner


def depends_on_time(call: Call) -> bool:
    """Whether a run makes the call only if it takes long enough: it renews its lock, and asks again and again whether links are ready."""
    return call.number > 1 and (call.is_of_the_lock or resource_of(call) == "pods/exec")


def resource_of(call: Call) -> str:
    """Return what a call is about, without names: ``secrets``, ``pods/exec``; "watch" stands for itself, since the answer streams."""
    path, _, query = call.path.partition("?")
    parts = path.split("/")[1:]
    parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else parts
    parts = parts[2:] if parts[:1] == ["namespaces"] and len(parts) > 2 else parts
    return "/".join([*parts[:1], *parts[2:3], *(["watch"] if "watch=" in query else [])])


def cover(scene: str, calls: Iterable[Call], seed: int, known: set[tuple[str, str, str]]) -> list[Case]:
    """Return cases of a scene, the most telling first: each call fails once; every write fails in every way; every kind of read too.

    A kind of write is a verb and a path, a kind of read is a resource. Calls of a kind take their faults in turn.

    :param seed: chooses which of several calls of a kind meets which fault.
    :param known: kinds, each with a fault, that other scenes try; those of this one are added.
    """
    kinds: dict[tuple[str, str], list[Call]] = {}
    for call in sorted(calls):
        kinds.setdefault((call.verb, call.path if call.writes else resource_of(call)), []).append(call)
    first, writes, reads = list[Case](), list[Case](), list[Case]()
    for place, (kind, same) in enumerate(sorted(kinds.items())):
        faults = OF_WRITES if same[0].writes else OF_READS
        turn = [faults[(seed + 5 * place + number) % len(faults)] for number in range(max(len(same), len(faults)))]
        first += [Case(scene, call, fault) for call, fault in zip(same, turn, strict=False)]
        left = [(number, fault) for number, fault in enumerate(turn) if number >= len(same) and (*kind, fault) not in known]
        (writes if same[0].writes else reads).extend(Case(scene, same[number % len(same)], fault) for number, fault in left)
        known |= {(*kind, fault) for fault in turn}
    mixed = random.Random(seed)
    for cases in (first, writes, reads):
        mixed.shuffle(cases)
    return [*first, *writes, *reads]
