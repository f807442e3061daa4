# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which programs a lab runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab import agents, tools
from tests.lab.control import LabError
from tests.lab.options import LabOptions
from tests.lab.translate import version_from_help, why_not_together

MESH = "clustermesh-apiserver"
_OWN = ("lab-kubelet", "lab-agent", "lab-etcd", "lab-hubble")
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "etcdctl", MESH, *_OWN)


@dataclass(frozen=True)
class Found:
    """Paths by program name, and the Cilium version of clustermesh-apiserver."""

    paths: dict[str, Path]
    binary_version: str


def resolve(options: LabOptions, given: Mapping[str, Path] | None = None, *, progress: Callable[[str], None] = print) -> Found:
    """Find the programs and Cilium's CRDs, or build and fetch them (minutes, once; ``progress`` says so). ``given`` programs are not looked
    for. Raises LabError or ToolUnavailable."""
    paths = dict(given or {})
    real = options.agents == "real"
    version = options.binary_version or (tools.CILIUM_AGENT if real else "")
    if version and MESH not in paths:
        chosen = tools.clustermesh_binary(version, progress=progress)
        paths[MESH], version = chosen.path, chosen.version or version
    if real:
        agents.require()
        if agents.SOURCES not in paths:
            paths[agents.SOURCES] = tools.cilium_module(tools.CILIUM_AGENT).fetch(progress) / "bpf"
    more = (*(tools.KARMADA if options.karmada else ()), *(tools.AGENT if real else ()))
    wanted = [name for name in (*PROGRAMS, *more) if name not in paths]
    found = tools.ensure(wanted, progress=progress)
    paths |= {name: found.path(name) for name in wanted}
    if not version:
        version = (found.version(MESH) if MESH in wanted else "") or version_from_help(_help(paths[MESH]))
    if not version:
        raise LabError(f"{paths[MESH]} does not tell its version; give it with --binary-version")
    for cluster in options.cluster_options():
        if why := why_not_together(cluster.cilium, version, kvstoremesh=cluster.kvstoremesh):
            raise LabError(
                f"{cluster.name}: {why}. Use another --cilium, --kvstoremesh off, or the clustermesh-apiserver that the lab builds."
            )
    for profile in {cluster.cilium for cluster in options.cluster_options()}:
        tools.crds_for_profile(profile, progress=progress)
    return Found({name: path.resolve() for name, path in paths.items()}, version)


def _help(program: Path) -> str:
    answer = subprocess.run(
        [program, "clustermesh", "--help"], capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
    )
    return answer.stdout + answer.stderr
