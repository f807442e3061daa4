# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the lab's programs are made of: wrapper modules, packages, flags, versions.

One module per family and never one for all: Go's version selection would mix their Kubernetes and etcd libraries. ``go install
PATH@VERSION`` is no way around it, since it refuses modules whose go.mod has replaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "go"

KUBERNETES = "1.36.4"
ETCD = "3.6.14"
CILIUM = "1.15.19"  # of labs without real agents
CILIUM_AGENT = "1.19.5"  # of labs with real agents; 1.20 needs github.com/osrg/gobgp/v4 at a commit that the module proxy does not serve
MESH_OF_AGENTS = f"clustermesh-apiserver-{CILIUM_AGENT}"  # its name among the programs
CILIUM_CRDS = "1.20.2"
HELM_VERSION = "4.3.1"
KARMADA_VERSION = "1.18.2"
PROMETHEUS = "0.313.5"  # of the module; the release is 3.13.5

STRIP = ("-s", "-w")


@dataclass(frozen=True)
class Family:
    """One wrapper module: folder ``go/NAME`` with go.mod and go.sum."""

    name: str
    version: str

    @property
    def folder(self) -> Path:
        return SOURCES / self.name


@dataclass(frozen=True)
class Tool:
    """One program. ``package`` is what ``go build`` gets; ``minutes`` is how long a cold build takes on two cores; ``floor`` is the oldest
    version that is taken from PATH or MESH_LAB_TOOLS; ``version_argument`` makes it tell its version ("" when nothing does)."""

    name: str
    family: Family
    package: str
    minutes: float
    ldflags: tuple[str, ...] = STRIP
    floor: tuple[int, ...] = ()
    version_argument: str = ""
    version_variables: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()  # of the build

    @property
    def own(self) -> bool:
        """Is its source here, beside go.mod?"""
        return self.package.startswith("./")

    @property
    def sources(self) -> tuple[Path, ...]:
        """Our own Go files that it is made of."""
        return tuple(sorted((self.family.folder / self.package).glob("*.go"))) if self.own else ()

    @property
    def link_flags(self) -> str:
        values = [f"{name}={value}" for name, value in self.version_variables.items()]
        return " ".join([*self.ldflags, *(f"-X '{value}'" if " " in value else f"-X {value}" for value in values)])


KUBE_FAMILY = Family("kube", KUBERNETES)
ETCD_FAMILY = Family("etcd", ETCD)
CILIUM_FAMILY = Family("cilium", CILIUM)
HELM_FAMILY = Family("helm", HELM_VERSION)
KARMADA_FAMILY = Family("karmada", KARMADA_VERSION)  # pins Kubernetes libraries of its own
PROMETHEUS_FAMILY = Family("prometheus", PROMETHEUS)
AGENT_FAMILY = Family("agent", CILIUM_AGENT)  # apart from CILIUM_FAMILY, so that a lab without agents builds nothing anew for them
FAMILIES = (KUBE_FAMILY, ETCD_FAMILY, CILIUM_FAMILY, AGENT_FAMILY, HELM_FAMILY, KARMADA_FAMILY, PROMETHEUS_FAMILY)


def _kube_version() -> dict[str, str]:
    # Without these /version says v0.0.0-master, and clients that parse it refuse (kubernetes: hack/lib/version.sh sets the same variables).
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean", "gitCommit": "unknown"}
    return {f"k8s.io/component-base/version.{name}": value for name, value in values.items()}


def _kube(name: str, minutes: float) -> Tool:
    return Tool(
        name=name,
        family=KUBE_FAMILY,
        package=f"k8s.io/kubernetes/cmd/{name}",
        minutes=minutes,
        floor=(1, 32),
        version_argument="--version",
        version_variables=_kube_version(),
    )


# etcd below 3.5 (Debian 12 has 3.4) lacks the streaming lists that a current kube-apiserver asks for.
_TOOLS = (
    Tool("etcd", ETCD_FAMILY, "go.etcd.io/etcd/server/v3", 1, floor=(3, 5), version_argument="--version"),
    Tool("etcdctl", ETCD_FAMILY, "go.etcd.io/etcd/etcdctl/v3", 0.3, floor=(3, 5), version_argument="version"),
    _kube("kube-apiserver", 4.5),
    _kube("kube-controller-manager", 1.3),
    _kube("kube-scheduler", 0.3),
    Tool(
        "clustermesh-apiserver",
        CILIUM_FAMILY,
        "github.com/cilium/cilium/clustermesh-apiserver",
        4.8,
        version_variables={"github.com/cilium/cilium/pkg/version.ciliumVersion": CILIUM},
    ),
    Tool("lab-kubelet", KUBE_FAMILY, "./lab-kubelet", 0.2),
    Tool("lab-agent", ETCD_FAMILY, "./lab-agent", 0.3),
    Tool("lab-etcd", ETCD_FAMILY, "./lab-etcd", 0.1),
    Tool("lab-hubble", ETCD_FAMILY, "./lab-hubble", 0.1),
)
_HELM = Tool(
    "helm",
    HELM_FAMILY,
    "helm.sh/helm/v4/cmd/helm",
    2,
    floor=(3, 12),
    version_argument="version",
    version_variables={"helm.sh/helm/v4/internal/version.version": f"v{HELM_VERSION}"},
)


_PROMTOOL = Tool(
    "promtool",
    PROMETHEUS_FAMILY,
    "github.com/prometheus/prometheus/cmd/promtool",
    6,
    floor=(2, 50),
    version_argument="--version",
    version_variables={"github.com/prometheus/common/version.Version": PROMETHEUS.replace("0.3", "3.", 1)},
    tags=("remove_all_sd",),  # service discoveries of clouds, which would double the build
)


def _karmada(program: str, minutes: float) -> Tool:
    # Without the variable the programs call themselves v0.0.0-master (karmada: hack/util.sh sets the same one).
    return Tool(
        name=f"karmada-{program}",
        family=KARMADA_FAMILY,
        package=f"github.com/karmada-io/karmada/cmd/{program}",
        minutes=minutes,
        floor=(1, 18),
        version_argument="version",
        version_variables={"github.com/karmada-io/karmada/pkg/version.gitVersion": f"v{KARMADA_VERSION}"},
    )


_KARMADA = (
    _karmada("aggregated-apiserver", 5),
    _karmada("controller-manager", 1.5),
    _karmada("webhook", 0.2),
    _karmada("scheduler", 0.3),
)


_UNKNOWN = "unknown 1970-01-01T00:00:00+00:00"
"""Commit and time that `cilium version` shows beside the version; without them it shows none at all (pkg/version: FromString)."""


def _agent(name: str, package: str, minutes: float) -> Tool:
    return Tool(
        name=name,
        family=AGENT_FAMILY,
        package=f"github.com/cilium/cilium/{package}",
        minutes=minutes,
        version_variables={"github.com/cilium/cilium/pkg/version.ciliumVersion": f"{CILIUM_AGENT} {_UNKNOWN}"},
    )


_AGENT = (
    _agent("cilium-agent", "daemon", 6),
    _agent("cilium-dbg", "cilium-dbg", 1.5),
    _agent("cilium-health", "cilium-health", 0.3),
    _agent("cilium-health-responder", "cilium-health/responder", 0.1),
    _agent("cilium-cni", "plugins/cilium-cni", 0.3),
    Tool(
        "hubble",
        AGENT_FAMILY,
        "github.com/cilium/cilium/hubble",
        0.5,
        version_variables={"github.com/cilium/cilium/hubble/pkg.Version": f"v{CILIUM_AGENT}"},
    ),
    _agent(MESH_OF_AGENTS, "clustermesh-apiserver", 1),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (*_TOOLS, _HELM, _PROMTOOL, *_KARMADA, *_AGENT)}

ALL = tuple(tool.name for tool in _TOOLS)
HELM = _HELM.name  # for tests of the chart alone; no lab needs it
PROMTOOL = _PROMTOOL.name  # for tests of the alert rules alone
KARMADA = tuple(tool.name for tool in _KARMADA)  # for labs with a fleet
AGENT = tuple(tool.name for tool in _AGENT)  # for labs with real agents
KCP = "kcp"  # only ever looked up: its release is a binary, its modules cannot be built through the proxy
