# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Cilium's CRDs come out of its module once, are checked, and are kept; the wrapper modules are written from facts, not by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.lab.tools import ToolUnavailable, cache, cilium_crds, crds_for_profile, golang
from tests.lab.tools.catalogue import CILIUM, CILIUM_CRDS
from tests.lab.tools.crds import FOLDER, SUMS, merged, parse_folder, without_descriptions
from tests.lab.tools.refresh import hold_forks, module_text, staging_modules


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/path:/usr/bin:/bin")
    (tmp_path / "path").mkdir()
    return tmp_path


def crd(name: str, **more: str) -> dict[str, Any]:
    return {"kind": "CustomResourceDefinition", "metadata": {"name": name}, **more}


def store(version: str, objects: list[dict[str, Any]]) -> None:
    cache.cache_root().mkdir(parents=True, exist_ok=True)
    (cache.cache_root() / f"crds-cilium-{version}.json").write_text(json.dumps(objects))


def go_that_downloads(machine: Path, module: Path, checksum: str) -> None:
    answer = json.dumps({"Dir": str(module), "Sum": checksum})
    go = machine / "path" / "go"
    go.write_text(f"#!/bin/sh\nif [ \"$1\" = env ]; then echo go1.99.0; exit 0; fi\necho '{answer}'\necho noise >&2\n")
    go.chmod(0o755)


def a_module(machine: Path) -> Path:
    folder = machine / "module" / FOLDER / "v2"
    folder.mkdir(parents=True)
    (folder / "b.yaml").write_text("---\nkind: CustomResourceDefinition\nmetadata: {name: b.cilium.io}\n")
    (folder / "a.yaml").write_text("kind: CustomResourceDefinition\nmetadata: {name: a.cilium.io}\n---\nkind: Other\n")
    (folder / "embed.go").write_text("package v2\n")
    return machine / "module"


def test_the_crds_are_read_once_and_then_kept(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_that_downloads(machine, a_module(machine), SUMS["1.20.2"])
    said: list[str] = []
    first = cilium_crds("1.20.2", progress=said.append)
    assert [item["metadata"]["name"] for item in first] == ["a.cilium.io", "b.cilium.io"]
    assert said == [
        f"Fetching the CRDs of Cilium 1.20.2 from its Go module (once; usually under a minute). They are kept in {cache.cache_root()}"
    ]
    monkeypatch.setattr(golang, "provide_go", lambda progress: pytest.fail("Go is not needed the second time"))
    assert cilium_crds("1.20.2", progress=said.append) == first
    assert len(said) == 1


def test_a_module_with_another_checksum_is_refused(machine: Path) -> None:
    go_that_downloads(machine, a_module(machine), "h1:forged=")
    with pytest.raises(ToolUnavailable, match=r"cilium v1\.20\.2 came with checksum h1:forged="):
        cilium_crds("1.20.2", progress=print)
    assert not list(cache.cache_root().glob("*.json"))


def test_a_module_without_crds_is_refused(machine: Path) -> None:
    with pytest.raises(ToolUnavailable, match="holds no CustomResourceDefinition"):
        parse_folder(machine)


def test_a_profile_has_the_newest_crds_and_those_that_only_the_binarys_release_has() -> None:
    store(CILIUM_CRDS, [crd("nodes", version="new"), crd("fresh")])
    store(CILIUM, [crd("nodes", version="old"), crd("gone")])
    assert crds_for_profile("1.18") == [crd("nodes", version="new"), crd("fresh"), crd("gone")]


def test_the_crds_of_a_lab_have_no_descriptions_but_every_property() -> None:
    schema = {"description": "long", "properties": {"description": {"type": "string", "description": "long"}}, "required": ["description"]}
    assert without_descriptions({"spec": [schema]}) == {
        "spec": [{"properties": {"description": {"type": "string"}}, "required": ["description"]}]
    }


def test_a_profile_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ToolUnavailable, match=r"no lab profile '1\.15'; there are 1\.16, "):
        crds_for_profile("1.15")


def test_merging_keeps_the_first_of_a_name() -> None:
    assert merged([crd("a", from_="1")], [crd("a", from_="2"), crd("b")]) == [crd("a", from_="1"), crd("b")]


def test_the_staging_modules_are_read_from_kubernetes_own_go_mod() -> None:
    text = """module k8s.io/kubernetes
require (
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.1.0
)
replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/cri-client => ./staging/src/k8s.io/cri-client
	example.org/x => example.org/y v1.0.0
)
replace k8s.io/kms => ./staging/src/k8s.io/kms
"""
    assert staging_modules(text) == ["k8s.io/api", "k8s.io/cri-client", "k8s.io/kms"]


def test_a_wrapper_module_has_tools_requirements_and_replaces() -> None:
    assert module_text("x", "1.25.0", ["a/cmd"], {"b": "v1", "a": "v2"}, {"c": "d v3"}) == (
        "module lab/x\n\ngo 1.25.0\n\ntool (\n\ta/cmd\n)\n\nrequire (\n\ta v2\n\tb v1\n)\n\nreplace (\n\tc => d v3\n)\n"
    )


def test_a_fork_that_the_checksum_database_does_not_know_has_the_checksum_of_ciliums_own_go_sum() -> None:
    own = "example.com/a v1.0.0 h1:other=\n"
    fork = "github.com/cilium/gobgp/v3 v3.0.0-1 h1:same=\ngithub.com/cilium/gobgp/v3 v3.0.0-1/go.mod h1:too=\n"
    hold_forks(["github.com/cilium/gobgp/v3"], own + fork, fork)
    with pytest.raises(ToolUnavailable, match=re.escape(f"does not have {fork.splitlines()[0]}".replace("same", "evil"))):
        hold_forks(["github.com/cilium/gobgp/v3"], own + fork.replace("same", "evil"), fork)
