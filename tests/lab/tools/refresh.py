# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Writes go.mod and go.sum of the wrapper modules anew from the versions in catalogue.py. For whoever raises a version."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.lab.tools.cache import BUILD_ENVIRONMENT
from tests.lab.tools.catalogue import (
    AGENT_FAMILY,
    CILIUM_FAMILY,
    ETCD_FAMILY,
    FAMILIES,
    HELM_FAMILY,
    KARMADA_FAMILY,
    KUBE_FAMILY,
    PROMETHEUS_FAMILY,
    TOOLS,
    Family,
)
from tests.lab.tools.child import run_long
from tests.lab.tools.golang import Go, provide_go
from tests.lab.tools.progress import Progress

_GO = {
    "helm": "1.26.0",
    "karmada": "1.25.10",
    "prometheus": "1.26.0",
}  # what their own go.mod asks for, where that is more than others need
_STAGING = re.compile(r"^\s*(?:replace\s+)?(k8s\.io/[\w-]+) => \./staging/", re.MULTILINE)
# Cilium's own go.mod replaces these; a replace counts only in the main module, which is ours.
CILIUM_REPLACES = {
    "go.universe.tf/metallb": "github.com/cilium/metallb v0.1.1-0.20220829170633-5d7dfb1129f7",
    "sigs.k8s.io/controller-tools": "github.com/cilium/controller-tools v0.8.0-1",
}


def staging_modules(go_mod: str) -> list[str]:
    """The modules that Kubernetes develops in its own tree and releases as k8s.io/NAME v0.MINOR.PATCH, from the text of its go.mod."""
    return sorted(set(_STAGING.findall(go_mod)))


def module_text(name: str, go: str, tools: Iterable[str], requires: Mapping[str, str], replaces: Mapping[str, str]) -> str:
    """A go.mod before `go mod tidy`. ``requires``: module to version; ``replaces``: module to "MODULE VERSION"."""
    lines = [f"module lab/{name}", "", f"go {go}", "", "tool (", *(f"\t{tool}" for tool in tools), ")"]
    lines += ["", "require (", *(f"\t{module} {version}" for module, version in sorted(requires.items())), ")"]
    if replaces:
        lines += ["", "replace (", *(f"\t{module} => {other}" for module, other in sorted(replaces.items())), ")"]
    return "\n".join(lines) + "\n"


def refresh(progress: Progress, families: Iterable[Family] = FAMILIES) -> None:
    """Rewrite go.mod and go.sum. Both are replaced only when `go mod tidy` is content."""
    go = provide_go(progress)
    for family in families:
        progress(f"Refreshing {family.name} for {family.version}")
        _tidy(family, _text(family, go, progress), go, progress)


def _text(family: Family, go: Go, progress: Progress) -> str:
    tools = [tool.package for tool in TOOLS.values() if tool.family == family and not tool.own]
    version = f"v{family.version}"
    requires: dict[str, str] = {}
    replaces: dict[str, str] = {}
    if family == KUBE_FAMILY:
        upstream, own_mod = "k8s.io/kubernetes", _download_go_mod("k8s.io/kubernetes", version, go, progress)
        requires = dict.fromkeys(staging_modules(own_mod), f"v0{version[2:]}") | {upstream: version}
    elif family == ETCD_FAMILY:
        upstream = "go.etcd.io/etcd/server/v3"
        requires = dict.fromkeys((upstream, "go.etcd.io/etcd/etcdctl/v3", "go.etcd.io/etcd/client/v3"), version)
    elif family in (CILIUM_FAMILY, AGENT_FAMILY):
        upstream = "github.com/cilium/cilium"
        requires, replaces = {upstream: version}, CILIUM_REPLACES
    elif family == HELM_FAMILY:
        upstream = "helm.sh/helm/v4"
        requires = {upstream: version}
    elif family == KARMADA_FAMILY:
        upstream = "github.com/karmada-io/karmada"
        requires = {upstream: version}
    elif family == PROMETHEUS_FAMILY:
        upstream = "github.com/prometheus/prometheus"
        requires = {upstream: version}
    return module_text(family.name, _GO.get(family.name, "1.25.0"), tools, requires, replaces)


def _download_go_mod(module: str, version: str, go: Go, progress: Progress) -> str:
    with tempfile.TemporaryDirectory() as empty:
        answer = run_long(
            [go.program, "mod", "download", "-json", f"{module}@{version}"],
            what=f"downloading {module} {version}",
            progress=progress,
            cwd=Path(empty),
            env=BUILD_ENVIRONMENT | {"GOFLAGS": ""},
        )
    return Path(json.loads(answer)["GoMod"]).read_text()


def _tidy(family: Family, text: str, go: Go, progress: Progress) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for tool in TOOLS.values():
            if tool.family == family:
                for source in tool.sources:
                    copy = work / tool.package / source.name
                    copy.parent.mkdir(exist_ok=True)
                    copy.write_bytes(source.read_bytes())
        (work / "go.mod").write_text(text)
        env = BUILD_ENVIRONMENT | {"GOFLAGS": "-mod=mod"}
        run_long([go.program, "mod", "tidy"], what=f"go mod tidy for {family.name}", progress=progress, cwd=work, env=env)
        for name in ("go.mod", "go.sum"):
            (family.folder / name).write_bytes((work / name).read_bytes())
