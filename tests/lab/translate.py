# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From the arguments that a chart of one Cilium version writes to those that a clustermesh-apiserver binary of another version takes.

Where both are of the same version nothing changes but addresses. What had to be changed is returned too, so that `status` can say it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Version = tuple[int, int]

# First and, if any, last minor version whose binary knows the flag (cilium/cilium, `--help` of clustermesh-apiserver's subcommands).
_SINCE: dict[str, dict[str, Version]] = {
    "clustermesh": {
        "health-port": (1, 16),
        "clustermesh-enable-mcs-api": (1, 17),
        "clustermesh-cache-ttl": (1, 19),
        "clustermesh-default-global-namespace": (1, 20),
        "enable-gops": (1, 16),
    },
    "kvstoremesh": {
        "health-port": (1, 16),
        "per-cluster-ready-timeout": (1, 16),
        "global-ready-timeout": (1, 16),
        "enable-heartbeat": (1, 18),
        "clustermesh-cache-ttl": (1, 19),
        "enable-gops": (1, 16),
        "shell-sock-path": (1, 18),
    },
    "etcdinit": {},
}
_UNTIL: dict[str, dict[str, Version]] = {"clustermesh": {"enable-external-workloads": (1, 17)}}
_KVSTORE_OPTIONS_SINCE: dict[str, Version] = {"etcd.bootstrapQps": (1, 16)}
# pkg/kvstore/etcd.go and clustermesh-apiserver/clustermesh/health.go at v1.15
_RENAMED_BEFORE: dict[tuple[str, str], tuple[Version, str]] = {("clustermesh", "health-port"): ((1, 16), "clustermesh-health-port")}
_READYZ_SINCE: Version = (1, 16)
HOST_ALIASES_SINCE: Version = (1, 20)
"""From here on etcd client configurations carry `cilium-host-aliases` (cilium/cilium #44425)."""

# What tells a binary's age when nothing else does: the newest flag of `clustermesh --help` that it knows.
_TELLTALES: tuple[tuple[str, str], ...] = (
    ("--clustermesh-default-global-namespace", "1.20"),
    ("--clustermesh-cache-ttl", "1.19"),
    ("--clustermesh-enable-mcs-api", "1.17"),
    ("--clustermesh-health-port", "1.15"),
    ("--health-port", "1.16"),
)

_OWN_USER_SINCE: Version = (1, 17)
"""From here on agents have a certificate of their own toward their kvstoremesh, and `remote` may not read its cache any more."""

_URL = re.compile(r"(\w+:)//(\[[^\]]*\]|[^/:,]+)([^,]*)")
_EVERYWHERE = ("0.0.0.0", "::")
_REFERENCE = re.compile(r"\$(\$)?\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")


@dataclass(frozen=True)
class Translated:
    """``args`` without the program; ``changes`` in words, empty when the binary takes the template as it is."""

    args: tuple[str, ...]
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Probe:
    """How a container's readiness is found out: an HTTP path, or "" for a TCP connect, on 127.0.0.1 of its pod."""

    port: int
    path: str = ""


def parse_version(text: str) -> Version:
    """Major and minor of ``1.15.19``, ``v1.20`` or ``1.20.0-pre.3``. Raises ValueError."""
    match = re.match(r"v?(\d+)\.(\d+)", text)
    if not match:
        raise ValueError(f"{text!r} is no Cilium version such as 1.18.11")
    return int(match[1]), int(match[2])


def why_not_together(profile: str, binary_version: str, *, kvstoremesh: bool) -> str:
    """A clause that says why objects of this chart cannot run this clustermesh-apiserver; "" if nothing is known against it.

    Charts from 1.17 on were tried with a binary of 1.20.2, and all charts with one of 1.15. A real cluster never has the combination: the
    image comes from the chart.
    """
    if kvstoremesh and parse_version(profile) < _OWN_USER_SINCE <= parse_version(binary_version):
        return (
            f"the objects of chart {profile} do not go together with clustermesh-apiserver {binary_version}: agents of {profile} log in to "
            "their own mesh etcd as remote, which may not read the cache in a mesh etcd that 1.17 or newer sets up, so they would stay in "
            "retrieving_configuration"
        )
    return ""


def version_from_help(text: str) -> str:
    """A binary's minor version, guessed from the output of ``clustermesh-apiserver clustermesh --help``; "" when it looks like none of
    ours."""
    return next((version for flag, version in _TELLTALES if f"{flag} " in text), "")


def expand(text: str, env: Mapping[str, str]) -> str:
    """Kubernetes' own expansion of ``$(NAME)``: unknown names stay, ``$$(NAME)`` is the text ``$(NAME)``."""
    return _REFERENCE.sub(lambda match: match[0][1:] if match[1] else env.get(match[2], match[0]), text)


def translate(
    args: Sequence[str], env: Mapping[str, str], profile: str, binary_version: str, *, kubeconfig: str = "", address: str = ""
) -> Translated:
    """Arguments of a container of the Deployment, expanded and fit for the binary.

    ``args``: as in the pod template. ``profile``: version of the chart that wrote them. ``kubeconfig``: path given to `clustermesh`, which
    has no ServiceAccount token here. ``address``: the pod's, if it is on an interface of the pod. etcd's arguments are recognised by having
    no subcommand. Raises ValueError for versions that are none.
    """
    expanded = [expand(arg, env) for arg in args]
    if not expanded or expanded[0].startswith("-"):
        return _translate_etcd(expanded, address)
    command, flags = expanded[0], expanded[1:]
    have = parse_version(binary_version)
    kept: list[str] = []
    changes: list[str] = []
    for flag in flags:
        fitting, change = _fit(command, flag, have)
        kept.extend([fitting] if fitting else [])
        changes.extend([f"{change} (chart {profile}, binary {binary_version})"] if change else [])
    if command == "clustermesh" and have <= (1, 17) and parse_version(profile) >= (1, 18):
        kept.append("--enable-external-workloads=false")  # on by default in those binaries, gone from 1.18 on
        changes.append(f"{command}: added --enable-external-workloads=false (chart {profile}, binary {binary_version})")
    if command == "clustermesh" and kubeconfig:
        kept.append(f"--k8s-kubeconfig-path={kubeconfig}")
    return Translated((command, *kept), tuple(changes))


def _fit(command: str, flag: str, have: Version) -> tuple[str, str]:
    """The flag as the binary takes it ("" = not at all) and what was changed ("" = nothing)."""
    name, equals, value = flag.removeprefix("--").partition("=")
    if name == "kvstore-opt" and have < _KVSTORE_OPTIONS_SINCE.get(value.partition("=")[0], have):
        return "", f"{command}: left out --kvstore-opt={value}"
    renamed = _RENAMED_BEFORE.get((command, name))
    if renamed and have < renamed[0]:
        return f"--{renamed[1]}{equals}{value}", f"{command}: --{name} passed as --{renamed[1]}"
    if have < _SINCE.get(command, {}).get(name, have) or have > _UNTIL.get(command, {}).get(name, have):
        return "", f"{command}: left out --{name}"
    return flag, ""


def _translate_etcd(args: Sequence[str], address: str) -> Translated:
    # A pod's network namespace holds, besides etcd, the lab's relays on 127.L.C.x:2379. A wildcard listener would swallow those ports, so
    # etcd listens on 127.0.0.1, where relays and probes reach it, and on the pod's own address if a real agent has put that on an
    # interface. IPv6 is not carried by the lab.
    kept: list[str] = []
    for arg in args:
        name, equals, value = arg.partition("=")
        if name in ("--listen-client-urls", "--listen-metrics-urls", "--advertise-client-urls"):
            urls = [f"{scheme}//{host}{rest}" for scheme, found, rest in _URL.findall(value) for host in _hosts(found.strip("[]"), address)]
            arg = name + equals + ",".join(dict.fromkeys(urls))
        kept.append(arg)
    return Translated(tuple(kept))


def _hosts(host: str, address: str) -> tuple[str, ...]:
    if host in ("localhost", address):
        return (host,)
    return ("127.0.0.1", address) if address and host in _EVERYWHERE else ("127.0.0.1",)


def readiness(args: Sequence[str], template: Probe | None, binary_version: str) -> Probe | None:
    """What to ask a running container. ``args``: translated; ``template``: the chart's readinessProbe.

    Binaries before 1.16 serve no /readyz: the apiserver then has /healthz on the same port, kvstoremesh only its metrics and status ports.
    etcd has no probe in the chart; a Service would send traffic to it before it listens, so its client port is tried.
    """
    if not args or args[0].startswith("-"):
        for arg in args:
            if arg.startswith("--listen-client-urls="):
                return Probe(int(arg.rpartition(":")[2].rstrip("/")))
        return None
    old = args[0] in ("clustermesh", "kvstoremesh") and parse_version(binary_version) < _READYZ_SINCE
    if template is None or not old:
        return template
    if args[0] == "clustermesh":
        return Probe(template.port, "/healthz")
    for flag in ("--prometheus-serve-addr=", "--api-serve-addr="):
        for arg in args:
            if arg.startswith(flag):
                return Probe(int(arg.rpartition(":")[2]))
    return Probe(9889)
