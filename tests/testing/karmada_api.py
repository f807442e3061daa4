# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The API of a Karmada model in the form of the engine's client: whole runs without a server, and a count of their requests."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.models import Fleet, FleetCluster, FleetRequest, FleetWorkload
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.errors import Request
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.fleet import FleetRun, run_fleet
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import FleetOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Outcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import real_ports
from tests.testing.connecting import connecting
from tests.testing.karmada_model import KarmadaModel, Object, Refused

KARMADA: Final = "karmada"  # inventory name
SHOP: Final = Tenant("shop", "default")


class ModelClient:
    """The calls of the client that a run of the fleet makes. ``requests``: by "verb resource", as the client counts them.

    :param seconds: that each read takes.
    """

    def __init__(self, model: KarmadaModel, seconds: float = 0) -> None:
        self.host = KARMADA
        self.requests: Counter[str] = Counter()
        self._model = model
        self._seconds = seconds
        self._lock = threading.Lock()

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def server_time(self) -> datetime:
        """Return the time of the model."""
        return self._model.now

    def get(self, path: str) -> Object | None:
        with self._counted("GET", path):
            self._model.wait(self._seconds)
            return copy.deepcopy(self._model.objects.get(path))

    def list_if_served(self, path: str, *, label_selector: str = "") -> list[Object]:
        with self._counted("GET", path):
            self._model.wait(self._seconds)
            return self._model.collection(path)

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        return self._write("POST", "create", path, body)

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        return self._write("PATCH", "apply", path, body)

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        """Refuse: no step of a fleet is a merge patch.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError(path)

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        self._write("DELETE", "delete", path, {"metadata": {"uid": uid} if uid else {}})

    def _write(self, verb: str, method: str, path: str, body: Mapping[str, Any]) -> Object:
        with self._counted(verb, path):
            try:
                self._model.write_one(method, path, body)
            except Refused as error:
                raise WriteConflict(str(error), cluster=self.host) from None
        return {}

    def _counted(self, verb: str, path: str) -> threading.Lock:
        request = Request.of(verb, path)
        with self._lock:
            self.requests[f"{request.verb} {request.resource}"] += 1
        return self._lock


@dataclass
class _Hosts:
    """Participants of a run: Karmada alone."""

    hosts: tuple[str, ...] = (KARMADA,)
    limit: str = ""

    def access(self, names: Sequence[str]) -> tuple[ClusterAccess, ...]:
        return tuple(ClusterAccess(host=name, kubeconfig=None, context=None) for name in names)


@dataclass(frozen=True)
class ModelRun:
    """A run that has ended: its outcome, its requests, and the seconds of each time that it waited."""

    outcome: Outcome
    requests: Mapping[str, int]
    pauses: tuple[float, ...]

    @property
    def reads(self) -> int:
        return sum(count for what, count in self.requests.items() if what.partition(" ")[0] in ("get", "list"))

    @property
    def writes(self) -> int:
        return sum(self.requests.values()) - self.reads


@dataclass
class ModelFleet:
    """A tenant whose workloads a model of Karmada brings to its clusters. Whenever a run waits, all happens that can happen."""

    tenant: Tenant = SHOP
    names: tuple[str, ...] = ("c1", "c2")
    read_seconds: float = 0
    model: KarmadaModel = field(init=False)

    def __post_init__(self) -> None:
        self.model = KarmadaModel(tenant=self.tenant, members={member_name(self.tenant, name): self.tenant.labels for name in self.names})

    def run(
        self, workloads: Sequence[FleetWorkload] | None, *, wait: bool = True, check_mode: bool = False, timeout: int = 600, **more: Any
    ) -> ModelRun:
        """One run for these workloads, which are in the fleet "all". None: it says nothing of workloads. ``more``: of the FleetRun."""
        client, pauses = ModelClient(self.model, self.read_seconds), list[float]()

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            self.model.wait(seconds)
            self.model.settle()

        ports = replace(
            real_ports(),
            connect=connecting(lambda access: client),
            now=lambda: self.model.now,
            clock=lambda: self.model.now.timestamp(),
            sleep=sleep,
        )
        run = FleetRun(
            request=self.request(workloads),
            karmada=KARMADA,
            options=FleetOptions(wait=wait, wait_timeout=timeout),
            who=_Hosts(),
            ports=ports,
            now=self.model.now,
            check_mode=check_mode,
            **more,
        )
        return ModelRun(run_fleet(run), dict(client.requests), tuple(pauses))

    def request(self, workloads: Sequence[FleetWorkload] | None) -> FleetRequest:
        return FleetRequest(
            tenant=self.tenant,
            clusters={name: FleetCluster(name=name, member=member_name(self.tenant, name)) for name in self.names},
            fleets={"all": Fleet(name="all", clusters=self.names)},
            workloads={entry.name: entry for entry in workloads} if workloads is not None else None,
        )
