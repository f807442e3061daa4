# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Writes go.mod and go.sum of the wrapper modules anew from the versions in catalogue.py. For a developer who raises a version."""

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
from tests.lab.tools.errors import ToolUnavailable
from tests.lab.tools.golang import Go, provide_go
from tests.lab.tools.progress import Progress

_GO = {
    "helm": "1.26.0",
    "karmada": "1.25.10",
    "prometheus": "1.26.0",
}  # what their own go.mod asks for, where that is more than others need
_STAGING = re.compile(r"^\s*(?:replace\s+)?(k8s\.io/[\w-]+) => \./staging/", re.MULTILINE)
# Cilium's own go.mod replaces these; a replace counts only in the main module, which is ours.
CILIUM_MODULE = "github.com/cilium/cilium"
CILIUM_REPLACES = {
    CILIUM_FAMILY: {
        "go.universe.tf/metallb": "github.com/cilium/metallb v0.1.1-0.20220829170633-5d7dfb1129f7",
        "sigs.k8s.io/controller-tools": "github.com/cilium/controller-tools v0.8.0-1",
    },
    AGENT_FAMILY: {
        "github.com/osrg/gobgp/v3": "github.com/cilium/gobgp/v3 v3.0.0-20260130142103-27e5da2a39e6",
        "sigs.k8s.io/controller-tools": "github.com/cilium/controller-tools v0.16.5-1",
    },
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
    elif family in CILIUM_REPLACES:
        upstream = CILIUM_MODULE
        requires, replaces = {upstream: version}, CILIUM_REPLACES[family]
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


def hold_forks(forks: Iterable[str], found: str, known: str) -> None:
    """The checksum database does not know all forks that Cilium builds with. Its own go.sum does, and that is part of the module.

    :param found: a go.sum that was made now; ``known``: Cilium's
    :raises ToolUnavailable: a fork came with another checksum
    """
    lines = set(known.splitlines())
    if strange := [line for line in found.splitlines() if line.startswith(tuple(f"{fork} " for fork in forks)) and line not in lines]:
        raise ToolUnavailable(f"Cilium's go.sum does not have {strange[0]}, with which the fork came. Do not use that module proxy.")


def _download_go_mod(module: str, version: str, go: Go, progress: Progress) -> str:
    return Path(_download(module, version, go, progress)["GoMod"]).read_text()


def _download(module: str, version: str, go: Go, progress: Progress) -> dict[str, str]:
    """Return what `go mod download -json` says of a module: Dir, GoMod, Version and others."""
    with tempfile.TemporaryDirectory() as empty:
        answer = run_long(
            [go.program, "mod", "download", "-json", f"{module}@{version}"],
            what=f"downloading {module} {version}",
            progress=progress,
            cwd=Path(empty),
            env=BUILD_ENVIRONMENT | {"GOFLAGS": ""},
        )
    found: dict[str, str] = json.loads(answer)
    return found


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
        forks = [other.partition(" ")[0] for other in CILIUM_REPLACES.get(family, {}).values()]
        env = BUILD_ENVIRONMENT | {"GOFLAGS": "-mod=mod", "GONOSUMDB": ",".join(forks)}
        run_long([go.program, "mod", "tidy"], what=f"go mod tidy for {family.name}", progress=progress, cwd=work, env=env)
        if forks:
            cilium = Path(_download(CILIUM_MODULE, f"v{family.version}", go, progress)["Dir"])
            hold_forks(forks, (work / "go.sum").read_text(), (cilium / "go.sum").read_text())
        for name in ("go.mod", "go.sum"):
            (family.folder / name).write_bytes((work / name).read_bytes())
