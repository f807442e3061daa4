# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a pod finds on disk and in its environment."""

from __future__ import annotations

import base64
import json
import marshal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.podfiles import PodFiles, PodWorld, environment, host_aliases
from tests.lab.volumes import VolumeNotReadyError

PEER = b"endpoints:\n- https://c2.mesh.cilium.io:2379\ncilium-host-aliases:\n- hostname: c2.mesh.cilium.io\n  ips:\n  - 127.20.2.2\n"
CONTAINER = {"name": "kvstoremesh", "volumeMounts": [{"name": "peers", "mountPath": "/var/lib/cilium/clustermesh/", "readOnly": True}]}
POD: dict[str, Any] = {
    "metadata": {"namespace": "kube-system", "name": "p", "uid": "u", "labels": {"k8s-app": "clustermesh-apiserver"}},
    "spec": {
        "containers": [CONTAINER],
        "hostAliases": [{"ip": "127.20.3.2", "hostnames": ["c3.mesh.cilium.io"]}],
        "volumes": [{"name": "peers", "secret": {"secretName": "cilium-kvstoremesh"}}],
    },
}


def world(folder: Path, profile: str = "1.20", binary: str = "1.15.19") -> PodWorld:
    (folder / "listing").mkdir()
    return PodWorld("c1", profile, binary, {"clustermesh-apiserver": {}}, folder / "k", "127.20.1.4", folder / "pods", folder / "listing")


def secrets(kind: str, name: str) -> dict[str, Any] | None:
    return {"data": {"c2": base64.b64encode(PEER).decode()}} if (kind, name) == ("Secret", "cilium-kvstoremesh") else None


def test_names_come_from_the_pod_and_the_cluster(tmp_path: Path) -> None:
    files = PodFiles(world(tmp_path, "1.19"), POD, secrets)
    assert files.project()
    hosts = (files.folder / "etc" / "hosts").read_text().splitlines()
    assert hosts == ["127.0.0.1 localhost", "127.20.1.4 clustermesh-apiserver.kube-system.svc", "127.20.3.2 c3.mesh.cilium.io"]
    assert files.played == {}
    assert not files.project()


def test_a_pod_of_a_user_finds_services_by_their_names_and_a_new_one_at_once(tmp_path: Path) -> None:
    lines = ["10.96.0.9 web"]
    own = {**POD, "metadata": {**POD["metadata"], "namespace": "shop", "labels": {}}}
    files = PodFiles(replace(world(tmp_path, "1.19"), names=lambda namespace: [f"{line}.{namespace}" for line in lines]), own, secrets)
    for _ in range(2):
        files.project()
        assert (files.folder / "etc" / "hosts").read_text().splitlines()[3:] == [f"{line}.shop" for line in lines]
        lines.append("10.96.0.10 shop")


@pytest.mark.parametrize(
    ("profile", "binary", "played"), [("1.20", "1.15.19", True), ("1.20", "1.20.2", False), ("1.19", "1.15.19", False)]
)
def test_cilium_host_aliases_are_played_only_for_a_binary_older_than_its_chart(
    tmp_path: Path, profile: str, binary: str, played: bool
) -> None:
    files = PodFiles(world(tmp_path, profile, binary), POD, secrets)
    files.project()
    assert ("127.20.2.2 c2.mesh.cilium.io" in (files.folder / "etc" / "hosts").read_text()) is played
    assert bool(files.played.get("cilium-host-aliases")) is played


def test_a_missing_secret_is_reported_as_the_kubelet_reports_it(tmp_path: Path) -> None:
    files = PodFiles(world(tmp_path), POD, lambda kind, name: None)
    with pytest.raises(VolumeNotReadyError, match=r'MountVolume\.SetUp failed for volume "peers" : secret "cilium-kvstoremesh" not found'):
        files.project()


def test_the_launcher_and_the_kubelet_learn_how_to_enter_the_pod(tmp_path: Path) -> None:
    files = PodFiles(world(tmp_path), POD, secrets)
    files.project()
    files.write_spec(None, {"kvstoremesh": {"A": "b"}})
    spec = marshal.loads(files.spec.read_bytes())
    mounts = spec["containers"]["kvstoremesh"]["mounts"]
    assert mounts == [(str(files.folder / "volumes" / "peers"), "/var/lib/cilium/clustermesh", True)]
    assert files.spec.stat().st_mode & 0o077 == 0
    listing = tmp_path / "listing" / "kube-system_p.json"
    assert json.loads(listing.read_text())["containers"]["kvstoremesh"]["exec"][-3:] == [str(files.spec), "kvstoremesh", "--"]
    files.unlist()
    assert not listing.exists()


def test_a_pod_is_notified_of_changes_of_its_own_content_and_of_nothing_else(tmp_path: Path) -> None:
    reads = {**CONTAINER, "env": [{"name": "N", "valueFrom": {"configMapKeyRef": {"name": "cilium-config", "key": "cluster-name"}}}]}
    files = PodFiles(world(tmp_path), {**POD, "spec": {**POD["spec"], "containers": [reads]}}, secrets)
    assert files.concerns("Secret", "cilium-kvstoremesh")
    assert files.concerns("ConfigMap", "cilium-config")
    assert not files.concerns("ConfigMap", "cilium-kvstoremesh")


def test_broken_host_aliases_resolve_nothing() -> None:
    assert host_aliases(PEER) == [("127.20.2.2", "c2.mesh.cilium.io")]
    for broken in (
        b"cilium-host-aliases: 3",
        b"cilium-host-aliases:\n- ips: [1.2.3.4]",
        b"cilium-host-aliases: [",
        b"\xff cilium-host-aliases",
    ):
        assert host_aliases(broken) == []


def test_variables_come_from_config_maps_and_fields_and_from_one_another() -> None:
    container = {
        "env": [
            {"name": "NAME", "valueFrom": {"configMapKeyRef": {"name": "cilium-config", "key": "cluster-name"}}},
            {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "cilium-config", "key": "absent", "optional": True}}},
            {"name": "TOKEN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "BOTH", "value": "$(NAME)-$(TOKEN)-$(NONE)"},
        ]
    }
    found = environment(container, lambda kind, name: {"data": {"cluster-name": "c1"}}, {"metadata.uid": "u"}, {"PATH": "/usr/bin"})
    assert found == {"PATH": "/usr/bin", "NAME": "c1", "TOKEN": "u", "BOTH": "c1-u-$(NONE)"}
    needed = {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "cilium-config", "key": "absent"}}}]}
    with pytest.raises(KeyError, match="ConfigMap cilium-config has no key absent"):
        environment(needed, lambda kind, name: {"data": {}}, {}, {})
