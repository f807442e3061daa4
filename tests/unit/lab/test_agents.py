# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Labs with real agents, as far as they need neither root nor a kernel with eBPF; the rest is tests/integration/test_real_agents.py."""

from __future__ import annotations

import shutil
import threading
import urllib.request
from http.server import HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab import agents, cgroups, workloads
from tests.lab.control import LabError
from tests.lab.pods import RUN
from tests.lab.responder import handler
from tests.lab.tools import AGENT
from tests.lab.tools.catalogue import TOOLS
from tests.lab.translate import translate

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 22 0:27 / /sys/fs/cgroup/with\\040space rw,relatime - cgroup2 cgroup2 rw
"""


def test_the_machines_cgroups_are_found_where_they_are_mounted() -> None:
    assert cgroups.machine_root(MOUNTS) == Path("/sys/fs/cgroup/with space")
    assert cgroups.machine_root(MOUNTS.splitlines()[0]) is None


def test_labs_of_two_names_have_two_cgroups() -> None:
    root = Path("/sys/fs/cgroup")
    assert len({cgroups.folder_of(root, Path(f"/run/mesh-lab-0/{name}")) for name in ("a", "b")}) == 2


def test_all_that_a_machine_lacks_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(cgroups, "machine_root", lambda: None)
    with pytest.raises(LabError) as refused:
        agents.require()
    assert "\n" not in str(refused.value)
    for what in ("clang", "ip,", "iptables", "ipset", "cgroup2", "--agents real"):
        assert what in str(refused.value)


def test_an_agents_container_has_each_program_and_its_name_in_older_commands() -> None:
    found = agents.programs({name: Path(f"/tools/{name}") for name in AGENT})
    assert found["/opt/lab/cilium"] == Path("/tools/cilium-dbg")
    assert {Path(path).name for path in found} == {"cilium", *AGENT}


def test_the_mesh_etcd_listens_at_the_pods_address_where_an_agent_has_put_it_on_an_interface() -> None:
    def listens(argument: str, address: str) -> str:
        (found,) = translate([f"--listen-client-urls={argument}"], {"HOSTNAME_IP": "10.1.0.7"}, "1.20", "1.15.19", address=address).args
        return found.partition("=")[2]

    named = "https://127.0.0.1:2379,https://[$(HOSTNAME_IP)]:2379"
    assert listens(named, "") == "https://127.0.0.1:2379"
    assert listens(named, "10.1.0.7") == "https://127.0.0.1:2379,https://10.1.0.7:2379"
    assert listens("https://0.0.0.0:2379", "10.1.0.7") == "https://127.0.0.1:2379,https://10.1.0.7:2379"
    assert listens("https://0.0.0.0:2379", "") == "https://127.0.0.1:2379"


def test_a_value_with_spaces_is_one_word_to_the_linker() -> None:
    assert "-X 'github.com/cilium/cilium/pkg/version.ciliumVersion=1.15.19 " in TOOLS["cilium-agent"].link_flags
    assert "'" not in TOOLS["clustermesh-apiserver"].link_flags


def test_a_pod_that_serves_says_who_it_is() -> None:
    server = HTTPServer(("127.0.0.1", 0), handler("hello from c1"))
    threading.Thread(target=server.handle_request, daemon=True).start()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
        assert answer.read() == b"hello from c1\n"
    server.server_close()


def test_a_pod_runs_its_command_and_one_that_serves_is_ready_when_it_answers() -> None:
    web = workloads.pod("web", {"app": "web"}, ["serve", "hello"], node="c1-node2")
    assert (web["metadata"]["annotations"], web["spec"]["nodeName"]) == ({RUN: "true"}, "c1-node2")
    assert web["spec"]["containers"][0]["readinessProbe"] == {"httpGet": {"path": "/", "port": 8080}}
    client = workloads.pod("client", {}, workloads.PAUSE)
    assert "readinessProbe" not in client["spec"]["containers"][0] and "nodeName" not in client["spec"]


@pytest.mark.parametrize(
    ("url", "resolved"),
    [
        ("http://web/x", ["--resolve", "web:80:10.96.0.9"]),
        ("web.shop.svc:8080", ["--resolve", "web.shop.svc:8080:10.96.0.9"]),
        ("http://10.2.0.4:8080/", []),
    ],
)
def test_a_name_of_a_service_is_its_address_since_the_lab_has_no_dns(
    monkeypatch: pytest.MonkeyPatch, url: str, resolved: list[str]
) -> None:
    asked: list[str] = []

    def get(path: str) -> dict[str, Any]:
        asked.append(path)
        return {"spec": {"clusterIP": "10.96.0.9"}}

    ran: list[list[str]] = []

    def execute(kubeconfig: Path, namespace: str, name: str, command: list[str], *, limit: float) -> workloads.Answer:
        ran.append(command)
        return workloads.Answer("hello", "", 0)

    monkeypatch.setattr(workloads, "execute", execute)
    api: Any = SimpleNamespace(get=get)
    assert workloads.curl(api, Path("kubeconfig"), "default", "client", url).text == "hello"
    assert ran[0][-len(resolved) - 1 : -1] == resolved
    assert asked == ([f"/api/v1/namespaces/{'shop' if 'shop' in url else 'default'}/services/web"] if resolved else [])


def test_a_name_of_no_service_is_an_error_that_says_what_the_lab_has() -> None:
    api: Any = SimpleNamespace(get=lambda path: None)
    with pytest.raises(LabError, match="no Service shop/web, and the lab has no names but those of Services"):
        workloads.curl(api, Path("kubeconfig"), "default", "client", "http://web.shop/")
