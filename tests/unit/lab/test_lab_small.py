# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Small rules of the lab: API paths, the proxy to pods, played etcd users, the end of processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.lab import egress, keeper, processes
from tests.lab.api import path_of
from tests.lab.played import etcd_changes
from tests.testing.waiting import wait_for
from tests.unit.lab.asynchronous import in_loop


@pytest.mark.parametrize(
    ("api", "kind", "path"),
    [
        ("v1", "Secret", "/api/v1/namespaces/kube-system/secrets/x"),
        ("v1", "Node", "/api/v1/nodes/x"),
        ("v1", "Endpoints", "/api/v1/namespaces/kube-system/endpoints/x"),
        ("apps/v1", "DaemonSet", "/apis/apps/v1/namespaces/kube-system/daemonsets/x"),
        ("cilium.io/v2", "CiliumNetworkPolicy", "/apis/cilium.io/v2/namespaces/kube-system/ciliumnetworkpolicies/x"),
        ("cilium.io/v2", "CiliumNode", "/apis/cilium.io/v2/ciliumnodes/x"),
        ("networking.k8s.io/v1", "Ingress", "/apis/networking.k8s.io/v1/namespaces/kube-system/ingresses/x"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x"),
    ],
)
def test_every_object_has_its_path(api: str, kind: str, path: str) -> None:
    obj = {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "namespace": "kube-system"}}
    assert path_of(obj) == path
    assert path_of(obj, collection=True) == path.removesuffix("/x")


def test_kube_apiserver_is_sent_to_pods_through_the_proxy_and_to_etcd_directly() -> None:
    selections = yaml.safe_load(egress.configuration("egress.sock"))["egressSelections"]
    ways = {selection["name"]: selection["connection"]["proxyProtocol"] for selection in selections}
    assert ways == {"cluster": "HTTPConnect", "controlplane": "Direct", "etcd": "Direct"}
    assert egress.parse_connect("CONNECT 10.1.0.11:9964 HTTP/1.1") == ("10.1.0.11", 9964)
    for wrong in ("GET / HTTP/1.1", "CONNECT pod:80 HTTP/1.1", "CONNECT 10.1.0.11 HTTP/1.1", ""):
        with pytest.raises(OSError, match="only CONNECT"):
            egress.parse_connect(wrong)


def test_only_a_binary_before_1_16_needs_its_etcd_users_played() -> None:
    assert etcd_changes("c1", "1.20", "1.16.19") is None
    assert etcd_changes("c1", "1.15", "1.15.19") is None
    newest, older = etcd_changes("c1", "1.20", "1.15.19"), etcd_changes("c1", "1.16", "1.15.19")
    assert newest and older
    assert newest["user"] == "local-c1"
    assert "cilium/cluster-config/c1" in newest["remote"]
    assert "cilium/cache/" not in newest["remote"]
    assert "cilium/cache/" in older["remote"]


def test_a_process_of_the_lab_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = f"import subprocess, time; print(subprocess.Popen({processes.plain(['sleep', '60'])!r}).pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        wait_for(lambda: Path(f"/proc/{child}/comm").read_text().strip() == "sleep", what="the child is the program")
        parent.kill()
    wait_for(lambda: not alive(child), what="the child has ended")


@in_loop
async def test_a_stopped_process_takes_what_it_started_with_it(tmp_path: Path) -> None:
    script = "trap '' TERM; sleep 60 & echo $!; wait"
    process = processes.Process("sh", processes.plain(["sh", "-c", script]), tmp_path / "log")
    wait_for(lambda: (tmp_path / "log").read_text().strip().isdigit(), what="the child has said which process it is")
    grandchild = int((tmp_path / "log").read_text())
    assert await process.stop(0.2) == -signal.SIGKILL
    assert process.returncode == -signal.SIGKILL
    wait_for(lambda: not alive(grandchild), what="the grandchild has ended")


def test_a_missing_program_is_reported_like_a_shell_reports_it(tmp_path: Path) -> None:
    answer = subprocess.run(processes.plain(["/absent/program"]), capture_output=True, text=True, check=False)
    assert answer.returncode == 127
    assert "/absent/program" in answer.stderr


def test_a_kernel_without_user_namespaces_is_named_with_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_setting", lambda name: "0" if name == "user.max_user_namespaces" else None)
    assert "sysctl user.max_user_namespaces=" in keeper.remedy(ordinary=True)
    monkeypatch.setattr(keeper, "_setting", lambda name: "1" if name == "kernel.apparmor_restrict_unprivileged_userns" else None)
    assert "sysctl kernel.apparmor_restrict_unprivileged_userns=0" in keeper.remedy(ordinary=True)
    monkeypatch.setattr(keeper, "_setting", lambda name: None)
    assert "as root" in keeper.remedy(ordinary=True)
    assert "seccomp" in keeper.remedy(ordinary=False)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
