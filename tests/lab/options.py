# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a lab is asked to be: one frozen value, made from flags or by a test, sent to the supervisor as JSON."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.lab.profiles.charts import CHARTS

PROFILES = tuple(CHARTS)
AUTH_MODES = ("legacy", "migration", "cluster")
SERVICES = ("LoadBalancer", "NodePort")
USUAL = {"stand-in": "1.18", "real": "1.19"}
"""Whose charts a lab plays if nothing is said, by its agents. Real agents are of that version (tests/lab/tools/catalogue.py)."""
AGENTS = tuple(USUAL)
KARMADA_PACES = ("quick", "default", "wide")
"""Sets of flags of Karmada's parts, see tests/lab/karmada.py: quick for tests, default without any, wide without the limit of requests."""
TLS_METHODS = ("helm", "cronJob", "provided")
CONTROLLER = "controller"
"""Name of the place where the collection runs, as source of connections (`lab.cut("controller", "c2")`)."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")
T = TypeVar("T")


class OptionError(ValueError):
    """A flag or field that no lab can be made from; the text names it and says what is allowed."""


@dataclass(frozen=True)
class ClusterOptions:
    """One cluster of a lab. ``index`` counts from 1 and gives its addresses; ``name`` is the kubeconfig context and, unless ``cilium_name``
    says otherwise, Cilium's cluster-name; ``cluster_id`` is Cilium's cluster-id."""

    index: int
    name: str
    cilium_name: str
    cluster_id: int
    cilium: str
    kvstoremesh: bool
    auth_mode: str | None
    service: str
    config_enabled: bool
    nodes: int
    pod_cidr: str
    tls_method: str = "helm"


@dataclass(frozen=True)
class LabOptions:
    """A lab. A field typed ``X | tuple[X, ...]`` takes one value for all clusters or one per cluster.

    ``auth_mode`` None is the default of the chart of that version. ``ca`` own: every cluster has a Cilium CA of its own; shared: one for
    all. ``config_enabled`` false: only the tool under test owns the peer objects (values.yaml, ``clustermesh.config.enabled``).
    ``sync_delay`` seconds pass between a change of a Secret or ConfigMap and its files in the pods (a real kubelet takes up to two
    minutes). ``tls_method`` is clustermesh.apiserver.tls.auto.method, or ``provided`` for certificates that the user brought.
    ``cilium``: whose charts; empty: `USUAL`. ``karmada``: a Karmada control plane beside the clusters; ``karmada_pace``: one of
    `KARMADA_PACES`. ``agents``: real ones need root, see tests/lab/agents.py. ``binary_version`` is Cilium's version of the
    clustermesh-apiserver binary; empty: as the tools report it, and with real agents their own.
    """

    name: str = "lab"
    clusters: int = 2
    names: tuple[str, ...] = ()
    cilium_names: tuple[str, ...] = ()
    cluster_ids: tuple[int, ...] = ()
    cilium: str | tuple[str, ...] = ""
    kvstoremesh: bool | tuple[bool, ...] = True
    auth_mode: str | tuple[str | None, ...] | None = None
    service: str | tuple[str, ...] = "LoadBalancer"
    ca: str = "own"
    config_enabled: bool | tuple[bool, ...] = False
    nodes: int | tuple[int, ...] = 1
    pod_cidrs: tuple[str, ...] = ()
    sync_delay: float = 0.2
    binary_version: str = ""
    tls_method: str | tuple[str, ...] = "helm"
    karmada: bool = False
    karmada_pace: str = "quick"
    agents: str = "stand-in"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise OptionError(f"lab name {self.name!r}: use lower-case letters, digits and '-', at most 32 characters")
        if not 1 <= self.clusters <= 40:
            raise OptionError(f"clusters {self.clusters}: a lab has 1 to 40 clusters")
        if self.ca not in ("own", "shared"):
            raise OptionError(f"ca {self.ca!r}: use own or shared")
        if self.sync_delay < 0:
            raise OptionError(f"sync delay {self.sync_delay}: seconds, not negative")
        if self.karmada_pace not in KARMADA_PACES:
            raise OptionError(f"pace of Karmada {self.karmada_pace!r}: use one of {', '.join(KARMADA_PACES)}")
        if self.agents not in AGENTS:
            raise OptionError(f"agents {self.agents!r}: use one of {', '.join(AGENTS)}")
        if self.agents == "real" and any(cluster.service != "LoadBalancer" for cluster in self.cluster_options()):
            raise OptionError(
                "agents real: nodes have addresses on the lab's own wire, which this machine does not reach; use LoadBalancer"
            )
        self.cluster_options()

    def cluster_options(self) -> tuple[ClusterOptions, ...]:
        """The clusters, with every per-cluster field resolved. Raises OptionError."""
        count = self.clusters
        names = self.names or tuple(f"c{number}" for number in range(1, count + 1))
        _exactly("names", names, count)
        if len(set(names)) != count or CONTROLLER in names:
            raise OptionError(f"names {','.join(names)}: every cluster needs a name of its own, and {CONTROLLER!r} is taken")
        for name in names:
            if not _NAME.fullmatch(name):
                raise OptionError(f"cluster name {name!r}: use lower-case letters, digits and '-', at most 32 characters")
        cilium_names = _repeat("cilium names", self.cilium_names or names, count)
        ids = _repeat("cluster ids", self.cluster_ids or tuple(range(1, count + 1)), count)
        cidrs = _repeat("pod CIDRs", self.pod_cidrs or tuple(f"10.{number}.0.0/16" for number in range(1, count + 1)), count)
        rows = zip(
            names,
            cilium_names,
            ids,
            _spread("cilium", self.cilium or USUAL[self.agents], count),
            _spread("kvstoremesh", self.kvstoremesh, count),
            _spread("auth mode", self.auth_mode, count),
            _spread("service", self.service, count),
            _spread("config enabled", self.config_enabled, count),
            _spread("nodes", self.nodes, count),
            cidrs,
            _spread("tls method", self.tls_method, count),
            strict=True,
        )
        return tuple(_checked(ClusterOptions(index, *row)) for index, row in enumerate(rows, start=1))

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LabOptions:
        values: dict[str, Any] = json.loads(text)
        fields: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        return cls(**fields)


def _checked(cluster: ClusterOptions) -> ClusterOptions:
    if cluster.cilium not in PROFILES:
        raise OptionError(f"cilium {cluster.cilium!r}: use one of {', '.join(PROFILES)}")
    if cluster.auth_mode is not None and cluster.auth_mode not in AUTH_MODES:
        raise OptionError(f"auth mode {cluster.auth_mode!r}: use one of {', '.join(AUTH_MODES)}")
    if cluster.service not in SERVICES:
        raise OptionError(f"service {cluster.service!r}: use one of {', '.join(SERVICES)}")
    if cluster.tls_method not in TLS_METHODS:
        raise OptionError(f"tls method {cluster.tls_method!r}: use one of {', '.join(TLS_METHODS)}")
    if not 1 <= cluster.nodes <= 80:
        raise OptionError(f"nodes {cluster.nodes}: a cluster has 1 to 80 nodes")
    try:
        network = ipaddress.ip_network(cluster.pod_cidr)
    except ValueError as error:
        raise OptionError(f"pod CIDR {cluster.pod_cidr!r}: {error}") from None
    if network.version != 4 or network.prefixlen > 24 or network.is_loopback or 2 ** (24 - network.prefixlen) < cluster.nodes:
        raise OptionError(
            f"pod CIDR {cluster.pod_cidr}: an IPv4 network with a /24 for every node, not loopback (kube-apiserver refuses to proxy to it)"
        )
    return cluster


def _spread(what: str, value: T | tuple[T, ...], count: int) -> tuple[T, ...]:
    return _repeat(what, value if isinstance(value, tuple) else (value,), count)


def _repeat(what: str, values: tuple[T, ...], count: int) -> tuple[T, ...]:
    return values * count if len(values) == 1 else _exactly(what, values, count)


def _exactly(what: str, values: tuple[T, ...], count: int) -> tuple[T, ...]:
    if len(values) != count:
        raise OptionError(f"{what}: {len(values)} values for {count} clusters; give one for all or one per cluster")
    return values


def parse_list(text: str) -> tuple[str, ...]:
    """``a,b`` as a tuple; empty parts are dropped."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_switches(values: Sequence[str], what: str) -> tuple[bool, ...]:
    """``on``/``off`` and ``true``/``false`` as booleans. Raises OptionError naming ``what``."""
    words = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
    try:
        return tuple(words[value.lower()] for value in values)
    except KeyError as error:
        raise OptionError(f"{what} {error.args[0]!r}: use on or off") from None
