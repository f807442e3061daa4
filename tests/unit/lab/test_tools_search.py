# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lab takes the programs that the user has, and only those that fit."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.tools import ToolUnavailable, cache, clustermesh_binary, ensure, golang
from tests.lab.tools.catalogue import CILIUM, CILIUM_AGENT, MESH_OF_AGENTS, TOOLS
from tests.lab.tools.elf import why_not_in_a_pod
from tests.lab.tools.search import cilium_version, find, matches, parse_version

Notes = list[str]


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with an empty PATH, no Go, and a cache of its own."""
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MESH_LAB_TOOLS", raising=False)
    yield tmp_path


def program(path: Path, says: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def in_cache(name: str) -> Path:
    return program(cache.place(TOOLS[name], "1.26.6"))


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ("etcd Version: 3.6.14\nGit SHA: 4e814e2\nGo Version: go1.24.5", (3, 6, 14)),
        ("etcdctl version: 3.4.23\nAPI version: 3.4", (3, 4, 23)),
        ("Kubernetes v1.36.4", (1, 36, 4)),
        ("Kubernetes v1.33.0-rc.1+abc", (1, 33, 0)),
        ("go version 1.27", (1, 27)),
        ("no version at all", None),
        ("", None),
    ],
)
def test_a_version_is_read_out_of_what_a_program_says(answer: str, version: tuple[int, ...] | None) -> None:
    assert parse_version(answer) == version


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("1.20.2", "1.20", True),
        ("1.20.2", "1.20.2", True),
        ("1.20.0-rc.1", "1.20.0", True),
        ("1.20.2", "1.2", False),
        ("1.15.19", "1.15.1", False),
        ("", "1.20", False),
    ],
)
def test_a_patch_release_is_of_its_minor_version_and_of_no_other(version: str, wanted: str, fits: bool) -> None:
    assert matches(version, wanted) is fits


def test_the_tools_folder_comes_before_path_and_path_before_the_cache(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_cache("etcd")
    assert ensure(["etcd"], progress=print).origin("etcd") == "built"
    on_path = program(machine / "path" / "etcd", "etcd Version: 3.5.0")
    tools = ensure(["etcd"], progress=print)
    assert (tools.path("etcd"), tools.origin("etcd"), tools.version("etcd")) == (on_path, "PATH", "3.5.0")
    own = program(machine / "own" / "etcd", "etcd Version: 3.6.1")
    monkeypatch.setenv("MESH_LAB_TOOLS", str(machine / "own"))
    tools = ensure(["etcd"], progress=print)
    assert (tools["etcd"], tools.origin("etcd"), tools.version("etcd")) == (own, "MESH_LAB_TOOLS", "3.6.1")


def test_an_etcd_too_old_for_the_apiserver_is_passed_over_and_named(machine: Path) -> None:
    old = program(machine / "path" / "etcd", "etcd Version: 3.4.23")
    built = in_cache("etcd")
    notes: Notes = []
    assert ensure(["etcd"], progress=notes.append).path("etcd") == built
    assert notes == [f"{old} is 3.4.23; at least 3.5 is needed, so it is not used"]


def test_a_program_without_a_version_is_skipped(machine: Path) -> None:
    program(machine / "path" / "etcd", "Segmentation fault")
    notes: Notes = []
    assert find("etcd", notes.append) is None
    assert "unknown version" in notes[0]


def test_a_file_that_cannot_be_executed_is_no_program(machine: Path) -> None:
    program(machine / "path" / "lab-agent").chmod(0o644)
    assert find("lab-agent", print) is None


def test_a_tools_folder_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MESH_LAB_TOOLS", "/nowhere/at/all")
    with pytest.raises(ToolUnavailable, match="MESH_LAB_TOOLS is '/nowhere/at/all', which is not a folder"):
        ensure(["etcd"], progress=print)


def test_cached_programs_are_used_on_a_machine_without_go(machine: Path) -> None:
    paths = {name: in_cache(name) for name in ("etcd", "lab-agent")}
    assert golang.go_at_hand() is None
    assert dict(ensure(paths, progress=print)) == paths


def test_a_program_that_the_lab_does_not_know_is_refused() -> None:
    with pytest.raises(ToolUnavailable, match="no program 'etcdd'; it knows etcd, "):
        ensure(["etcdd"], progress=print)


def test_kcp_is_looked_up_and_never_built(machine: Path) -> None:
    with pytest.raises(ToolUnavailable, match="No kcp on PATH or in the folder that MESH_LAB_TOOLS names"):
        ensure(["kcp"], progress=print)
    kcp = program(machine / "path" / "kcp")
    assert ensure(["kcp"], progress=print).path("kcp") == kcp


def with_build_information(path: Path, line: bytes) -> Path:
    program(path)
    path.write_bytes(b"\x7fELF" + b"\0" * 5000 + b"path\tx\n" + line + b"\th1:abc=\n" + b"\0" * 100)
    return path


@pytest.mark.parametrize("kind", [b"mod", b"dep"])
def test_ciliums_version_is_read_from_the_build_information(machine: Path, kind: bytes) -> None:
    path = with_build_information(machine / "path" / "clustermesh-apiserver", kind + b"\tgithub.com/cilium/cilium\tv1.16.3")
    assert cilium_version(path) == "1.16.3"
    assert ensure(["clustermesh-apiserver"], progress=print).version("clustermesh-apiserver") == "1.16.3"


@pytest.mark.parametrize("content", [b"", b"mod\tgithub.com/cilium/cilium\t(devel)\t\n"])
def test_a_program_without_a_released_version_in_it_has_none(machine: Path, content: bytes) -> None:
    path = machine / "x"
    path.write_bytes(content)
    assert cilium_version(path) == ""


def test_another_clustermesh_apiserver_is_found_by_its_file_name(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(machine / "own" / "clustermesh-apiserver-1.20.1")
    newest = program(machine / "own" / "clustermesh-apiserver-1.20.2")
    monkeypatch.setenv("MESH_LAB_TOOLS", str(machine / "own"))
    found = clustermesh_binary("1.20", progress=print)
    assert (found.path, found.origin, found.version) == (newest, "MESH_LAB_TOOLS", "1.20.2")


def test_another_clustermesh_apiserver_is_found_by_what_is_in_it(machine: Path) -> None:
    path = with_build_information(machine / "path" / "clustermesh-apiserver", b"mod\tgithub.com/cilium/cilium\tv1.17.4")
    assert clustermesh_binary("1.17", progress=print).path == path
    notes: Notes = []
    with pytest.raises(ToolUnavailable, match=r"No clustermesh-apiserver of Cilium 1\.20: put one named clustermesh-apiserver-1\.20 into"):
        clustermesh_binary("1.20", progress=notes.append)
    assert notes == [f"{path} is 1.17.4, not 1.20"]


@pytest.mark.parametrize(("asked", "name", "version"), [("1.15", "clustermesh-apiserver", CILIUM), ("1.19", MESH_OF_AGENTS, CILIUM_AGENT)])
def test_the_labs_own_clustermesh_apiservers_serve_their_versions(asked: str, name: str, version: str) -> None:
    built = in_cache(name)
    found = clustermesh_binary(asked, progress=print)
    assert (found.path, found.version) == (built, version)


def elf(path: Path, *, loader: str = "", machine: int = 0x3E) -> Path:
    """A program of 64 bits as far as its header goes, with the version of Cilium that Go would write into it."""
    interpreter = struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(loader) + 1, len(loader) + 1, 1) if loader else b""
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, len(interpreter) // 56, 0, 0, 0)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((head + interpreter).ljust(120, b"\0") + loader.encode() + b"\0mod\tgithub.com/cilium/cilium\tv1.20.2\th1:x\n")
    path.chmod(0o755)
    return path


LOADER = "/lib64/ld-linux-x86-64.so.2"


def test_a_dynamic_program_and_one_for_another_machine_cannot_run_in_a_pod(tmp_path: Path) -> None:
    assert why_not_in_a_pod(elf(tmp_path / "static"), "x86_64") == ""
    assert f"is linked dynamically and needs {LOADER}" in why_not_in_a_pod(elf(tmp_path / "dynamic", loader=LOADER), "x86_64")
    assert why_not_in_a_pod(elf(tmp_path / "arm", machine=0xB7), "x86_64") == "is a program for aarch64, and this machine is x86_64"
    assert "linked dynamically" in why_not_in_a_pod(Path(sys.executable).resolve()), "this Python needs a loader"
    for text in (b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 300):
        (tmp_path / "odd").write_bytes(text)
        assert why_not_in_a_pod(tmp_path / "odd", "x86_64") == ""
    assert why_not_in_a_pod(tmp_path / "absent") == ""


@pytest.mark.parametrize("name", ["clustermesh-apiserver", "clustermesh-apiserver-1.20.2"])
def test_a_program_that_cannot_run_in_a_pod_is_refused_where_it_was_meant_and_else_passed_over(
    machine: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    on_path = elf(machine / "path" / name, loader=LOADER)
    notes: Notes = []
    with pytest.raises(ToolUnavailable, match=r"1\.20\.2"):
        clustermesh_binary("1.20.2", progress=notes.append)
    assert f"{on_path} is linked dynamically" in notes[0] and notes[0].endswith("so it is not used")

    own = elf(machine / "own" / name, loader=LOADER)
    monkeypatch.setenv("MESH_LAB_TOOLS", str(machine / "own"))
    with pytest.raises(ToolUnavailable, match=f"{own} is linked dynamically.*CGO_ENABLED=0"):
        clustermesh_binary("1.20.2", progress=print)
    elf(machine / "own" / name)
    assert clustermesh_binary("1.20.2", progress=print).path == own
