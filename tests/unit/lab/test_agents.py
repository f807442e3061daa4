# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Labs with real agents, as far as they need neither root nor a kernel with eBPF; the rest is tests/integration/test_real_agents.py."""

from __future__ import annotations

import shutil
import socket
import threading
import urllib.request
from http.server import HTTPServer
from pathlib import Path
from socketserver import UDPServer

import pytest

from tests.lab import agents, cgroups, dial, nc, workloads
from tests.lab.control import LabError
from tests.lab.options import LabOptions
from tests.lab.pods import RUN
from tests.lab.responder import echo, handler
from tests.lab.tools import AGENT
from tests.lab.tools.catalogue import CILIUM_AGENT, MESH_OF_AGENTS, TOOLS
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


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("Debian clang version 16.0.6 (15~deb12u1)", "clang"),
        ("Debian clang version 14.0.6", "clang-19"),
        ("", "clang-19"),
    ],
)
def test_a_compiler_is_taken_only_if_it_says_that_it_is_new_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: str, found: str
) -> None:
    for name, answer in (("clang", first), ("clang-19", "clang version 19.1.7"), ("clang-15", "clang version 15.0.0")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{answer}'\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert agents.compiler() == tmp_path / found


def test_a_machine_with_an_old_compiler_alone_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "clang"
    program.write_text("#!/bin/sh\necho 'clang version 14.0.6'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "clang 15 or newer" in list(agents.missing())


def test_labs_with_real_agents_play_the_charts_of_their_version() -> None:
    assert {cluster.cilium for cluster in LabOptions(agents="real").cluster_options()} == {".".join(CILIUM_AGENT.split(".")[:2])}
    assert {cluster.cilium for cluster in LabOptions(agents="real", cilium="1.20").cluster_options()} == {"1.20"}
    assert {cluster.cilium for cluster in LabOptions().cluster_options()} == {"1.18"}


def test_a_pod_is_entered_by_its_name_alone() -> None:
    with pytest.raises(LabError, match="'kube-system/cilium' is no name of a pod"):
        workloads.execute(Path("kubeconfig"), "default", "kube-system/cilium", ["true"])


def test_an_agents_container_has_each_program_and_its_name_in_older_commands() -> None:
    found = agents.programs({name: Path(f"/tools/{name}") for name in AGENT})
    assert found["/opt/lab/cilium"] == Path("/tools/cilium-dbg")
    assert {Path(path).name for path in found} == {"cilium", *AGENT} - {MESH_OF_AGENTS}


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
    assert f"-X 'github.com/cilium/cilium/pkg/version.ciliumVersion={CILIUM_AGENT} " in TOOLS["cilium-agent"].link_flags
    assert "'" not in TOOLS["clustermesh-apiserver"].link_flags


def test_flows_are_dialled_and_say_what_became_of_them(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent,
        socket.socket() as closed,
        UDPServer(("127.0.0.1", 0), echo("here")) as answering,
    ):
        silent.bind(("127.0.0.1", 0))
        threading.Thread(target=answering.handle_request, daemon=True).start()
        closed.bind(("127.0.0.1", 0))
        assert [
            dial.dial("TCP", "127.0.0.1", listening.getsockname()[1], 2.0),
            dial.dial("UDP", "127.0.0.1", answering.server_address[1], 2.0),
            dial.dial("UDP", "127.0.0.1", silent.getsockname()[1], 0.1),
            dial.dial("TCP", "127.0.0.1", closed.getsockname()[1], 2.0),
        ] == [dial.ANSWERED, dial.ANSWERED, dial.SILENT, dial.REFUSED]


def test_an_echo_request_of_the_other_end_is_no_answer() -> None:
    header = bytes([0x45]) + bytes(11) + bytes([10, 2, 0, 7]) + bytes(4)
    assert dial.is_echo_reply(header + dial._echo(0), "10.2.0.7")
    assert not dial.is_echo_reply(header + dial._echo(0), "10.2.0.8"), "the answer of another end, before the socket was connected"
    assert not dial.is_echo_reply(header + dial._echo(8), "10.2.0.7"), "the other end asks too"
    other = bytearray(dial._echo(0))
    other[4] ^= 0xFF
    assert not dial.is_echo_reply(header + bytes(other), "10.2.0.7"), "the answer to another process"
    assert not dial.is_echo_reply(header, "10.2.0.7")


def test_a_probe_in_a_pod_with_packets_connects_to_the_address_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_ROUTES", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert nc.main(["-v", "-z", "-w", "2", "127.0.0.1", port]) == 0
    assert nc.main(["-v", "-z", "-w", "2", "127.0.0.1", port]) == 1


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
