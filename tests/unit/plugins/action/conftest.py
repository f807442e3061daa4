# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Actions called as Ansible calls them, over clusters that are played on facts: what is replaced is the I/O of the engine, nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import ApplyResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, Forbidden
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.tally import Tally, no_progress
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts, ObserveFailure, ReaderFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import Ports, real_ports
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.shown import Shown
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import mesh_action
from tests.testing.facts_builders import cluster_facts, not_ready, reader_facts
from tests.testing.free_lock import FreeLock
from tests.testing.returns import hold_to_documentation
from tests.testing.simulated_apply import SimulatedClusters

PLUGINS = "ansible_collections.edge_portal.cilium_mesh.plugins"


@dataclass
class World:
    """Some clusters, and what the actions did to them and said."""

    clusters: SimulatedClusters
    failures: dict[str, ObserveFailure] = field(default_factory=dict)
    refusing: dict[str, ClusterError] = field(default_factory=dict)  # clusters that refuse to be written
    ready: bool = True  # do links come up?
    defect: Exception | None = None  # raised by the engine while it writes
    output: list[str] = field(default_factory=list)
    writes: int = 0
    contacted: set[str] = field(default_factory=set)  # clusters that were asked for anything
    away: dict[str, str] = field(default_factory=dict)  # host variable cilium_mesh_unavailable
    dialled: int = 0  # how often the controller was to read heartbeats

    def observe(self, accesses: Iterable[ClusterAccess], *, parallel: int = 10, **_reads: Any) -> Observation:
        unavailable = {access.host: access.unavailable for access in accesses}
        names = [host for host, reason in unavailable.items() if not reason]
        self.contacted.update(names)
        facts = {host: cluster for host, cluster in self.clusters.facts().items() if host in names and host not in self.failures}
        requests = Counter({"get secrets": 7, "list nodes": 1})
        opened: Any = {
            host: SimpleNamespace(
                requests=requests,
                close=lambda: None,
                get=_forbidden,
                get_or_none=_forbidden,
                list=_forbidden,
                host=host,
                count=lambda path: 3,
            )
            for host in facts
        }
        failed = {host: failure for host, failure in self.failures.items() if host in names}
        away = {host: ObserveFailure(host=host, code="CM-API-01", message=reason) for host, reason in unavailable.items() if reason}
        return Observation(facts=facts, failures={**failed, **away}, clusters=opened)

    def apply_plan(
        self,
        plan: Plan,
        observation: Observation,
        *,
        now: datetime,
        allow: Callable[[str], None],
        parallel: int = 10,
        max_failures: int | None = None,
        progress: Callable[[Tally], None] = no_progress,
    ) -> ApplyResult:
        for step in plan.steps:
            allow(step.cluster)
        self.clusters.run(plan, only=set(observation.facts) - set(self.refusing))
        applied = tuple(step for step in plan.steps if step.cluster not in self.refusing)
        self.writes += len(applied)
        if self.defect is not None:
            raise self.defect
        rest = tuple(step for step in plan.steps if step.cluster in self.refusing)
        return ApplyResult(applied=applied, failures={s.cluster: self.refusing[s.cluster] for s in rest}, skipped=rest[1:])

    def read_all(self, observation: Observation, mesh: Mesh) -> dict[str, ReaderFacts]:
        found = {}
        for host in observation.facts:
            reader = reader_facts(host, [peer for local, peer in mesh.links if local == host])
            links = reader.links if self.ready else tuple(not_ready(link) for link in reader.links)
            found[host] = ReaderFacts(cluster=host, links=links, agents_total=2, agents_asked=2)
        return found

    def prove_all(self, observation: Observation, mesh: Mesh) -> dict[str, ReaderFacts]:
        readers = self.read_all(observation, mesh).items()
        verdict = "proven" if self.ready else "refuted"
        return {host: replace(reader, links=tuple(replace(x, proof=verdict) for x in reader.links)) for host, reader in readers}

    def controller_proofs(self, observation: Observation, mesh: Mesh, mode: str, *, written: bool = False) -> dict[Any, Any]:
        self.dialled += mode == "auto"
        return {}

    def ports(self, show: Callable[[Shown], None]) -> Ports:
        """The ports of a play, with these clusters behind them."""
        return replace(
            real_ports(show),
            observe=self.observe,
            apply=self.apply_plan,
            lock=FreeLock,
            read_links=self.read_all,
            prove_links=self.prove_all,
            prove_as_controller=self.controller_proofs,
            resolve_names=lambda _clusters: {},
            unproven_moves=lambda *_: frozenset(),
        )

    def run(self, action: str, *, check: bool = False, diff: bool = False, limit: str = "", hosts: Iterable[str] = (), **args: Any) -> Any:
        """The result of one task. ``more``: further variables of the play."""
        more = args.pop("more", {})
        every = tuple(self.clusters.facts())
        module = import_module(f"{PLUGINS}.action.{action}")
        withheld = [False] if args.pop("fails_later", False) else []  # as of the tasks of roles and playbooks
        waits = args.pop("async_val", 0)
        task = SimpleNamespace(args=args, async_val=waits, check_mode=check, diff=diff, action=action, failed_when=withheld)
        instance = module.ActionModule(task, SimpleNamespace(_shell=None), None, None, None, None)
        hostvars = {host: {"cilium_mesh_kubeconfig": f"/kubeconfigs/{host}"} for host in every if host not in self.away}
        hostvars.update({host: {"cilium_mesh_unavailable": reason} for host, reason in self.away.items()})
        task_vars = {"ansible_play_hosts_all": list(hosts) or list(every), "groups": {"all": list(every)}, "hostvars": hostvars}
        return hold_to_documentation(action, instance.run(None, {**task_vars, **more, "ansible_limit": limit}))


def _forbidden(*args: Any, **kwargs: Any) -> Any:
    """What a cluster answers to the reads beside the observation."""
    raise Forbidden("RBAC forbids to read it (403).")


def mesh(*hosts: str) -> Mapping[str, Any]:
    return {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": host} for host in hosts]}}


@pytest.fixture
def make_world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``make_world(*facts)``: the actions see these clusters. Without arguments: c1 and c2, healthy and not meshed."""

    def make(*facts: ClusterFacts) -> World:
        every = facts or (cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0"))
        world = World(clusters=SimulatedClusters({f.host: f for f in every}, datetime.now(UTC)))
        monkeypatch.setattr(mesh_action, "real_ports", world.ports)
        display = SimpleNamespace(verbosity=0, display=lambda text, color=None: world.output.append(text))
        monkeypatch.setattr(mesh_action, "Display", lambda: display)
        monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: [])
        return world

    return make
