# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Bad input against real clusters: a clear finding or error, a non-zero exit status, and nothing written anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration import credentials
from tests.integration.labs import THREE_119
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.lab.api import change_object
from tests.testing.playbooks import PlaybookRun

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


pytestmark = pytest.mark.lab(THREE_119, use=2)


@pytest.fixture(scope="module")
def lab(module_lab: MeshLab) -> MeshLab:
    """One loan for all: every test holds that nothing is written, and puts back what it changed."""
    return module_lab


def refused(lab: MeshLab, *, codes: tuple[str, ...] = (), says: tuple[str, ...] = (), **how: Any) -> PlaybookRun:
    """Run connect and hold that it refuses, says why, and writes nothing."""
    before = lab.snapshot(volatile=True)
    run = lab.play("connect", **how)
    assert run.rc != 0, run.output
    assert "Traceback" not in run.output
    for code in codes:
        assert code in run.finding_codes(), run.output
    for text in says:
        assert text in run.output, run.output
    assert lab.snapshot(volatile=True) == before, "something was written"
    return run


def test_an_unreachable_cluster_is_named(lab: MeshLab, tmp_path: Path) -> None:
    refused(lab, codes=("CM-API-01",), says=("c2",), hosts=credentials.unreachable(lab, "c2", tmp_path / "kubeconfig"), own_process=True)


def test_wrong_credentials_are_distinguished_from_an_unreachable_cluster(lab: MeshLab, tmp_path: Path) -> None:
    hosts = credentials.token(lab, "c1", tmp_path / "kubeconfig", "not-a-token-of-this-cluster")
    run = refused(lab, codes=("CM-API-02",), says=("c1",), hosts=hosts, own_process=True)
    assert "not-a-token-of-this-cluster" not in run.output


def test_an_expired_client_certificate_is_called_expired(lab: MeshLab, tmp_path: Path) -> None:
    refused(lab, codes=("CM-API-02",), says=("expired",), hosts=credentials.expired(lab, "c1", tmp_path / "kubeconfig"))


def test_missing_rights_name_the_verb_and_the_resource(lab: MeshLab, tmp_path: Path) -> None:
    run = refused(lab, codes=("CM-API-03",), hosts=credentials.without_rights(lab, "c1", tmp_path / "kubeconfig"))
    found = str([finding for finding in run.result["findings"] if finding["code"] == "CM-API-03"])
    assert re.search(r"RBAC forbids to (get|list) \w+", found), found


def test_a_kubeconfig_without_credentials_is_said_to_have_none(lab: MeshLab, tmp_path: Path) -> None:
    hosts = credentials.no_credentials(lab, "c1", tmp_path / "kubeconfig")
    run = refused(lab, codes=("CM-API-02",), says=("has no credentials",), hosts=hosts)
    assert "CM-API-03" not in run.finding_codes(), "rights would go to all anonymous requests"


def test_who_a_kubeconfig_impersonates_does_what_is_done(lab: MeshLab, tmp_path: Path) -> None:
    may_all = credentials.impersonated(lab, "c1", tmp_path, {"as": "tests", "as-groups": ["system:masters"]})
    assert lab.play("connect", hosts=may_all, arguments=["--check"]).rc == 0
    may_nothing = credentials.impersonated(lab, "c1", tmp_path, {"as": "tests"})
    refused(lab, codes=("CM-API-03",), says=("RBAC forbids",), hosts=may_nothing)


def test_a_kubeconfig_that_does_not_parse_is_named_and_not_quoted(lab: MeshLab, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("clusters: [canary-in-kubeconfig\n", encoding="utf-8")
    run = refused(lab, codes=("CM-API-02",), says=(str(broken),), hosts={"c1": {"cilium_mesh_kubeconfig": str(broken)}})
    assert "canary-in-kubeconfig" not in run.output


def test_a_host_without_kubeconfig_is_named(lab: MeshLab) -> None:
    refused(lab, says=("c1", "cilium_mesh_kubeconfig"), hosts={"c1": {"cilium_mesh_kubeconfig": ""}})


def test_two_hosts_that_are_the_same_cluster_are_named(lab: MeshLab) -> None:
    hosts = {"c2": {"cilium_mesh_kubeconfig": str(lab.lab.clusters["c1"].kubeconfig)}}
    refused(lab, codes=("CM-MESH-01",), says=("c1", "c2"), hosts=hosts)


@pytest.mark.parametrize(
    ("mesh", "says"),
    [
        ({"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}]}}, "at least two"),
        ({"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}, {"name": "c9"}]}}, "c9"),
        ({"binding": {"name": "edge-mesh-eu", "clusterrefs": [{"name": "c1"}, {"name": "c2"}]}}, "clusterRefs"),
        ({"bindings": {}}, "bindings"),
    ],
    ids=["one-cluster", "unknown-cluster", "unknown-key", "unknown-top-key"],
)
def test_a_mesh_that_cannot_be_meant_is_refused(lab: MeshLab, mesh: Mapping[str, Any], says: str) -> None:
    refused(lab, says=(says,), mesh=mesh)


def changed_object(lab: MeshLab, path: str, change: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
    """Change an object of c2; returns what puts it back."""
    api = lab.api("c2")

    def apply(item: dict[str, Any]) -> dict[str, Any]:
        change(item)
        return item

    original = change_object(api, path, apply)

    def restore() -> None:
        change_object(api, path, lambda current: {**current, **{key: original[key] for key in ("data", "spec") if key in original}})

    return restore


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("cluster-id", "0", "CM-ID-"),
        ("cluster-id", "1", "CM-ID-"),
        ("cluster-id", "300", "CM-ID-"),
        ("cluster-name", "default", "CM-ID-"),
        ("cluster-name", "c1", "CM-ID-"),
        ("identity-allocation-mode", "consul", "CM-ID-"),
        ("max-connected-clusters", "511", "CM-ID-"),
    ],
)
def test_a_wrong_identity_blocks_with_the_helm_value_to_change(lab: MeshLab, key: str, value: str, code: str) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/cilium-config"
    restore = changed_object(lab, path, lambda item: item["data"].update({key: value}))
    try:
        run = refused(lab, says=("c2",))
    finally:
        restore()
    found = [f for f in run.result["findings"] if f["code"].startswith(code) and f["severity"] == "blocking"]
    assert found and all(f["fix"] and f["evidence"] for f in found)


def test_half_made_certificates_block(lab: MeshLab) -> None:
    path = f"{SECRETS}/clustermesh-apiserver-server-cert"
    restore = changed_object(lab, path, lambda item: item["data"].update({"tls.crt": ""}))
    try:
        run = refused(lab, says=("clustermesh-apiserver-server-cert",))
        assert any(code.startswith("CM-CERT-") for code in run.finding_codes())
    finally:
        restore()
