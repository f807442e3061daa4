# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lab itself: what it promises to those who use it by hand."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.collection_path import CHECKOUT
from tests.integration.labs import AGENTS, CERTGEN
from tests.integration.mesh_lab import MeshLab
from tests.lab.patience import scaled
from tests.lab.tools import crds_for_profile
from tests.lab.tools.cache import cache_root
from tests.testing.waiting import wait_for

ORDINARY = 65534


def processes_that_name(text: str) -> list[int]:
    """Every process that has a text in its command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line:
                found.append(int(entry.name))
    return found


def wait_gone(text: str) -> None:
    """Wait until no process has a text in its command line."""
    wait_for(lambda: processes_that_name(text), lambda left: not left, what="its processes have ended")


def test_of_two_labs_side_by_side_a_killed_one_leaves_neither_processes_nor_files(start_lab: Callable[..., MeshLab]) -> None:
    lab, other = start_lab(clusters=1), start_lab(clusters=1, names=("other",))
    network = lab.lab.status()["network"].removesuffix(".0.0/16")
    assert lab.lab.status()["network"] != other.lab.status()["network"]
    path = "/api/v1/namespaces/kube-system"
    assert (lab.api("c1").get(path) or {})["metadata"]["uid"] != (other.api("other").get(path) or {})["metadata"]["uid"]
    assert len(processes_that_name(network + ".")) >= 5
    folder = lab.lab.folder
    supervisors = [pid for pid in processes_that_name(str(folder)) if b"supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert supervisors
    for pid in supervisors:
        os.kill(pid, signal.SIGKILL)
    wait_gone(network + ".")
    assert str(folder) not in Path("/proc/mounts").read_text(encoding="utf-8")
    lab.lab.close()
    assert not folder.exists()
    assert other.api("other").get(path) is not None, "the other one lives"


@pytest.mark.lab(AGENTS)
def test_a_frozen_link_is_noticed_by_the_agents_and_heals(lab: MeshLab) -> None:
    assert lab.play("connect").rc == 0
    lab.lab.freeze("c1", "c2", one_way=True)
    frozen = lab.play("status", cilium_mesh_expected="any")
    rows = {(row["cluster"], row["peer"]): row["ready"] for row in frozen.result["status"]["binding"]["links"]}
    assert rows == {("c1", "c2"): False, ("c2", "c1"): True}
    lab.lab.heal("c1", "c2")
    assert lab.play("status").result["status"]["binding"]["phase"] == "Connected"


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def defined(crd: dict[str, Any] | None) -> dict[str, Any]:
    """A CRD without what is another one each time it is created."""
    assert crd is not None
    metadata = {key: value for key, value in crd["metadata"].items() if key in ("name", "annotations", "labels", "generation")}
    status = {**crd["status"], "conditions": [{**row, "lastTransitionTime": ""} for row in crd["status"]["conditions"]]}
    return {
        "metadata": metadata,
        "spec": crd["spec"],
        "status": {key: value for key, value in status.items() if key != "observedGeneration"},
    }


@pytest.mark.lab(AGENTS)
def test_definitions_that_are_stored_before_the_server_starts_are_those_that_it_makes(lab: MeshLab) -> None:
    api, given = lab.api("c1"), {crd["metadata"]["name"]: crd for crd in crds_for_profile("1.18")}
    stored = {crd["metadata"]["name"]: crd for crd in api.list(CRDS)}
    assert stored.keys() == given.keys()
    assert [name for name, crd in stored.items() if "managedFields" in crd["metadata"]] == [], "the server had to write some of them"
    for name in ("ciliumnetworkpolicies.cilium.io", "ciliumbgppeerconfigs.cilium.io"):  # with many fields, and of a cluster
        api.delete(f"{CRDS}/{name}")
        wait_for(partial(api.get, f"{CRDS}/{name}"), lambda found: found is None, what=f"{name} is gone")
        api.create(given[name])
        made = wait_for(partial(api.get, f"{CRDS}/{name}"), is_established, what=f"{name} is established")
        assert defined(stored[name]) == defined(made)


def is_established(crd: dict[str, Any] | None) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or ()
    return any((row["type"], row["status"]) == ("Established", "True") for row in conditions)


def ordinary_python(environment: dict[str, str]) -> str:
    """A Python with our packages that an ordinary user may execute. Root's own often lies in a home folder that is closed to others."""
    packages = sysconfig.get_path("purelib")
    probe = ["-c", "import cryptography, urllib3, yaml"]
    for program in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        candidate = {**environment, "PYTHONPATH": packages}
        try:
            subprocess.run(
                [program, *probe], user=ORDINARY, group=ORDINARY, extra_groups=[], env=candidate, check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        environment["PYTHONPATH"] = packages
        return program
    pytest.skip(f"neither {sys.executable} nor the system's Python with {packages} can be used by an ordinary user")


@pytest.fixture
def by_hand(servers: None, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """The command line as an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become an ordinary user; the other tests of this folder ran as one")
    home = Path("/tmp") / f"mesh-lab-test-{os.getpid()}"
    home.mkdir(mode=0o755)
    os.chown(home, ORDINARY, ORDINARY)
    cache = home / "cache" / "cilium-mesh-lab"
    shutil.copytree(cache_root(), cache, copy_function=link_or_copy, ignore=shutil.ignore_patterns("*.lock"))
    for folder in (home / "cache", cache, *(path for path in cache.rglob("*") if path.is_dir())):
        os.chown(folder, ORDINARY, ORDINARY)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    if tools := os.environ.get("MESH_LAB_TOOLS"):
        environment["MESH_LAB_TOOLS"] = tools
    program = ordinary_python(environment)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "-B", "-m", "tests.lab", *arguments],
            cwd=CHECKOUT,
            user=ORDINARY,
            group=ORDINARY,
            extra_groups=[],
            env=environment,
            capture_output=True,
            text=True,
            timeout=scaled(180),
            check=False,
        )

    yield call
    call("down")
    shutil.rmtree(home)


def link_or_copy(source: str, target: str) -> None:
    """The servers are some 500 MB: a second name for a file costs nothing where the file system has such."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    if not os.stat(target).st_mode & stat.S_IROTH:
        os.unlink(target)
        shutil.copy2(source, target)
        os.chmod(target, 0o644)


def test_an_ordinary_user_can_start_and_end_a_lab(by_hand: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    up = by_hand("up", "--clusters", "1", "--cilium", "1.20")
    if up.returncode != 0 and "user namespaces" in up.stderr:
        pytest.skip(f"an ordinary user cannot run a lab here: {up.stderr.strip().splitlines()[-1]}")
    assert up.returncode == 0, up.stdout + up.stderr
    status = json.loads(by_hand("status", "--json").stdout)
    assert [cluster["name"] for cluster in status["clusters"]] == ["c1"]
    assert by_hand("down").returncode == 0
    wait_gone(status["network"].removesuffix(".0.0/16") + ".")


@pytest.mark.lab(CERTGEN)
def test_a_job_of_certgen_issues_the_leaves_anew_and_completes(lab: MeshLab) -> None:
    api, jobs = lab.api("c1"), "/apis/batch/v1/namespaces/kube-system/jobs"
    leaves = ("server", "admin", "remote", "local")
    before = {name: lab.secret("c1", f"clustermesh-apiserver-{name}-cert")["tls.crt"] for name in leaves}
    cron = api.get("/apis/batch/v1/namespaces/kube-system/cronjobs/clustermesh-apiserver-generate-certs")
    assert cron is not None
    metadata = {"name": "again", "namespace": "kube-system"}
    api.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": cron["spec"]["jobTemplate"]["spec"]})
    wait_for(lambda: api.get(f"{jobs}/again") or {}, lambda job: job.get("status", {}).get("succeeded"), what="the Job has succeeded")
    ca = x509.load_pem_x509_certificate(lab.secret("c1", "cilium-ca")["ca.crt"])
    for name in leaves:
        secret = lab.secret("c1", f"clustermesh-apiserver-{name}-cert")
        leaf = x509.load_pem_x509_certificate(secret["tls.crt"])
        leaf.verify_directly_issued_by(ca)
        assert secret["tls.crt"] != before[name]
        assert leaf.subject == x509.load_pem_x509_certificate(before[name]).subject
