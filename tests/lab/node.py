# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A node with a real agent: its network namespace on the lab's wire, its cgroup, its bpffs, and what its processes see of this machine."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.lab import cgroups
from tests.lab.fabric import Fabric
from tests.lab.netns import NetNs
from tests.lab.sandbox import check, libc, mount

Object = dict[str, Any]

PROGRAMS: Final = "/opt/lab"
"""Folder of the lab's programs in a container; first on its PATH."""

STATE: Final = "/run/cilium"
CONFIGURATION: Final = "/tmp/cilium/config-map"  # where a chart's init container puts ConfigMap cilium-config
SOURCES: Final = "/var/lib/cilium/bpf"
CGROUP: Final = "/run/cilium/cgroupv2"
_SCRIPTS: Final = {
    "serve": "responder.py",
    "nc": "nc.py",
    "dial": "dial.py",
    "follow": "follow.py",
}  # programs of pods that not every machine has
_MERGED: Final = ("/bin", "/sbin", "/lib", "/lib64", "/lib32")
_MNT_DETACH: Final = 2


class NodeSystem:
    """What is below the pods of one node. Make it off the event loop: ip(8) runs."""

    def __init__(self, name: str, folder: Path, cgroup: Path, *, sources: Path, compiler: Path) -> None:
        """``sources``: folder ``bpf`` of Cilium's Go module; ``compiler``: clang.

        :raises OSError: the kernel refused a mount or a cgroup
        """
        self.name = name
        self.netns = NetNs(name)
        self.cgroup = cgroup
        self._compiler = compiler
        self.configuration = folder / "config-map"
        self._bpffs = folder / "bpffs"
        self._state = folder / "run"
        self._sources = folder / "sources"
        written, work = folder / "written", folder / "work"
        for path in (self.configuration, self._bpffs, self._state, self._sources, written, work, cgroup / "pods"):
            path.mkdir(parents=True)
        self._scripts: list[tuple[str, str, bool]] = []
        for program, script in _SCRIPTS.items():
            words = shlex.join([os.path.realpath(sys.executable), "-I", "-S", f"{PROGRAMS}/{script}"])
            path = folder / program
            path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
            path.chmod(0o755)
            self._scripts += [(str(path), f"{PROGRAMS}/{program}", True)]
            self._scripts += [(str(Path(__file__).with_name(script)), f"{PROGRAMS}/{script}", True)]
        mount("bpf", str(self._bpffs), "bpf", 0)
        # An agent writes a header between its sources, and Go's module cache is not to be changed.
        mount("overlay", str(self._sources), "overlay", 0, f"lowerdir={sources},upperdir={written},workdir={work}")

    def join(self, fabric: Fabric, address: str) -> None:
        """Put the node on the wire. :raises FabricError: see `Fabric.join`"""
        fabric.join(self.netns, address)

    def configure(self, data: Mapping[str, str]) -> None:
        """Write the files of ConfigMap cilium-config, as the chart's init container leaves them: one per key."""
        for old in self.configuration.iterdir():
            if old.name not in data:
                old.unlink()
        for key, value in data.items():
            (self.configuration / key).write_text(value, encoding="utf-8")

    def describe_agent(self) -> Object:
        """Return what the launcher's SPEC of the agent's pod has beyond that of a pod of the lab (sandbox.py)."""
        return self._describe(
            self.cgroup,
            [
                (str(self._bpffs), "/sys/fs/bpf", False),
                (str(self._state), STATE, False),
                (str(self._sources), SOURCES, False),
                (str(self.configuration), CONFIGURATION, True),
            ],
        )

    def describe_pod(self) -> Object:
        """Return the same of a pod with processes of its own: the machine's programs and `_SCRIPTS`, and Cilium's not."""
        return self._describe(self.cgroup / "pods", self._scripts)

    def _describe(self, cgroup: Path, more: list[tuple[str, str, bool]]) -> Object:
        merged = [path for path in _MERGED if os.path.islink(path)]
        folders = ["/usr", *(path for path in _MERGED if path not in merged and os.path.isdir(path))]
        if not sys.base_prefix.startswith("/usr"):
            folders.append(sys.base_prefix)
        return {
            "node": {"cgroup": str(cgroup)},
            "binds": [*((path, path, True) for path in folders), *more],
            "dirs": ["/tmp", "/run", "/var"],
            "links": [*((os.readlink(path), path) for path in merged), *self._links()],
        }

    def _links(self) -> Iterator[tuple[str, str]]:
        yield "/run", "/var/run"  # ip(8) has its namespaces in the one, agents read them in the other
        yield "/usr/bin/true", f"{PROGRAMS}/modprobe"  # a node loads nothing into the machine's kernel
        yield str(self._compiler), f"{PROGRAMS}/clang"

    def close(self) -> None:
        """Give the node up, after its processes have ended. Twice is fine."""
        for path in (self._bpffs, self._sources):
            with contextlib.suppress(OSError):
                check(libc.umount2(str(path).encode(), _MNT_DETACH), f"detach {path.name}")
        cgroups.remove(self.cgroup)
        self.netns.close()
