# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Real cilium-agents: what this machine must have for them, and how Cilium is configured for nodes that are namespaces of one kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.lab import cgroups
from tests.lab.control import LabError
from tests.lab.fabric import DEVICE
from tests.lab.keeper import privileged
from tests.lab.node import CGROUP, PROGRAMS
from tests.lab.tools.catalogue import AGENT, MESH_OF_AGENTS

CONFIGURATION: Final[Mapping[str, str]] = {
    "ipam": "kubernetes",  # cilium-operator, which hands out pod CIDRs else, is played
    "kube-proxy-replacement": "true",
    "devices": DEVICE,
    "cgroup-root": CGROUP,
    "enable-ipv4-masquerade": "false",  # there is nothing to masquerade for
    "enable-l7-proxy": "false",  # Envoy is a program of its own
    "hubble-disable-tls": "true",
    "connectivity-probe-frequency-ratio": "0",  # cilium-health probes every 11 s, and not every 66 s
    # Maps are sized by the memory of the machine else, of which each node would take its share.
    "bpf-map-dynamic-size-ratio": "0.0001",
    "bpf-ct-global-tcp-max": "16384",
    "bpf-ct-global-any-max": "16384",
    "bpf-nat-global-max": "16384",
    "bpf-neigh-global-max": "16384",
    "bpf-policy-map-max": "4096",
}
"""Keys of cilium-config in which a lab with real agents differs from the chart."""

SOURCES: Final = "cilium-bpf"
"""Among the lab's programs: the folder with what agents compile."""

_OLDEST: Final = 15
_COMPILERS: Final = ("clang", *(f"clang-{version}" for version in range(25, _OLDEST - 1, -1)))  # Debian's names
_NEEDED: Final = ("ip", "iptables", "ipset")


def compiler() -> Path | None:
    """Return the clang that agents compile their programs with; None if there is none that is new enough."""
    return next((Path(found) for name in _COMPILERS if (found := shutil.which(name)) and _version(found) >= _OLDEST), None)


def _version(program: str) -> int:
    """Major version of a clang, by its own word; 0 if it has none."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r"clang version (\d+)", answer)
    return int(found[1]) if found else 0


def missing() -> Iterator[str]:
    """Yield what this machine lacks for real agents, each in a few words."""
    if not privileged():
        yield "root (CAP_SYS_ADMIN)"
    if cgroups.machine_root() is None:
        yield "a mount of cgroup2"
    if "bpf" not in Path("/proc/filesystems").read_text(encoding="ascii").split():
        yield "bpffs in the kernel (CONFIG_BPF_SYSCALL)"
    if not Path("/sys/kernel/btf/vmlinux").exists():
        yield "types of the kernel (CONFIG_DEBUG_INFO_BTF)"
    if compiler() is None:
        yield f"clang {_OLDEST} or newer"
    for name in _NEEDED:
        if not shutil.which(name):
            yield name


def require() -> None:
    """:raises LabError: this machine cannot run real agents; the text has all that is missing, in one line"""
    if lacks := list(missing()):
        raise LabError(f"real agents need {', '.join(lacks)}, which this machine does not have; start the lab without --agents real")


def programs(tools: Mapping[str, Path]) -> dict[str, Path]:
    """Return the programs of an agent's container: path in it to file on this machine. ``tools``: program name to path."""
    names = {"cilium": "cilium-dbg"} | {name: name for name in AGENT if name != MESH_OF_AGENTS}
    return {f"{PROGRAMS}/{name}": tools[tool] for name, tool in names.items()}
