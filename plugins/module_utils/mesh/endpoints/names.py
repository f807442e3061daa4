# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Names under which the endpoint of a cluster may be dialled.

The pods of all other clusters resolve a name with host aliases as its owner wants it. So such a name is below ``mesh.cilium.io``, or below
a domain that the user lists for the cluster (host variable ``cilium_mesh_endpoint_domains``). Names that have a meaning inside a cluster
are dialled in no case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

MESH_DOMAIN: Final = "mesh.cilium.io"  # default of the chart's clustermesh.config.domain

_LABEL: Final = r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
_DNS_NAME: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?")
_INNER: Final = frozenset({"local", "localhost", "svc"})
"""Last labels of names inside a cluster or on a link: ``cluster.local`` and multicast DNS (RFC 6762), the host itself (RFC 6761), and
Services, which the search domains of a pod complete (Kubernetes, "DNS for Services and Pods")."""


def is_dns_name(text: str) -> bool:
    """Return whether ``text`` is a host name by RFC 1123; a name whose last label is a number would be read as an IPv4 address."""
    return _DNS_NAME.fullmatch(text) is not None and not text.rstrip(".").rpartition(".")[2].isdecimal()


def canonical_name(name: str) -> str:
    """Return a DNS name in lower case and without the dot at its end, so that comparing text compares names."""
    return name.lower().removesuffix(".")


@lru_cache(maxsize=4096)
def is_inner_name(name: str) -> bool:
    """Return whether a name has a meaning inside a cluster: it has no dot, ends as such names do, or is a Service's."""
    labels = canonical_name(name).split(".")
    return len(labels) < 2 or labels[-1] in _INNER or "svc" in labels[2:]


def is_endpoint_domain(text: str) -> bool:
    """Return whether the user may list ``text`` as a domain of endpoints: names below it mean nothing inside a cluster."""
    return is_dns_name(text) and "." in canonical_name(text) and not is_inner_name(f"cluster.{text}")


def is_permitted_domain(domain: str, listed: Iterable[str]) -> bool:
    """Return whether a name right below ``domain`` may get host aliases in other clusters.

    :param listed: the domains that the user lists for the cluster.
    """
    return not is_inner_name(f"cluster.{domain}") and any(_is_within(domain, root) for root in (MESH_DOMAIN, *listed))


@dataclass(frozen=True, kw_only=True)
class MemberNames:
    """DNS names of the members of a mesh, each with the inventory names of those to which it belongs (member_names.py)."""

    aliases: Mapping[str, frozenset[str]] = field(default_factory=dict)  # names that other clusters may have as host aliases
    in_use: Mapping[str, frozenset[str]] = field(default_factory=dict)  # names of endpoints, and those that are dialled; canonical

    def is_alias_of_another(self, name: str, host: str) -> bool:
        """Return whether a DNS name is that of the host aliases of another member than ``host``."""
        return bool(self.aliases.get(canonical_name(name), frozenset()) - {host})

    def is_used_by_another(self, name: str, host: str) -> bool:
        """Return whether another member than ``host`` uses a name, as its own or to dial one."""
        return bool(self.in_use.get(name, frozenset()) - {host})


def refusal_of_name(name: str, *, of_another: bool = False) -> str:
    """Return why the name that a load balancer reports is not dialled, as the end of a sentence; "" if it may be.

    :param of_another: whether the name is that of another cluster's host aliases.
    """
    if not is_dns_name(name):
        return "is not a DNS name"
    if is_inner_name(name):
        return "has a meaning inside the clusters that would dial it"
    return "is the name of another cluster" if of_another else ""


def _is_within(name: str, root: str) -> bool:
    wanted, top = canonical_name(name), canonical_name(root)
    return wanted == top or wanted.endswith(f".{top}")
