# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The stack for trying the operator by hand: it comes up, carries out the samples of its tenant, and goes without a trace."""

from __future__ import annotations

import base64
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.collection_path import CHECKOUT
from tests.testing.kcp_client import Client, path_of
from tests.testing.waiting import equals, wait_for

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("other-operator")]


def stack(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.stack", *arguments, "--folder", str(folder)]
    return subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True)


def processes(folder: Path) -> list[str]:
    """Command lines with the folder in them."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if str(folder) in line]


def carried_out(folder: Path, sample: str, phase: str) -> None:
    """Apply a sample as the tenant of the stack, and wait until it has the phase, "" for none."""
    config = yaml.safe_load((folder / "tenant.yaml").read_text(encoding="utf-8"))
    cluster, namespace = config["clusters"][0]["cluster"], config["contexts"][0]["context"]["namespace"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tenant = Client(cluster["server"], ca, config["users"][0]["user"]["token"])
    document = yaml.safe_load((CHECKOUT / "samples" / f"{sample}.yaml").read_text(encoding="utf-8"))
    document["metadata"]["namespace"] = namespace
    if tenant.get(path_of(document)) is None:
        tenant.create(document)
    else:  # a cluster that the tenant has from the beginning
        tenant.merge(path_of(document), {"spec": document["spec"]})

    def found() -> str:
        return str(((tenant.get(path_of(document)) or {}).get("status") or {}).get("phase", ""))

    if phase:
        wait_for(found, equals(phase), what=f"the sample {sample} is {phase}")


@pytest.mark.parametrize("source", ["kcp", "kubernetes"])
def test_a_stack_comes_up_carries_out_a_sample_and_goes_without_a_trace(source: str, servers: None, tmp_path: Path) -> None:
    folder, other = tmp_path / "stack", tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine", encoding="utf-8")
    refused = stack(other, "up", source)
    assert refused.returncode == 1 and "something else" in refused.stderr and (other / "thesis.txt").exists()
    begun = stack(folder, "up", source)
    try:
        assert begun.returncode == 0, begun.stdout + begun.stderr
        assert "tenant.yaml" in begun.stdout and "make stack-down" in begun.stdout
        again = stack(folder, "up", source)
        assert again.returncode == 1 and "up already" in again.stdout
        assert (folder / "tenant.yaml").stat().st_mode & 0o077 == 0
        carried_out(folder, "mesh-binding", "Connected")
    finally:
        ended = stack(folder, "down")
    assert ended.returncode == 0 and not folder.exists(), ended.stdout + ended.stderr
    assert processes(folder) == []
    assert stack(folder, "down").stdout == "There is no stack.\n"


@pytest.mark.usefixtures("karmada_programs")
def test_a_stack_with_a_karmada_carries_out_the_samples_of_fleets(servers: None, tmp_path: Path) -> None:
    folder = tmp_path / "stack"
    begun = stack(folder, "up", "kcp", "--karmada")
    try:
        assert begun.returncode == 0 and "samples/fleet" in begun.stdout, begun.stdout + begun.stderr
        carried_out(folder, "fleet/kubernetes-cluster", "Ready")
        carried_out(folder, "fleet/fleet", "")
        carried_out(folder, "fleet/placement-policy", "")
        carried_out(folder, "fleet/fleet-workload", "Available")
    finally:
        ended = stack(folder, "down")
    assert ended.returncode == 0 and processes(folder) == []


def test_a_karmada_is_not_for_a_stack_of_namespaces(tmp_path: Path) -> None:
    refused = stack(tmp_path / "stack", "up", "kubernetes", "--karmada")
    assert refused.returncode == 2 and "--karmada is for the source kcp" in refused.stderr and not (tmp_path / "stack").exists()
