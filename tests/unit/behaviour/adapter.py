# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The only place where the recording touches the code: actions run in process over clusters in memory, and the operator's functions.

When modules move or the inside of the actions changes, this file changes, and the recordings do not. It gives plain data in, plain data
out: the scenarios know inventory names, options of actions and texts, and no class of the engine but the facts that the builders make.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ansible.utils.display import Display
from cryptography import x509

from ansible_collections.edge_portal.cilium_mesh.plugins.filter import cilium_policy, peer_config, plan_markdown, service_annotations
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.adopt.hand_back import plan_hand_back
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.adopt.plan import plan_adopt
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply import rollout
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base import errors
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.clocks import real_clocks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden, InvalidInput, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.guards import roll_blockers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.context import CheckContext
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks.registry import registered
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.evidence.clusters import ClusterEvidence
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.identity.findings import foreign_leases, identity_findings
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import client
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock import lock
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ReaderFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.node_health import FailedNode, NodePath, NodeReport
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.traffic import TrafficFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509 import certificates
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import links, tls_probe
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import traffic as observe_traffic
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.connect import items_stay
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.dry_run import dry_run
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, Plan, PlanOptions, Step
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.outcome import probe_findings
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.run import run_probes
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reach.replaced_policies import plan_removal, replaced_policies
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import plan_items
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.status import Course, item_rows
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.mesh_result import mesh_result
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import Play
from mesh_operator.base.keys import MeshKey, ObjectKey
from mesh_operator.base.kinds import BY_KIND, EXPOSURE, INTENT, SERVICE
from mesh_operator.meshes.request import MeshRequest, Wait, request_of
from mesh_operator.meshes.status import row_of_binding, status_of_fabric, status_of_result, status_of_waiting
from mesh_operator.source.status_patch import patch_of, worth_writing
from mesh_operator.source.stored import MeshObjects, Stored
from tests.collection_path import CHECKOUT
from tests.lab.profiles import ProfileOptions, make_ca
from tests.testing.facts_builders import not_ready, reader_facts
from tests.testing.free_lock import FreeLock
from tests.testing.ledger import Ledger
from tests.testing.link_plans import plan_links
from tests.testing.returns import hold_to_documentation
from tests.testing.roll_world import RollWorld
from tests.testing.simulated_items import MAPPINGS, TUPLES, applied
from tests.testing.traffic_builders import scene

from .determinism import Clock, deterministic, replaced

PLUGINS = "ansible_collections.edge_portal.cilium_mesh.plugins"
START = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
Json = dict[str, Any]
_DESCRIBE, _ISSUED = lru_cache(4096)(certificates.describe), lru_cache(65536)(certificates.is_signed_by)


def load_everything() -> None:
    """Import every action, so that its I/O can be replaced."""
    for path in sorted((CHECKOUT / "plugins" / "action").glob("mesh_*.py")):
        import_module(f"{PLUGINS}.action.{path.stem}")


def cluster(number: int, **options: Any) -> ProfileOptions:
    """Return cluster ``c<number>``, as its chart makes it."""
    given = {"key_type": "ec", "pod_cidr_pool": f"10.{number}.0.0/16", **options}
    return ProfileOptions(**{"cluster_name": f"c{number}", "cluster_id": number, **given})


class Lab:
    """Clusters in memory, with real objects and certificates, and the actions that run over them."""

    def __init__(self, clock: Clock, options: Iterable[ProfileOptions]) -> None:
        self.clock = clock
        self.world = RollWorld(*options, now=clock.now)
        self.silent: set[str] = set()
        self.refusing: set[str] = set()  # clusters that refuse each write
        self.failing: dict[str, str] = {}  # cluster -> class of the error with which it answers, or with which it ends each write
        self.ready = True  # do links come up?
        self.mute: set[str] = set()  # clusters of which the readers cannot be asked
        self.lost: dict[tuple[str, str], NodePath] = {}  # (cluster, peer) -> what nodes of the first do not reach of the second
        self.away: dict[str, str] = {}  # host variable cilium_mesh_unavailable
        self.traffic: dict[str, TrafficFacts] = {}
        self.after_items: Callable[[Scene], Scene] = lambda found: found  # what controllers add to objects of items
        self.binding = Binding(name="edge-mesh-eu", cluster_refs=tuple(self.world.clusters))
        self.output: list[str] = []
        self.writes: list[Json] = []
        for host, fake in self.world.clusters.items():
            for verb in ("create", "apply", "merge_patch", "delete"):
                setattr(fake, verb, self._recorded(host, verb, getattr(fake, verb)))
        clock.on_sleep = self._pass_time

    # What a scenario does

    def run(self, action: str, *, check: bool = False, diff: bool = False, hosts: Iterable[str] = (), limit: str = "", **args: Any) -> Json:
        """Run the action as a task, and return its result as plain data."""
        every = list(self.world.clusters)
        task = SimpleNamespace(args=args, async_val=0, check_mode=check, diff=diff, action=action, failed_when=[])
        module = import_module(f"{PLUGINS}.action.{action}")
        instance = module.ActionModule(task, SimpleNamespace(_shell=None), None, None, None, None)
        variables: dict[str, Json] = {host: {"cilium_mesh_kubeconfig": f"/kubeconfigs/{host}"} for host in every}
        variables |= {host: {"cilium_mesh_unavailable": reason} for host, reason in self.away.items()}
        task_vars = {
            "ansible_play_hosts_all": list(hosts) or every,
            "groups": {"all": every},
            "hostvars": variables,
            "ansible_limit": limit,
        }
        self.world.time = self.clock.now
        result: Json = hold_to_documentation(action, instance.run(None, task_vars))
        self._pass_time(0)
        return result

    def step(self, action: str, **options: Any) -> Json:
        """Run the action, and return all of it that is recorded: its result, what it published, what it said and what it wrote."""
        self.output, self.writes = [], []
        result = self.run(action, **options)
        kind = "items" if action in ("mesh_items", "mesh_service", "mesh_policy", "mesh_exposure") else "links"
        published = mesh_result(result if kind == "links" else {}, result if kind == "items" else {})
        own = {key: value for key, value in result.items() if key not in ("findings", "plan", "status")}
        found: Json = {"result": own, "order": [(f["code"], f["cluster"], f["severity"]) for f in result.get("findings") or ()]}
        found |= {"mesh_result": published, "operator": self._operator(published), "output": self.output, "writes": self.writes}
        # Where in the source a defect is, is no behaviour.
        return dict(json.loads(re.sub(r"(\w+\.py):\d+", r"\1:0", json.dumps(plain_mapping(found)))))

    def dry_run(self, mesh: Json) -> Any:
        """Return what the operator's dry run says: steps, linked, result."""
        hosts = {host: {"cilium_mesh_kubeconfig": f"/kubeconfigs/{host}"} for host in self.world.clusters}
        who = Play(hosts=tuple(hosts), inventory=tuple(hosts), limit="", hostvars=hosts)
        found = dry_run(mesh, who, {})
        return None if found is None else plain({"steps": found.steps, "linked": found.linked, "result": found.result})

    def objects(self) -> Json:
        """Return every object of every cluster as it is now, Secrets by what they hold."""
        return {host: {path: readable(obj) for path, obj in sorted(fake.objects.items())} for host, fake in self.world.clusters.items()}

    # What stands in for the network

    def replacements(self) -> list[tuple[Any, Any]]:
        """Return what is replaced of the engine: opening clusters, reading links, and what dials from the controller."""
        display = SimpleNamespace(verbosity=0, display=lambda text, color=None: self.output.append(f"{color or ''}|{text}"))
        return [
            (client.open_cluster, self._open),
            (links.read_all, self._read_all),
            (links.prove_all, self._prove_all),
            (links.controller_proofs, lambda *args, **kwargs: {}),
            (links.peer_records_of, lambda *args, **kwargs: {}),
            (lock.MeshLock, FreeLock),
            (tls_probe.probe_endpoints, lambda *args, **kwargs: ()),
            (rollout.wait_for_rollouts, lambda *args, **kwargs: {}),
            (observe_traffic.read_all_traffic, self._read_traffic),
            (Display, lambda: display),
            # Pure, and asked the same a hundred times.
            (certificates.describe, _DESCRIBE),
            (certificates.is_signed_by, _ISSUED),
        ]

    def _open(self, access: Any, **_: Any) -> Any:
        if access.unavailable:
            raise Unreachable(access.unavailable, cluster=access.host)
        if access.host in self.failing and not self.failing[access.host].startswith("write "):
            raise _error(self.failing[access.host], access.host)
        if access.host in self.silent:
            raise Unreachable("The API server does not answer.", remedy="Start it.", cluster=access.host)
        return self.world.clusters[access.host]

    def _read_all(self, observation: Any, mesh: Mesh, *, prove: bool = False) -> dict[str, ReaderFacts]:
        down, found = self.world.down(), {}
        for host in observation.clusters:
            kvstoremesh = observation.facts[host].runs_kvstoremesh
            peers = [peer for local, peer in mesh.links if local == host]
            reader = reader_facts(host, peers, agents=1, kvstoremesh=kvstoremesh)
            configured = {name for pod in self.world.clusters[host].pods for name in pod.configurations()}
            if host in self.mute:
                found[host] = ReaderFacts(cluster=host, agents_total=1, problems=("the API server does not reach the pods",))
                continue
            links = tuple(self._state(link, link.peer in configured and not self._down(host, link.peer, down)) for link in reader.links)
            found[host] = ReaderFacts(cluster=host, links=links, agents_total=1, agents_asked=1)
        return found

    def _down(self, host: str, peer: str, down: Callable[[str, str], bool]) -> bool:
        return not self.ready or peer in self.silent or down(host, peer)

    def _state(self, link: Any, up: bool) -> Any:
        return link if up else not_ready(link)

    def _prove_all(self, observation: Any, mesh: Mesh) -> dict[str, ReaderFacts]:
        found = {}
        for host, reader in self._read_all(observation, mesh).items():
            links = tuple(dataclasses.replace(link, proof="proven" if link.ready else "refuted") for link in reader.links)
            nodes = tuple(self._nodes(host, peer) for local, peer in mesh.links if local == host) if self.lost else ()
            found[host] = dataclasses.replace(reader, links=links, nodes=nodes, nodes_asked=(f"{host}-n1",) if nodes else None)
        return found

    def _nodes(self, host: str, peer: str) -> NodeReport:
        path = self.lost.get((host, peer))
        failed = (FailedNode(name=f"{peer}-n1", path=path),) if path else ()
        return NodeReport(
            cluster=host, peer=peer, node=f"{host}-n1", reached=1 - len(failed), failed=failed, oldest=self.clock.now.isoformat()
        )

    def _read_traffic(self, clusters: Mapping[str, Any], kinds: Any, *, parallel: int = 10) -> Any:
        return {host: self.traffic[host] for host in clusters if host in self.traffic}, {}

    def _pass_time(self, seconds: float) -> None:
        """Kubelets and rolling updates go on, faster than the clock of a waiting controller."""
        self.world.time = self.clock.now
        self.world.pass_time(0)

    def _recorded(self, host: str, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def write(path: str, body: Mapping[str, Any] | None = None, **options: Any) -> Any:
            if host in self.refusing:
                raise Forbidden(f"{verb} is not allowed.", remedy="Extend the role.", cluster=host)
            if self.failing.get(host, "").startswith("write "):
                raise _error(self.failing[host].removeprefix("write "), host)
            if not options.get("dry_run"):
                self.writes.append({"cluster": host, "verb": verb, "path": path, **options, **_sent(path, body)})
            if self._is_of_items(host, path, verb):
                return self._write_item(host, verb, path, body or {}, options)
            return call(path, *([] if body is None else [body]), **options)

        return write

    def _is_of_items(self, host: str, path: str, verb: str) -> bool:
        parts = path.split("/")
        resource = parts[-1] if verb == "create" else parts[-2]
        return host in self.traffic and resource in {*MAPPINGS, *TUPLES} and "kube-system" not in parts

    def _write_item(self, host: str, verb: str, path: str, body: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
        method = {"merge_patch": "merge"}.get(verb, verb)
        marks = {"uid": options.get("uid"), "resourceVersion": options.get("resource_version")}
        sent = {"metadata": {k: v for k, v in marks.items() if v}} if verb == "delete" else dict(body)
        if verb == "delete":
            sent["metadata"]["name"] = path.rpartition("/")[2]
        action: Any = ApiWrite(method=method, path=path, body=sent)
        step = Step(wave=1, cluster=host, verb=method, object=path, why="", action=action)
        after = applied(scene(*self.traffic.values()), [step], self.binding)
        self.traffic = dict(self.after_items(after).traffic)
        return {}

    def _operator(self, published: Json) -> Json:
        """Return the status of each custom resource that the operator would write after a run with this result."""
        found: Json = {"ClusterMeshBinding": status("ClusterMeshBinding", self.binding.name, published, self.clock.now)}
        for kind, row in BY_KIND.items():
            if row.listed:
                names = [entry["name"] for entry in published["status"].get(row.listed) or ()]
                found |= {f"{kind}/{name}": status(kind, name, published, self.clock.now) for name in names}
        return found


def _error(name: str, host: str) -> Exception:
    if not hasattr(errors, name):
        return RuntimeError(f"{name} of {host}")  # no error of the engine: a defect
    made: Exception = getattr(errors, name)("It answered otherwise.", remedy="Look at it.", cluster=host)
    return made


@contextlib.contextmanager
def lab(*options: ProfileOptions, shared_ca: bool = False) -> Iterator[Lab]:
    """Give clusters of these options, in a process without chance. ``shared_ca``: all of one CA."""
    load_everything()
    clock = Clock(START)
    with contextlib.ExitStack() as stack:
        stack.enter_context(deterministic(clock))
        ca = make_ca(key_type="ec") if shared_ca else None
        made = Lab(clock, [dataclasses.replace(entry, ca=entry.ca or ca) for entry in options])
        stack.enter_context(replaced(made.replacements()))
        yield made


@contextlib.contextmanager
def still() -> Iterator[Clock]:
    """Give a process without chance, for what needs no clusters."""
    load_everything()
    clock = Clock(START)
    with deterministic(clock):
        yield clock


# The engine, on facts


def as_run_result(links: Json, further: Json, **options: Any) -> Any:
    """Return what the playbooks publish of the results of two actions."""
    return plain_mapping(mesh_result(links, further, **options))


def probes(scene_now: Scene, clusters: Mapping[str, Any], intents: Iterable[Any], **options: Any) -> Json:
    """Return what probes found out, and the findings of it."""
    found = run_probes(tuple(intents), scene_now, ClusterEvidence(clusters, real_clocks()), now=START, **options)
    findings = [finding.to_dict() for finding in probe_findings(found)]
    return plain_mapping({"found": {name: entry.to_dict() for name, entry in found.items()}, "findings": findings})


def checks(context: CheckContext, purpose: str = "connect") -> list[Json]:
    """Return all findings of the checks."""
    return [finding.to_dict() for finding in run_checks(context, purpose)]  # type: ignore[arg-type]  # a purpose as the recording has it


def decisions(call: str, *values: Any, **options: Any) -> list[Json]:
    """Return the findings of what decides on facts alone: ``roll_blockers``, ``foreign_leases`` or ``identity_findings``."""
    functions: dict[str, Callable[..., Any]] = {f.__name__: f for f in (roll_blockers, foreign_leases, identity_findings)}
    return [finding.to_dict() for finding in functions[call](*values, **options)]


def left_items(*lists: str) -> Json:
    """Return what the playbook ``disconnect`` publishes where ``cilium_mesh`` names items in these lists."""
    return as_run_result({"findings": [items_stay(lists).to_dict()]}, {})  # type: ignore[no-any-return]  # it comes from JSON


def codes_beside_checks() -> tuple[str, ...]:
    """Return every code of a finding that no check makes."""
    return tuple(sorted(set(CATALOGUE) - set(registered())))


def kept_policies(current: Scene, entries: list[Json], rows: list[Json], managers: list[str]) -> list[Json]:
    """Return what is in the way of deleting policies of a provider."""
    named = replaced_policies(entries, current.mesh.clusters, [row["name"] for row in rows])
    return [finding.to_dict() for finding in plan_removal(current, named, rows, managers).findings]


def connect_plan(context: CheckContext, **options: Any) -> Json:
    """Return the plan for the mesh of the context, or why there is none."""
    try:
        plan = plan_links(context.mesh, context.facts, PlanOptions(), context.now, policy=LinkPolicy(**options))
    except InvalidInput as error:
        return {"msg": str(error)}
    return plain_mapping(plan.to_dict())


def items(found: Scene, raw: Mapping[str, Any], *, settle: Callable[[Scene], Scene] = lambda after: after) -> Json:
    """Plan and apply items on a scene: the plan, bodies, findings, rows before and after, and what is left to do afterwards."""
    wanted = desired_of(raw, found.mesh)
    decided = plan_items(wanted, found)
    after = settle(applied(found, decided.plan.steps, found.binding))
    again = plan_items(wanted, after)
    return plain_mapping(
        {
            "plan": decided.plan.to_dict(),
            "bodies": [_body_of(step) for step in decided.plan.steps],
            "findings": [finding.to_dict() for finding in decided.findings],
            "rows": item_rows(wanted, decided, found, Course(), now=START),
            "after": item_rows(wanted, again, after, Course(), now=START),
            "again": [step.to_dict() for step in again.plan.steps],
            "findings after": [finding.to_dict() for finding in again.findings],
        }
    )


def after_items(found: Scene, raw: Mapping[str, Any]) -> Scene:
    """Return the scene after these items were carried out."""
    return applied(found, plan_items(desired_of(raw, found.mesh), found).plan.steps, found.binding)


def _body_of(step: Step) -> Any:
    action: Any = step.action
    return {"method": action.method, "path": action.path, "body": action.body}


def adoption(ledger: Ledger, hosts: Iterable[str], *, handed_over: bool) -> Json:
    """Return the plan of an adoption and its stages, and carry it out."""
    mesh = Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=tuple(hosts)))
    adopted = plan_adopt(mesh, ledger.facts(), handed_over=handed_over)
    return _carried_out(ledger, adopted.plan, {host: stage.value for host, stage in adopted.stages.items()})


def hand_back(ledger: Ledger, hosts: Iterable[str]) -> Json:
    """Return the plan that gives everything back, and carry it out."""
    mesh = Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=tuple(hosts)))
    return _carried_out(ledger, plan_hand_back(mesh, ledger.facts()), {})


def _carried_out(ledger: Ledger, plan: Plan, stages: Json) -> Json:
    if not plan.blocked:
        ledger.run(plan)
    managers = sorted(ledger.managers())
    return plain_mapping(
        {
            "plan": plan.to_dict(),
            "stages": stages,
            "contents": _texts(ledger.contents()),
            "marks": _texts(ledger.marks()),
            "managers": managers,
        }
    )


def _texts(value: Mapping[Any, Any]) -> Json:
    return {str(key): entry for key, entry in value.items()}


# What users write


def parsed_mesh(raw: Any, inventory: Iterable[str]) -> Json:
    """Return the mesh that the variable ``cilium_mesh`` means, or what the user reads."""
    try:
        return plain_mapping({"links": parse(raw, list(inventory)).links})
    except InvalidInput as error:
        return {"msg": str(error)}


def parsed_items(raw: Mapping[str, Any], members: Iterable[str]) -> Json:
    """Return the items of a variable and the problems of those that are refused."""
    mesh = Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=tuple(members)))
    try:
        found = desired_of(raw, mesh)
    except InvalidInput as error:
        return {"msg": str(error)}
    refused = [[str(entry.ref), *entry.problems] for entry in found.refused]
    return plain_mapping({"order": [str(ref) for ref in found.order], "refused": refused})


def filters() -> dict[str, Callable[..., Any]]:
    """Return the filters by name."""
    modules = (cilium_policy, peer_config, plan_markdown, service_annotations)
    return {name: function for module in modules for name, function in module.FilterModule().filters().items()}


# The operator


def status(kind: str, name: str, published: Mapping[str, Any], now: datetime, before: Json | None = None) -> Any:
    """Return the status of one custom resource after a run with this result; None where it has none."""
    return plain(status_of_result(_stored(kind, name, before), published, now))


def held_status(kind: str, reason: str, message: str, *, phase: str, standing: bool, before: Json | None = None) -> Any:
    """Return the status while the operator waits."""
    held = Wait(phase=phase, reason=reason, message=message, standing=standing)
    return plain_mapping(status_of_waiting(_stored(kind, "x", before), held, START))


def fabric_status(bindings: Mapping[str, Json | None]) -> Any:
    """Return the status of a Fabric over bindings with these statuses."""
    stored = {name: None if found is None else _stored("ClusterMeshBinding", name, found) for name, found in bindings.items()}
    return plain_mapping(status_of_fabric(_stored("Fabric", "europe"), [row_of_binding(*one) for one in stored.items()], START))


def next_write(before: Json, after: Json, seconds: float) -> Json:
    """Return whether the operator writes a status again, and the patch that it sends."""
    return plain_mapping({"writes": worth_writing(before, after, START + timedelta(seconds=seconds)), "patch": patch_of(before, after)})


def operator_request(binding: Json | None, services: Json, intents: Json, exposures: Json, clusters: Mapping[str, Any], record: Any) -> Any:
    """Return what the operator gives its play for these objects: name -> spec."""
    key = MeshKey("2k5m8k3p1q7z", "default", "edge-mesh-eu")
    mesh = MeshObjects(
        key=key,
        listed=True,
        binding=None if binding is None else _stored("ClusterMeshBinding", key.name, None, binding),
        items={
            kind: tuple(_stored(kind, name, None, {"meshRef": {"name": key.name}, **spec}) for name, spec in found.items())
            for kind, found in ((SERVICE, services), (INTENT, intents), (EXPOSURE, exposures))
        },
    )
    found = request_of(mesh, clusters, record)
    if isinstance(found, MeshRequest):
        return plain_mapping(
            {"variables": found.variables, "hosts": found.hosts, "absent": found.absent, "linked": found.linked, "owner": found.owner}
        )
    return plain_mapping(dataclasses.asdict(found)) if dataclasses.is_dataclass(found) and not isinstance(found, type) else None


def _stored(kind: str, name: str, before: Json | None = None, spec: Json | None = None) -> Stored:
    metadata = {"name": name, "namespace": "default", "generation": 3}
    obj: Json = {"metadata": metadata, "spec": spec or {"clusterRefs": [{"name": "c1"}]}}
    if before is not None:
        obj["status"] = before
    return Stored(ObjectKey(kind, "w", "default", name), obj, "https://kcp/services/x")


# Plain data


def plain_mapping(value: Mapping[Any, Any]) -> Json:
    """Return a mapping as JSON has it, in its order."""
    return {str(key): plain(entry) for key, entry in value.items()}


def plain(value: Any) -> Any:
    """Return ``value`` as JSON has it, in its order."""
    if isinstance(value, Mapping):
        return plain_mapping(value)
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (datetime, Path)):
        return str(value)
    return value


def _sent(path: str, body: Mapping[str, Any] | None) -> Json:
    """Return the body of a write as a reader sees it, and the digest of its JSON bytes."""
    if body is None:
        return {}
    bytes_sent = json.dumps(body, separators=(",", ":")).encode()
    return {"body": readable(plain(body), secret="/secrets" in path), "sha256": hashlib.sha256(bytes_sent).hexdigest()}


def readable(obj: Mapping[str, Any], *, secret: bool = False) -> Json:
    """Return an object with the values of a Secret decoded; certificates by what they say, keys by their digest.

    A part of an object does not say what it is: ``secret`` does.
    """
    if not obj.get("data"):
        return dict(obj)
    secret = secret or obj.get("kind") == "Secret"
    # A mapping of its own: the object in memory goes on to change.
    return {**obj, "data": {key: _value(value) if secret else value for key, value in obj["data"].items()}}


def _value(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    content = b64decode(value)
    if b"BEGIN CERTIFICATE" in content:
        return [_certificate(entry) for entry in x509.load_pem_x509_certificates(content)]
    if b"PRIVATE KEY" in content:
        return f"private key, sha256 {hashlib.sha256(content).hexdigest()[:16]}"
    return content.decode()


def _certificate(found: x509.Certificate) -> str:
    """Return all that a certificate says but its key, its number and its signature."""
    times = [f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in (found.not_valid_before_utc, found.not_valid_after_utc)]
    extensions = [f"{entry.oid.dotted_string}:{hashlib.sha256(entry.value.public_bytes()).hexdigest()[:8]}" for entry in found.extensions]
    who = f"{found.subject.rfc4514_string()} by {found.issuer.rfc4514_string()}"
    return f"{who}, {times[0]} to {times[1]}, {' '.join(extensions)}"
