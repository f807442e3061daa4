# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The packages of the engine and the rooms of the operator: what each may import, and where it is drawn.

``tests/unit/project/test_layers.py`` holds them. ``python -m tests.testing.drawings`` draws them, and writes into the docstring of each
what it may import.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT

ENGINE: Final = CHECKOUT / "plugins" / "module_utils"
OPERATOR: Final = CHECKOUT / "operator" / "mesh_operator"

ALLOWED: Final[dict[str, str]] = {
    "base": "",
    "kubeconfig": "base",
    "kube": "base kubeconfig",
    "mesh": "base",
    "etcd": "base mesh",
    "findings": "mesh",
    "plan": "base findings mesh",
    "metrics": "base findings mesh",
    "leases": "base findings mesh plan",
    "lock": "base kube leases mesh",
    "observe": "base etcd kube kubeconfig leases lock mesh",
    "links": "base findings leases mesh plan",
    "status": "base etcd findings mesh",
    "items": "findings mesh plan",
    "envelope": "base mesh",
    "checks": "base envelope etcd findings leases links mesh plan",
    "ca": "base findings mesh observe plan status",
    "apply": "base ca kube leases mesh observe plan",
    "adopt": "base findings leases links mesh plan",
    "identity": "apply base findings leases links mesh observe plan",
    "services": "base findings items mesh plan",
    "policies": "base findings items mesh plan services",
    "exposure": "base findings items mesh plan policies services",
    "probe": "base findings items mesh policies",
    "evidence": "base items kube mesh observe probe",
    "explain": "base items mesh observe policies services",
    "reach": "base findings items mesh plan policies services",
    "rbac": "base findings leases mesh plan",
    "upgrade": "base findings items mesh plan policies reach services",
    "fleet": "base findings items mesh observe plan",
    "members": "base findings fleet kubeconfig mesh observe plan",
    "reconcile": "base exposure findings items leases mesh observe plan policies probe services",
    "rehearse": "base exposure items leases mesh services",
    "report": "base checks findings mesh",
    "gather": "base leases mesh",
    "pipeline": "adopt apply base ca checks envelope etcd evidence findings fleet gather identity items kubeconfig leases links lock"
    " members mesh observe plan probe rbac reach reconcile rehearse report services status",
}
"""Package of module_utils -> packages that it may import, from the ground up. A package imports only those that stand above it here."""

RIM: Final = frozenset({"observe", "lock", "apply", "evidence"})
"""The packages that send requests: only these import ``kube`` (docs/decisions/0077)."""

ANSIBLE_RIM: Final = frozenset({"plugin_utils/cluster_sources.py", "plugin_utils/secret_kubeconfigs.py"})
"""Files beside the engine that import ``kube``: they read the management cluster that an inventory names, before there is any run."""

PORTS: Final = frozenset({"ports.py", "item_ports.py", "member_ports.py", "trust_ports.py"})
"""Files of ``pipeline`` that name the functions of the rim. Everything else of it gets them as ports."""

MACHINE: Final[dict[str, str]] = {
    "module_utils/base/clocks.py": "time datetime",  # the clocks that every run gets as ports
    "module_utils/base/dialling.py": "socket",  # names and addresses that may be dialled
    "module_utils/etcd/client.py": "time",
    "module_utils/kube/authorization.py": "time datetime",
    "module_utils/kube/client.py": "time",
    "module_utils/kube/connections.py": "socket",
    "module_utils/kube/deadlines.py": "socket time",
    "module_utils/kube/errors.py": "socket datetime",
    "module_utils/kube/streams.py": "time",
    "module_utils/kube/tls.py": "time",
    "module_utils/lock/holder.py": "socket",  # the name of this machine
    "module_utils/observe/tls_probe.py": "socket time",
}
"""File of plugins -> the modules ``socket`` and ``time`` that it imports, and ``datetime`` where it asks that for the time."""

REAL_CLOCKS: Final = frozenset({"module_utils/pipeline/ports.py", "action/mesh_publish.py", "filter/propagation_policy.py"})
"""Files that use ``base.clocks.real_clocks``: the ports of every run, and what Ansible calls without a run."""

ROOMS: Final[dict[str, str]] = {
    "base": "",
    "source": "base",
    "credentials": "base source",
    "schedule": "base",
    "statuses": "base source",
    "runs": "base credentials statuses",
    "meshes": "base credentials runs schedule source statuses",
    "fleets": "base credentials runs schedule source statuses",
}
"""Room of the operator -> rooms that it may import, from the ground up. The files beside the rooms put them together."""

MESH_ROOMS: Final[dict[str, str]] = {
    "facts": "",
    "binding": "",
    "versions": "binding facts",
    "x509": "facts",
    "endpoints": "binding facts versions",
    "ownership": "binding endpoints facts",
    "trust": "binding endpoints facts x509",
}
"""Room of the package ``mesh``, likewise. The files beside the rooms need several of them."""

HOUSES: Final[tuple[tuple[Path, dict[str, str]], ...]] = ((OPERATOR, ROOMS), (ENGINE / "mesh", MESH_ROOMS))
"""Folders that have rooms."""

BANDS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("run", "one run from options to an outcome; the dry run", ("pipeline",)),
    (
        "results",
        "several kinds in one run, and what comes out",
        ("reconcile", "explain", "reach", "rehearse", "upgrade", "report", "gather", "metrics"),
    ),
    ("write", "carry out a plan, take over, roll a CA, probe", ("ca", "apply", "adopt", "identity", "probe", "evidence")),
    (
        "decide",
        "facts in; findings, plans and statuses out",
        ("links", "checks", "envelope", "status", "services", "policies", "exposure", "fleet", "members", "rbac"),
    ),
    ("read", "clusters in, facts out; one writer at a time", ("observe", "lock")),
    ("vocabulary", "what every decision is made of", ("findings", "plan", "leases", "items")),
    ("ground", "values, rules about them, and clients", ("base", "kubeconfig", "kube", "mesh", "etcd")),
)
"""The packages of the engine from the top down. A package imports from its own band and from those below it."""

ROOM_BANDS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("units", "objects in, a request out; a result in, statuses out", ("meshes", "fleets")),
    ("tenants' work", "confined children; what their results say", ("runs", "statuses")),
    ("whose", "whose cluster it is, and whose turn", ("credentials", "schedule")),
    ("outside", "kcp, or an ordinary cluster", ("source",)),
    ("ground", "kinds, keys, settings, connections", ("base",)),
)
"""The rooms of the operator, likewise."""

_SAID: Final = re.compile(r"May import: [^.]*\.")


def docstrings() -> Iterator[tuple[Path, str]]:
    """Yield each file with the docstring of a package or room, and the text that it has to have: what it may import stands in it."""
    for folder, allowed, none in (
        (ENGINE, ALLOWED, "nothing of this collection"),
        *((house, rooms, "no other room") for house, rooms in HOUSES),
    ):
        for package, names in allowed.items():
            path = folder / package / "__init__.py"
            said = textwrap.fill(f"May import: {', '.join(sorted(names.split())) or none}.", 140)
            yield path, _SAID.sub(said, path.read_text(encoding="utf-8"))
