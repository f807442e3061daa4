# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A built program is found again as long as nothing that went into it has changed, and builders do not step on each other."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import shutil
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from tests.lab.patience import scaled
from tests.lab.tools import cache, catalogue
from tests.lab.tools.catalogue import FAMILIES, TOOLS, Tool


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the wrapper modules that a test may change."""
    copy = tmp_path / "go"
    shutil.copytree(catalogue.SOURCES, copy)
    monkeypatch.setattr(catalogue, "SOURCES", copy)
    return copy


def keys() -> dict[str, str]:
    return {name: cache.key(tool) for name, tool in TOOLS.items()}


def changed(before: dict[str, str]) -> set[str]:
    return {name for name, key in keys().items() if key != before[name]}


def test_every_program_has_a_key_of_its_own() -> None:
    assert len(set(keys().values())) == len(TOOLS)


def test_the_key_does_not_depend_on_where_the_checkout_lies(sources: Path) -> None:
    before = keys()
    elsewhere = sources.with_name("elsewhere")
    sources.rename(elsewhere)
    catalogue.SOURCES = elsewhere
    assert changed(before) == set()


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_other_libraries_mean_a_new_build_of_that_family_only(sources: Path, file: str) -> None:
    before = keys()
    with (sources / "etcd" / file).open("a") as stream:
        stream.write("\n")
    assert changed(before) == {"etcd", "etcdctl", "lab-agent", "lab-etcd", "lab-hubble"}


def test_our_source_means_a_new_build_of_that_program_only(sources: Path) -> None:
    before = keys()
    (sources / "kube" / "lab-kubelet" / "more.go").write_text("package main\n")
    assert changed(before) == {"lab-kubelet"}


@pytest.mark.parametrize("change", [{"ldflags": ("-s",)}, {"version_variables": {"a.b": "c"}}, {"package": "example.org/other"}])
def test_other_flags_mean_a_new_build(change: dict[str, object]) -> None:
    tool = TOOLS["etcd"]
    assert cache.key(dataclasses.replace(tool, **change)) != cache.key(tool)  # type: ignore[arg-type]  # fields of a tool by their names


def test_another_go_means_a_new_build(tmp_path: Path) -> None:
    tool = TOOLS["etcd"]
    made(tool, "1.26.6", tmp_path)
    assert cache.cached(tool, "1.26.6", tmp_path) == cache.place(tool, "1.26.6", tmp_path)
    assert cache.cached(tool, "1.27.0", tmp_path) is None


def test_without_go_the_newest_build_of_any_go_serves(tmp_path: Path) -> None:
    tool = TOOLS["etcd"]
    assert cache.cached(tool, None, tmp_path) is None
    newer, older = made(tool, "1.26.6", tmp_path), made(tool, "1.27.0", tmp_path)
    os.utime(older, (1, 1))
    assert cache.cached(tool, None, tmp_path) == newer


def made(tool: Tool, go_version: str, root: Path) -> Path:
    path = cache.place(tool, go_version, root)
    path.parent.mkdir(parents=True)
    path.touch()
    return path


@pytest.mark.parametrize(
    ("setting", "expected"), [("/somewhere", "/somewhere"), ("", "/home/of/user/.cache"), ("not/absolute", "/home/of/user/.cache")]
)
def test_the_cache_lies_where_the_xdg_rules_say(setting: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/of/user")
    monkeypatch.setenv("XDG_CACHE_HOME", setting)
    assert cache.cache_root() == Path(expected) / "cilium-mesh-lab"


def _hold(root: Path, held: Event, release: Event) -> None:
    with cache.exclusive("build", print, root=root):
        held.set()
        release.wait(scaled(30))


def test_a_second_builder_says_that_it_waits_and_goes_on_when_the_first_is_done(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held, release))
    other.start()
    try:
        assert held.wait(scaled(10))
        said: list[str] = []

        def progress(line: str) -> None:
            said.append(line)
            release.set()

        with cache.exclusive("build", progress, root=tmp_path, poll=0.01):
            assert said == [f"Another process is at work in {tmp_path} (build); waiting for it"]
    finally:
        release.set()
        other.join(scaled(10))
    assert other.exitcode == 0


def test_the_lock_of_a_killed_builder_is_free(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held, release))
    other.start()
    assert held.wait(scaled(10))
    other.kill()
    other.join(scaled(10))
    start = time.monotonic()
    said: list[str] = []
    with cache.exclusive("build", said.append, root=tmp_path):
        assert said == []
    assert time.monotonic() - start < scaled(5)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_wrapper_module_names_the_programs_and_versions_of_the_catalogue(family: catalogue.Family) -> None:
    text = (family.folder / "go.mod").read_text()
    assert text.startswith(f"module lab/{family.name}\n")
    upstream = {
        "kube": "k8s.io/kubernetes",
        "etcd": "go.etcd.io/etcd/server/v3",
        "cilium": "github.com/cilium/cilium",
        "agent": "github.com/cilium/cilium",
        "helm": "helm.sh/helm/v4",
        "karmada": "github.com/karmada-io/karmada",
        "prometheus": "github.com/prometheus/prometheus",
    }[family.name]
    assert f"{upstream} v{family.version}" in text
    for tool in TOOLS.values():
        if tool.family == family and not tool.own:
            assert f"\t{tool.package}\n" in text or f"tool {tool.package}\n" in text


def test_the_apiserver_reports_its_real_version() -> None:
    flags = TOOLS["kube-apiserver"].link_flags
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.4" in flags
    assert "-X k8s.io/component-base/version.gitMinor=36" in flags
