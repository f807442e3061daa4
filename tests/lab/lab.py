# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A lab for tests: ``with Lab(LabOptions(clusters=2)) as lab: … lab.clusters["c1"].kubeconfig … lab.cut("c1", "c2")``.

The same supervisor as behind `python -m tests.lab`, but it ends with the process that made it, even if that is killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.lab import control, launch, workloads
from tests.lab.api import LabApi
from tests.lab.options import LabOptions
from tests.lab.toolbox import resolve
from tests.lab.tools.progress import console
from tests.lab.trials import Trials


@dataclass(frozen=True)
class ClusterHandle:
    """What a test needs of one cluster. ``kubeconfig`` has one context, called ``name``."""

    name: str
    cilium_name: str
    cluster_id: int
    server: str
    kubeconfig: Path
    api: LabApi


class Lab:
    """A running lab. ``folder`` holds everything it writes; it is gone after `close`."""

    def __init__(self, options: LabOptions, *, tools: Mapping[str, Path] | None = None) -> None:
        self.options = options
        found = resolve(options, tools, progress=console())
        self._running = launch.start(options, found.paths, binary_version=found.binary_version, owned=True)
        self.folder = self._running.folder
        self.clusters: dict[str, ClusterHandle] = {}
        try:
            self._running.wait_ready()
            for cluster in self.status()["clusters"]:
                path = Path(cluster["kubeconfig"])
                self.clusters[cluster["name"]] = ClusterHandle(
                    cluster["name"], cluster["ciliumName"], cluster["clusterId"], cluster["server"], path, LabApi.from_kubeconfig(path)
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def kubeconfig(self) -> Path:
        """One kubeconfig with a context per cluster."""
        return self.folder / "kubeconfig.yaml"

    @property
    def kubeconfigs(self) -> Path:
        """A folder with one kubeconfig per cluster, NAME.yaml."""
        return self.folder / "kubeconfigs"

    def status(self) -> dict[str, Any]:
        """As `python -m tests.lab status --json` prints it."""
        answer: dict[str, Any] = control.call(self.folder, "status")
        return answer

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Connections from source to target, and back unless ``one_way``, end and are refused. ``controller`` is where the collection
        runs."""
        self._fault("cut", source, target, one_way)

    def freeze(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Bytes vanish, connections stay."""
        self._fault("freeze", source, target, one_way)

    def slow(self, source: str, target: str, milliseconds: float, *, one_way: bool = False) -> None:
        """Every byte takes that much longer, each way."""
        self._fault("slow", source, target, one_way, milliseconds=milliseconds)

    def block(self, source: str, target: str, *ports: str, one_way: bool = False) -> None:
        """Ports between the nodes of two clusters do not pass: ``tcp/4240``, ``udp/8472``. The mesh endpoints are as they were."""
        self._fault("block", source, target, one_way, ports=list(ports))

    def heal(self, source: str, target: str, *, one_way: bool = False) -> None:
        """No fault any more."""
        self._fault("heal", source, target, one_way)

    def kill(self, cluster: str) -> None:
        """The whole mesh endpoint of a cluster dies and stays dead."""
        control.call(self.folder, "kill", {"cluster": cluster})

    def restart(self, cluster: str) -> None:
        """A killed mesh endpoint comes back; returns before it is ready."""
        control.call(self.folder, "restart", {"cluster": cluster})

    def freeze_api(self, cluster: str) -> None:
        """kube-apiserver of a cluster answers nothing and its connections stay; its mesh endpoint goes on."""
        control.call(self.folder, "freeze-api", {"cluster": cluster})

    def thaw_api(self, cluster: str) -> None:
        """A frozen kube-apiserver goes on."""
        control.call(self.folder, "thaw-api", {"cluster": cluster})

    def outside(self, source: str, url: str) -> workloads.Answer:
        """Ask a URL from the host outside of the clusters, of whose addresses (`addresses.OUTSIDE`) ``source`` is one."""
        return workloads.Answer(**control.call(self.folder, "outside", {"source": source, "url": url}))

    @property
    def karmada(self) -> Path:
        """Kubeconfig of an administrator of the lab's Karmada."""
        return self.folder / "karmada.yaml"

    def kill_karmada(self, part: str) -> None:
        """A part of Karmada dies and stays dead. The parts are `tests.lab.karmada.PROGRAMS`."""
        control.call(self.folder, "karmada", {"act": "kill", "part": part})

    def freeze_karmada(self, part: str) -> None:
        """A part of Karmada answers nothing; its connections stay."""
        control.call(self.folder, "karmada", {"act": "freeze", "part": part})

    def revive_karmada(self, part: str) -> None:
        """A part that is dead or frozen goes on; returns before it is ready."""
        control.call(self.folder, "karmada", {"act": "revive", "part": part})

    def helm_upgrade(
        self, cluster: str, assignments: tuple[str, ...] = (), *, version: str | None = None, force_replace: bool = False
    ) -> dict[str, list[str]]:
        """What ``helm upgrade --reuse-values --set ASSIGNMENT…`` does to the objects that Helm owns: names created, updated, deleted,
        kept."""
        answer: dict[str, list[str]] = control.call(
            self.folder,
            "helm-upgrade",
            {"cluster": cluster, "set": list(assignments), "version": version, "force_replace": force_replace},
        )
        return answer

    def reset(self) -> None:
        """Heal every link, revive every mesh endpoint, forget Helm upgrades and what probes meet. Objects in the API stay as they are:
        `tests.lab.pristine` restores those."""
        control.call(self.folder, "reset")

    def trials(self, cluster: str) -> Trials:
        """What probes meet in a cluster: flows for its agents, and what is behind the addresses of pods."""
        return Trials(self.folder / "clusters" / cluster)

    def close(self) -> None:
        """End the lab; nothing is left. Twice is fine."""
        self._running.stop()

    def _fault(self, verb: str, source: str, target: str, one_way: bool, **more: Any) -> None:
        control.call(self.folder, verb, {"source": source, "target": target, "one_way": one_way, **more})
