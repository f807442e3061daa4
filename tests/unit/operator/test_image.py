# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The operator's image has no program but Python, and the operator works with that; who builds it can renew the digests of its bases."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from mesh_operator.runs.confined import landlock
from tests.collection_path import CHECKOUT, link

IMAGE = CHECKOUT / "operator" / "deploy" / "image"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"

WITHOUT_PROGRAMS = """
import ctypes, json, os, sys
from glob import glob
from threading import Event
from mesh_operator.runs.confined import landlock

# Landlock takes the right to start programs away, and no other; the loader of libraries is one, too.
rules = landlock._Attributes(fs=landlock._EXECUTE)
ruleset = landlock._call(landlock._CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(8), ctypes.c_uint32(0))
for place in (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), *glob("/lib*/ld-*"), *glob("/lib/*/ld-*")):
    landlock._allow(ruleset, place, landlock._EXECUTE)
landlock.set_no_new_privileges()
landlock._call(landlock._RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
tried = []
for program in ("/bin/sh", "/usr/bin/env"):
    try:
        os.posix_spawn(program, [program], {})
    except OSError as error:
        tried.append(type(error).__name__)

from mesh_operator.runs.confined.process import ConfinedProcesses
from mesh_operator.runs.dry_runs import HANDLER
from mesh_operator.runs.runner import HANDLER as PLAYBOOKS, Runner, RunRequest, settings_of_runs

processes = ConfinedProcesses(HANDLER, PLAYBOOKS, settings_of_runs)
try:
    user = {"name": "x", "user": {"token": "t"}}
    cluster = {"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    kubeconfig = {"kind": "Config", "clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"}
    hosts = {name: {"cilium_mesh_kubeconfig": kubeconfig} for name in ("c1", "c2")}
    binding = {"name": "edge", "clusterRefs": [{"name": name} for name in hosts]}
    request = RunRequest(playbook="mesh", hosts=hosts, variables={"cilium_mesh": {"binding": binding}}, name="x")
    result = Runner(processes).run(request, Event())
finally:
    processes.close()
codes = sorted({finding["code"] for finding in (result.mesh_result or {}).get("findings", ())})
print(json.dumps([tried, result.rc, result.error, codes]))
"""


@pytest.fixture(scope="module")
def strip() -> ModuleType:
    spec = importlib.util.spec_from_file_location("strip_of_image", IMAGE / "strip.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_run_of_the_operator_needs_no_program_but_python() -> None:
    """In a process that can start no other, as if there was none: neither a shell nor what ansible-core starts modules with."""
    try:
        landlock.version()
    except landlock.LandlockUnavailable as error:
        pytest.skip(f"{error}, so no program can be taken away here")
    path = os.pathsep.join((str(CHECKOUT / "operator"), str(link())))
    command = [sys.executable, "-c", WITHOUT_PROGRAMS]
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == '[["PermissionError", "PermissionError"], 2, "", ["CM-API-01"]]', ran.stdout + ran.stderr


def test_programs_of_the_system_go_and_those_of_python_and_of_packages_stay(strip: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")  # as in Debian and Fedora
    for name in ("sh", "apt-get", "perl", "pip3"):
        (tmp_path / "usr/bin" / name).touch()
    (tmp_path / "usr/bin/env").symlink_to("sh")
    for name in ("python3", "python"):
        (tmp_path / "usr/bin" / name).symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "usr/local").mkdir()
    (tmp_path / "usr/local/bin").symlink_to(sysconfig.get_path("scripts"))
    gone = strip.unneeded(tmp_path)
    system = {path.name for path in gone if path.is_relative_to(tmp_path)}
    assert system == {"sh", "apt-get", "perl", "pip3", "env"}
    packages = {path.name for path in gone} - system
    assert packages.isdisjoint({"python", "python3", "dumb-init", "ansible-playbook", "ansible-inventory"})
    assert "pip" in packages


def test_nothing_is_removed_without_the_name_of_the_root(strip: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert strip.main([]) == strip.main(["/"]) == 2
    assert "--root" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "status"), [(DIGEST, 0), ("sha256:0", 1), ("", 1)])
def test_the_digests_of_the_bases_are_written_as_their_registries_have_them(tmp_path: Path, answer: str, status: int) -> None:
    shutil.copytree(IMAGE, tmp_path / "image")
    (tmp_path / "bin").mkdir()
    skopeo = tmp_path / "bin" / "skopeo"
    skopeo.write_text(f'#!/bin/sh\necho "$*" >>"{tmp_path}/asked"\necho "{answer}"\n', encoding="utf-8")
    skopeo.chmod(0o755)
    environment = {**os.environ, "PATH": f"{skopeo.parent}{os.pathsep}{os.environ['PATH']}"}
    for _ in range(2):  # a second time it takes the place of the first digest
        ran = subprocess.run([str(tmp_path / "image/digests")], env=environment, check=False, capture_output=True, text=True)
        assert ran.returncode == status, ran.stderr
    for name in ("Containerfile", "execution-environment.yml"):
        text, before = ((folder / name).read_text(encoding="utf-8") for folder in (tmp_path / "image", IMAGE))
        assert text.count(f"@{DIGEST}") == (1 - status) and (text == before) == bool(status)
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert all("@" not in line and line.startswith("inspect --format {{.Digest}} docker://") for line in asked)
