# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The servers of one cluster: kube-apiserver, controller manager, scheduler, and the lab's kubelet for exec, port-forward and logs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import urllib3

from tests.lab import egress, pki
from tests.lab.addresses import API_PORT, KUBELET_PORT, ClusterAddresses
from tests.lab.api import ApiError, LabApi
from tests.lab.patience import Budget
from tests.lab.processes import FRUGAL, Process, plain

SERVICE_CIDR = "172.20.0.0/16"
_START_LIMIT = 90.0
# All that the lab's objects need (kubernetes: cmd/kube-controller-manager/names). The node lifecycle controller is left out: the lab's
# nodes send no heartbeats, so their taints are not managed either.
_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "daemonset-controller",
    "statefulset-controller",
    "job-controller",
    "cronjob-controller",
    "ttl-after-finished-controller",
    "endpointslice-controller",
    "endpoints-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
)

_IDLE = (  # what an API server does by itself and no test looks at; a lab has five of them for minutes
    "--enable-priority-and-fairness=false",
    "--etcd-compaction-interval=0",
    "--etcd-count-metric-poll-period=0",
    "--etcd-db-metric-poll-interval=0",
    "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false,DetectCacheInconsistency=false,SizeBasedListCostEstimate=false",
)


class StartError(RuntimeError):
    """A server did not come up; the text names it and the end of its log."""


@dataclass(frozen=True)
class Files:
    """Keys, certificates and kubeconfig of one cluster; all below ``folder``."""

    folder: Path
    ca: Path
    server: pki.Pair
    admin: pki.Pair
    kubelet: pki.Pair
    to_kubelet: pki.Pair
    service_accounts: Path
    kubeconfig: Path


def make_files(folder: Path, kubeconfig: Path, name: str, addresses: ClusterAddresses) -> Files:
    """Everything that has to be on disk before the first server starts."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = pki.Authority(folder, f"lab {name}")
    names = [addresses.control_plane, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"]
    files = Files(
        folder=folder,
        ca=authority.cert,
        server=authority.issue("server", "kube-apiserver", names=names),
        admin=authority.issue("admin", "lab-admin", groups=["system:masters"]),
        kubelet=authority.issue("kubelet", "lab-kubelet", names=[addresses.kubelet]),
        to_kubelet=authority.issue("to-kubelet", "kube-apiserver-kubelet-client", groups=["system:masters"]),
        service_accounts=pki.service_account_key(folder),
        kubeconfig=kubeconfig,
    )
    pki.write_yaml(kubeconfig, pki.kubeconfig(name, addresses.api_url, files.ca, files.admin))
    (folder / "egress.yaml").write_text(egress.configuration("egress.sock"), encoding="ascii")
    return files


def common_flags(folder: Path, ca: Path, server: pki.Pair, service_accounts: Path) -> tuple[str, ...]:
    """Flags of every kube-apiserver of a lab: its files, its authorization, and nothing that it does by itself."""
    return (
        *_IDLE,
        f"--cert-dir={folder}",
        f"--tls-cert-file={server.cert}",
        f"--tls-private-key-file={server.key}",
        f"--client-ca-file={ca}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={service_accounts}",
        f"--service-account-signing-key-file={service_accounts}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--authorization-mode=RBAC",
        "--profiling=false",
    )


class ControlPlane:
    """The servers of one cluster. ``tools``: program name to path. Event loop only."""

    def __init__(self, name: str, files: Files, addresses: ClusterAddresses, tools: Mapping[str, Path], etcd_url: str) -> None:
        self.processes: list[Process] = []
        self.api = LabApi(addresses.api_url, files.ca, files.admin.cert, files.admin.key)
        self._name = name
        self._files = files
        self._addresses = addresses
        self._tools = tools
        self._etcd_url = etcd_url

    async def start_api(self, *, egress: bool = True) -> None:
        """Start kube-apiserver and wait until it is ready. Raises StartError. ``egress``: it reaches nodes and pods through egress.sock."""
        files, address = self._files, self._addresses.control_plane
        server = self._start(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            f"--etcd-prefix=/{self._name}",
            f"--bind-address={address}",
            f"--secure-port={API_PORT}",
            f"--advertise-address={address}",
            "--endpoint-reconciler-type=none",
            *common_flags(files.folder, files.ca, files.server, files.service_accounts),
            "--allow-privileged",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--kubelet-certificate-authority={files.ca}",
            f"--kubelet-client-certificate={files.to_kubelet.cert}",
            f"--kubelet-client-key={files.to_kubelet.key}",
            *(("--egress-selector-config-file=egress.yaml",) if egress else ()),
        )
        await wait_until(lambda: self._answers("/readyz"), server, _START_LIMIT)

    def start_others(self, pods: Path) -> None:
        """Start what needs the API; they wait for it by themselves. ``pods``: folder that tells lab-kubelet how to enter a pod."""
        files, address = self._files, self._addresses.control_plane
        common = (
            f"--kubeconfig={files.kubeconfig}",
            "--leader-elect=false",
            f"--bind-address={address}",
            "--kube-api-qps=300",
            "--kube-api-burst=600",
        )
        self._start(
            "kube-controller-manager",
            *common,
            f"--root-ca-file={files.ca}",
            f"--service-account-private-key-file={files.service_accounts}",
            "--use-service-account-credentials=false",
            f"--controllers={','.join(_CONTROLLERS)}",
        )
        self._start("kube-scheduler", *common)
        self.start_kubelet(pods)

    def start_kubelet(self, pods: Path) -> None:
        """Start what answers exec, log and port-forward. ``pods``: as for `start_others`."""
        files = self._files
        self._start(
            "lab-kubelet",
            f"--listen={self._addresses.kubelet}:{KUBELET_PORT}",
            f"--tls-cert={files.kubelet.cert}",
            f"--tls-key={files.kubelet.key}",
            f"--client-ca={files.ca}",
            f"--pods={pods}",
        )

    async def stop(self) -> None:
        """Clients first, so that they need not wait for a server that is gone."""
        first = [process for process in self.processes if process.name != "kube-apiserver"]
        await asyncio.gather(*(process.stop(1.0) for process in first))
        # A graceful end of kube-apiserver drains for seconds; nothing of it is kept.
        for process in self.processes:
            process.kill()
        await asyncio.gather(*(process.wait() for process in self.processes))

    def _start(self, program: str, *args: str) -> Process:
        log = self._files.folder / f"{program}.log"
        process = Process(program, plain([str(self._tools[program]), *args]), log, env={**os.environ, **FRUGAL}, cwd=self._files.folder)
        self.processes.append(process)
        return process

    def _answers(self, path: str) -> bool:
        try:
            return self.api.get_text(path) != ""
        except (ApiError, urllib3.exceptions.HTTPError):
            return False


async def wait_until(answers: object, process: Process, limit: float) -> None:
    """Ask ``answers()`` in a thread until it is true.

    :raises StartError: the process ended before, or a `Budget` of ``limit`` seconds did.
    """
    assert callable(answers)
    budget = Budget(limit)
    while not await asyncio.to_thread(answers):
        if process.returncode is not None:
            raise StartError(f"{process.name} ended with status {process.returncode}: {process.last_lines()}")
        if budget.is_spent():
            raise StartError(f"{process.name} was not ready after {limit:g} s: {process.last_lines()}")
        await asyncio.sleep(0.15)
