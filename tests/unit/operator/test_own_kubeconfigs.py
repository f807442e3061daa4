# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The platform's own kubeconfigs become whole, or are refused by a sentence that quotes nothing of them."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import CredentialsInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig import pod
from mesh_operator.credentials.own_kubeconfigs import whole_kubeconfig

FLAG = "--karmada-kubeconfig"


def written(folder: Path, cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> str:
    document = {
        "current-context": "b",
        "clusters": [{"name": "a", "cluster": {"server": "https://other"}}, {"name": "b", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "b", "context": {"cluster": "b", "user": "u"}}],
        **more,
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def parts(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return found["clusters"][0]["cluster"], found["users"][0]["user"]


def test_files_that_are_named_are_read_anew_each_time_beside_the_kubeconfig(tmp_path: Path) -> None:
    for name in ("ca.crt", "client.crt", "client.key", "token"):
        (tmp_path / name).write_text(f"{name} 1\n", encoding="utf-8")
    path = written(
        tmp_path,
        {"server": "https://karmada", "certificate-authority": "ca.crt"},
        {"client-certificate": "client.crt", "client-key": str(tmp_path / "client.key"), "tokenFile": "token"},
    )
    cluster, user = parts(whole_kubeconfig(path, FLAG))
    assert cluster == {"server": "https://karmada", "certificate-authority-data": base64.b64encode(b"ca.crt 1\n").decode()}
    assert user.keys() == {"client-certificate-data", "client-key-data", "token"} and user["token"] == "token 1"
    (tmp_path / "token").write_text("token 2", encoding="utf-8")
    assert parts(whole_kubeconfig(path, FLAG))[1]["token"] == "token 2"


@pytest.mark.parametrize("skips", [False, True])
def test_whether_certificates_are_verified_is_what_the_kubeconfig_says(tmp_path: Path, skips: bool) -> None:
    path = written(tmp_path, {"server": "https://karmada", "insecure-skip-tls-verify": skips}, {"token": "t"})
    assert parts(whole_kubeconfig(path, FLAG))[0].get("insecure-skip-tls-verify", False) is skips


@pytest.mark.parametrize("key", ["exec", "auth-provider"])
def test_a_user_that_runs_a_program_is_refused_by_name(tmp_path: Path, key: str) -> None:
    path = written(tmp_path, {"server": "https://karmada"}, {key: {"command": "s3cret"}})
    with pytest.raises(CredentialsInvalid, match=f"The kubeconfig of {FLAG} cannot be used: it has a user with {key}") as refused:
        whole_kubeconfig(path, FLAG)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("s3cret: [", "kubeconfig cannot be used: it is not YAML, line 2"),
        ("[s3cret]", "kubeconfig cannot be used: it is no mapping"),
        ("", f"The kubeconfig of {FLAG} cannot be used: it has no current-context"),
        ('{"current-context": "s3cret"}', "it lacks the context that its current-context names"),
        ('{"current-context": "x", "contexts": [{"name": "x"}]}', 'context "x" names no cluster'),
    ],
)
def test_what_is_no_kubeconfig_is_refused_without_a_word_of_it(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CredentialsInvalid, match=re.escape(says)) as refused:
        whole_kubeconfig(str(path), FLAG)
    assert "s3cret" not in str(refused.value) and refused.value.__cause__ is None


def test_a_file_that_is_missing_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(CredentialsInvalid, match=f"{FLAG}: Kubeconfig .*none does not exist"):
        whole_kubeconfig(str(tmp_path / "none"), FLAG)
    with pytest.raises(CredentialsInvalid, match="cannot be read"):
        whole_kubeconfig(written(tmp_path, {"server": "https://k", "certificate-authority": "none"}, {"token": "t"}), FLAG)


def test_without_a_file_it_is_the_service_account_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod, "FOLDER", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    with pytest.raises(CredentialsInvalid, match="a file that cannot be read as certificate-authority"):
        whole_kubeconfig("", FLAG)
    (tmp_path / "token").write_text("t0ken\n", encoding="utf-8")
    (tmp_path / "ca.crt").write_text("ca", encoding="utf-8")
    cluster, user = parts(whole_kubeconfig("", FLAG))
    assert (cluster["server"], user) == ("https://[fd00::1]:6443", {"token": "t0ken"})
