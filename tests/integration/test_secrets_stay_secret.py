# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""No key material and no token in anything that a run shows, keeps or leaves, at the highest verbosity."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration import credentials
from tests.integration.labs import THREE_119
from tests.integration.mesh_lab import MeshLab

SECRETS = (
    *("cilium-ca", "cilium-clustermesh", "cilium-kvstoremesh", "clustermesh-apiserver-server-cert", "clustermesh-apiserver-admin-cert"),
    *("clustermesh-apiserver-remote-cert", "clustermesh-apiserver-local-cert"),
)


def key_bodies(lab: MeshLab) -> Iterator[str]:
    """A line out of the middle of every private key of every cluster, as PEM and as base64 of the PEM."""
    for cluster in lab.names:
        kubeconfig = yaml.safe_load(lab.lab.clusters[cluster].kubeconfig.read_text())
        documents = [base64.b64decode(kubeconfig["users"][0]["user"]["client-key-data"])]
        for name in SECRETS:
            documents += [value for key, value in lab.secret(cluster, name).items() if key.endswith((".key", "key"))]
        for document in documents:
            lines = document.decode().split("\n")
            assert "PRIVATE KEY" in lines[0]
            yield lines[1][:48]
            yield base64.b64encode(document).decode()[40:100]


def leaks(texts: Iterable[str], canaries: Iterable[str]) -> list[str]:
    wanted = list(canaries)
    return [canary for text in texts for canary in wanted if canary in text]


def text_of(path: Path) -> str:
    """Content of a file; "" of what is none, or is gone by now."""
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""


@pytest.mark.lab(THREE_119, use=2)
def test_no_key_shows_at_the_highest_verbosity(lab: MeshLab) -> None:
    scratch = Path("/dev/shm") if os.path.isdir("/dev/shm") else Path("/tmp")
    runs = [
        lab.play("verify", verbosity=4),
        lab.play("connect", verbosity=4, arguments=["--check", "--diff"]),
        lab.play("connect", verbosity=4, arguments=["--diff"]),
        lab.play("status", verbosity=4),
    ]
    canaries = list(key_bodies(lab))
    assert len(canaries) > 20
    runs.append(lab.play("disconnect", verbosity=4, arguments=["--diff"]))
    for run in runs:
        assert run.rc == 0, run.output
        assert leaks([run.output, *run.events], canaries) == []
        assert not re.search(r"BEGIN [A-Z ]*PRIVATE KEY", run.output)
    # Other tests run beside this one and have files there too; none of anybody may hold a key of this lab.
    assert [path for path in scratch.rglob("*") if leaks([text_of(path)], canaries)] == [], "credentials were left in memory-backed files"


@pytest.mark.lab(THREE_119, use=2)
def test_a_failing_run_shows_no_token(lab: MeshLab, tmp_path: Path) -> None:
    hosts = credentials.token(lab, "c1", tmp_path / "kubeconfig", "canary-token-5f2b")
    run = lab.play("connect", verbosity=4, hosts=hosts)
    assert run.rc != 0
    assert leaks([run.output, *run.events], ["canary-token-5f2b"]) == []
