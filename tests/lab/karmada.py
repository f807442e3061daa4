# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A real Karmada control plane beside the clusters of a lab: its servers as plain processes on loopback.

Addresses of lab L: 127.L.250.1 kube-apiserver and kube-controller-manager, .2 controller-manager and scheduler, .3 aggregated-apiserver, .4
webhook. The first stores its objects in the lab's etcd.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import urllib3

from tests.lab import pki
from tests.lab.addresses import API_PORT
from tests.lab.api import ApiError, LabApi, Object
from tests.lab.control import LabError
from tests.lab.controlplane import common_flags, wait_until
from tests.lab.processes import FRUGAL, Process, plain
from tests.lab.tools.karmada_objects import karmada_crds, karmada_webhooks

CONTEXT: Final = "karmada"
SYSTEM: Final = "karmada-system"
CLUSTER_SECRETS: Final = "karmada-cluster"  # namespace of the members' credentials
_THIRD: Final = 250  # of the addresses; clusters have 1 to 40
_WEBHOOK_PORT: Final = 8443
_LIMIT: Final = 90.0
_AGGREGATED: Final = f"karmada-aggregated-apiserver.{SYSTEM}.svc"
_CLUSTERS: Final = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.cluster.karmada.io"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CONTROLLERS: Final = (
    "namespace-controller",
    "garbage-collector-controller",
    "clusterrole-aggregation-controller",
    "ttl-after-finished-controller",
)
_QUICK: Final = (
    "--cluster-status-update-frequency=1s",
    "--cluster-monitor-period=1s",
    "--cluster-failure-threshold=2s",
    "--cluster-success-threshold=1s",
)
_WIDE: Final = ("--kube-api-qps=400", "--kube-api-burst=800")
PACES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "quick": {"controller-manager": _QUICK},
    "default": {},
    "wide": {"controller-manager": (*_WIDE, "--cluster-api-qps=400", "--cluster-api-burst=800"), "scheduler": _WIDE},
}
"""Further flags of the parts. By its defaults Karmada notices a lost member after 70 s and one that is back after 40 s, which is long for a
test, and each part sends at most 40 requests a second, which is little for hundreds of workloads (--kube-api-qps)."""
PROGRAMS: Final = {
    "kube-apiserver": "kube-apiserver",
    "kube-controller-manager": "kube-controller-manager",
    "aggregated-apiserver": "karmada-aggregated-apiserver",
    "webhook": "karmada-webhook",
    "controller-manager": "karmada-controller-manager",
    "scheduler": "karmada-scheduler",
}
"""Parts of the control plane, and the program of each."""


@dataclass(frozen=True)
class _Files:
    """Keys and certificates, all below ``folder``."""

    folder: Path
    ca: Path
    front_proxy_ca: Path
    server: pki.Pair
    aggregated: pki.Pair
    webhook: Path  # folder with tls.crt and tls.key
    admin: pki.Pair
    front_proxy: pki.Pair
    service_accounts: Path
    kubeconfig: Path


class Karmada:
    """The control plane. Event loop only, but for ``api``. ``tools``: program name to path. ``pace``: one of `PACES`."""

    def __init__(self, folder: Path, kubeconfig: Path, lab: int, tools: Mapping[str, Path], executor: Executor, *, pace: str) -> None:
        self._lab, self._tools, self._executor, self._pace = lab, tools, executor, PACES[pace]
        self._files = _make_files(folder, kubeconfig, self._address)
        self._processes: dict[str, Process] = {}
        self._frozen: set[str] = set()
        self._etcd = ""
        self.api = LabApi(self.server, self._files.ca, self._files.admin.cert, self._files.admin.key)

    @property
    def server(self) -> str:
        """URL of its API server."""
        return f"https://{self._address(1)}:{API_PORT}"

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, with one context."""
        return self._files.kubeconfig

    async def start(self, etcd: str) -> None:
        """Start all parts, and wait until each is ready.

        :raises StartError: with the end of the log of the part that is not.
        """
        self._etcd = etcd
        loop = asyncio.get_running_loop()
        server = self._start("kube-apiserver")
        await wait_until(partial(self._answers, "/readyz"), server, _LIMIT)
        await loop.run_in_executor(self._executor, self._install)
        for part in ("aggregated-apiserver", "webhook"):
            self._start(part)
        await wait_until(self._serves_clusters, self._processes["aggregated-apiserver"], _LIMIT)
        # The garbage collector reads the kinds when it begins and every 30 s: before, it would know none of Karmada's.
        for part in ("kube-controller-manager", "controller-manager", "scheduler"):
            self._start(part)
        for part, url in self._health().items():
            await wait_until(partial(_is_healthy, url, self._files.ca), self._processes[part], _LIMIT)

    async def kill(self, part: str) -> None:
        """End a part with SIGKILL, and return when it is dead; it stays so until `revive`."""
        process = self._process(part)
        process.kill()
        await process.wait()

    def freeze(self, part: str) -> None:
        """Stop a part with SIGSTOP: its connections stay, and nothing answers."""
        os.killpg(self._process(part).pid, signal.SIGSTOP)
        self._frozen.add(part)

    async def revive(self, part: str) -> None:
        """Let a part go on that is frozen, or start it anew."""
        if part in self._frozen:
            os.killpg(self._process(part).pid, signal.SIGCONT)
            self._frozen.discard(part)
            return
        before = self._processes.get(_known(part))
        if before is not None and before.returncode is None:
            raise LabError(f"{part} of Karmada runs already")
        self._start(part)

    async def reset(self) -> None:
        """Let every part go on, and start those that are dead."""
        for part in list(self._frozen):
            await self.revive(part)
        for part, process in list(self._processes.items()):
            if process.returncode is not None:
                await self.revive(part)

    async def stop(self) -> None:
        """End all parts."""
        for process in self._processes.values():
            process.kill()
        await asyncio.gather(*(process.wait() for process in self._processes.values()))

    def status(self, pids: Mapping[int, int]) -> Object:
        """Return what `status` of the lab says of it. ``pids``: the machine's process ids by the lab's own."""
        running = {part: process for part, process in self._processes.items() if process.returncode is None}
        return {
            "server": self.server,
            "kubeconfig": str(self.kubeconfig),
            "servers": {part: pids.get(process.pid, process.pid) for part, process in running.items()},
            "dead": sorted(self._processes.keys() - running.keys()),
            "frozen": sorted(self._frozen),
        }

    def _address(self, last: int) -> str:
        return f"127.{self._lab}.{_THIRD}.{last}"

    def _process(self, part: str) -> Process:
        process = self._processes.get(_known(part))
        if process is None or process.returncode is not None:
            raise LabError(f"{part} of Karmada is dead already")
        return process

    def _start(self, part: str) -> Process:
        program = PROGRAMS[part]
        argv = plain([str(self._tools[program]), *self._arguments(part)])
        process = Process(
            f"Karmada's {part}", argv, self._files.folder / f"{part}.log", env={**os.environ, **FRUGAL}, cwd=self._files.folder
        )
        self._processes[part] = process
        return process

    def _arguments(self, part: str) -> tuple[str, ...]:
        files, kubeconfig = self._files, f"--kubeconfig={self._files.kubeconfig}"
        if part == "kube-apiserver":
            return (
                f"--etcd-servers={self._etcd}",
                "--etcd-prefix=/karmada",
                f"--bind-address={self._address(1)}",
                f"--advertise-address={self._address(1)}",
                f"--secure-port={API_PORT}",
                "--endpoint-reconciler-type=none",
                *common_flags(files.folder, files.ca, files.server, files.service_accounts),
                "--disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount",
                f"--proxy-client-cert-file={files.front_proxy.cert}",
                f"--proxy-client-key-file={files.front_proxy.key}",
                f"--requestheader-client-ca-file={files.front_proxy_ca}",
                "--requestheader-allowed-names=front-proxy-client",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-username-headers=X-Remote-User",
            )
        if part == "kube-controller-manager":
            return (
                kubeconfig,
                "--leader-elect=false",
                f"--bind-address={self._address(1)}",
                f"--service-account-private-key-file={files.service_accounts}",
                "--use-service-account-credentials=false",
                f"--controllers={','.join(_CONTROLLERS)}",
            )
        if part == "aggregated-apiserver":
            return (
                kubeconfig,
                f"--authentication-kubeconfig={files.kubeconfig}",
                f"--authorization-kubeconfig={files.kubeconfig}",
                f"--etcd-servers={self._etcd}",
                "--etcd-prefix=/karmada-aggregated",
                f"--tls-cert-file={files.aggregated.cert}",
                f"--tls-private-key-file={files.aggregated.key}",
                f"--bind-address={self._address(3)}",
                f"--secure-port={API_PORT}",
                "--audit-log-path=-",
                "--audit-log-maxage=0",
                "--audit-log-maxbackup=0",
            )
        if part == "webhook":
            return (
                kubeconfig,
                f"--bind-address={self._address(4)}",
                f"--secure-port={_WEBHOOK_PORT}",
                f"--cert-dir={files.webhook}",
                "--metrics-bind-address=0",
                f"--health-probe-bind-address={self._address(4)}:8000",  # serves nothing; the default is every address
                "--allow-no-execute-taint-policy",
            )
        common = (kubeconfig, "--leader-elect=false", "--metrics-bind-address=0", *self._pace.get(part, ()))
        if part == "scheduler":
            return (*common, f"--health-probe-bind-address={self._address(2)}:10351")
        return (
            *common,
            f"--health-probe-bind-address={self._address(2)}:10357",
            "--feature-gates=Failover=true",
            "--enable-no-execute-taint-eviction=true",
        )

    def _health(self) -> dict[str, str]:
        return {
            "webhook": f"https://{self._address(4)}:{_WEBHOOK_PORT}/readyz/",
            "controller-manager": f"http://{self._address(2)}:10357/healthz",
            "scheduler": f"http://{self._address(2)}:10351/healthz",
        }

    def _install(self) -> None:
        """Create the namespaces, CRDs, the APIService and the webhook configurations."""
        authority = base64.b64encode(self._files.ca.read_bytes()).decode()
        webhook = f"https://{self._address(4)}:{_WEBHOOK_PORT}"
        for name in (SYSTEM, CLUSTER_SECRETS):
            self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        objects = [*_aggregation(authority, self._address(3)), *karmada_webhooks(webhook, authority)]
        crds = karmada_crds(webhook, authority)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self.api.create, [*crds, *objects]))

    def _answers(self, path: str) -> bool:
        try:
            return self.api.get_text(path) != ""
        except (ApiError, urllib3.exceptions.HTTPError):
            return False

    def _serves_clusters(self) -> bool:
        """Whether the aggregated server is reached, and every CRD is served: controllers do not wait for CRDs."""
        try:
            crds, service = self.api.list(_CRDS), self.api.get(_CLUSTERS)
        except (ApiError, urllib3.exceptions.HTTPError):
            return False
        return _holds(service or {}, "Available") and all(_holds(crd, "Established") for crd in crds)


def _holds(obj: Object, condition: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)


def _known(part: str) -> str:
    if part not in PROGRAMS:
        raise LabError(f"Karmada has no part {part!r}; it has {', '.join(PROGRAMS)}")
    return part


def _aggregation(authority: str, address: str) -> list[Object]:
    """Return the APIService of Karmada's Clusters, and the Service by which kube-apiserver finds their server.

    An address counts as an external name, and kube-apiserver verifies the certificate for the name of the Service.
    """
    name = _AGGREGATED.partition(".")[0]
    metadata = {"name": name, "namespace": SYSTEM}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"type": "ExternalName", "externalName": address}}
    spec: dict[str, Any] = {
        "group": "cluster.karmada.io",
        "version": "v1alpha1",
        "groupPriorityMinimum": 2000,
        "versionPriority": 10,
        "caBundle": authority,
        "service": {**metadata, "port": API_PORT},
    }
    registration = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1alpha1.cluster.karmada.io"}}
    return [service, {**registration, "spec": spec}]


def _is_healthy(url: str, ca: Path) -> bool:
    with urllib3.PoolManager(ca_certs=str(ca), timeout=2, retries=False) as pool:
        try:
            return pool.request("GET", url).status == 200
        except urllib3.exceptions.HTTPError:
            return False


def _make_files(folder: Path, kubeconfig: Path, address: Any) -> _Files:
    for part in ("front-proxy", "webhook"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    authority, front_proxy = pki.Authority(folder, "lab karmada"), pki.Authority(folder / "front-proxy", "lab karmada front proxy")
    webhook = authority.issue("webhook/tls", "karmada-webhook", names=[address(4)])
    names = [address(1), "127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"]
    files = _Files(
        folder=folder,
        ca=authority.cert,
        front_proxy_ca=front_proxy.cert,
        server=authority.issue("server", "karmada-apiserver", names=names),
        aggregated=authority.issue("aggregated", "karmada-aggregated-apiserver", names=[_AGGREGATED, address(3)]),
        webhook=webhook.cert.parent,
        admin=authority.issue("admin", "system:admin", groups=["system:masters"]),
        front_proxy=front_proxy.issue("client", "front-proxy-client"),
        service_accounts=pki.service_account_key(folder),
        kubeconfig=kubeconfig,
    )
    pki.write_yaml(kubeconfig, pki.kubeconfig(CONTEXT, f"https://{address(1)}:{API_PORT}", files.ca, files.admin))
    return files
