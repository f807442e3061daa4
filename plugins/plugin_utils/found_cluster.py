# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Cluster that a source of the inventory has, and its form in a cache. It holds names and paths, and never credentials. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .host_credentials import KUBECONFIG_FROM
from .play import UNAVAILABLE, plain


@dataclass(frozen=True, kw_only=True)
class FoundCluster:
    """Cluster of a source.

    :param name: what the source calls it: its context, its file without the ending, or a name in a management cluster.
    :param place: where it is, for messages, such as the path of a file.
    :param variables: of its host, those that the source knows.
    :param also: other names under which the option ``names`` may have it.
    :param namespace: of its object in a management cluster, which also has ``labels``.
    """

    name: str
    place: str
    variables: Mapping[str, Any]
    also: tuple[str, ...] = ()
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name under which ``names`` may have it."""
        return tuple(dict.fromkeys((self.name, *self.also)))

    @property
    def seen(self) -> dict[str, Any]:
        """What expressions see of it."""
        return {"name": self.name, "namespace": self.namespace, "labels": dict(self.labels)}


def cached_form(asked: str, clusters: Iterable[FoundCluster]) -> dict[str, Any]:
    """Return the clusters as plain data. Why one is not available is left out where its kubeconfig has a name: the next run may get it.

    :param asked: digest of what the source was asked for. The keys of Ansible's cache have 24 bits of a digest of the path, which two
        inventories can share, and say nothing of the options.
    """
    kept = [asdict(found) for found in clusters]
    for entry in kept:
        if KUBECONFIG_FROM in entry["variables"]:
            entry["variables"].pop(UNAVAILABLE, None)
    return {"asked": asked, "clusters": kept}


def from_cache(asked: str, document: Any) -> list[FoundCluster] | None:
    """Return the clusters of a cached document; None where it answers another question, or is none of ours."""
    document = plain(document)
    if not isinstance(document, dict) or document.get("asked") != asked:
        return None
    try:
        found = [FoundCluster(**{**entry, "also": tuple(entry["also"])}) for entry in document["clusters"]]
    except (LookupError, TypeError):  # it is of another version
        return None
    return found if all(isinstance(one.name, str) and isinstance(one.variables, dict) for one in found) else None
