# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Cluster that a source of the inventory has, and its form in a cache. It holds names and paths, and never credentials. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .play import plain


@dataclass(frozen=True, kw_only=True)
class FoundCluster:
    """Cluster of a source.

    :param name: what the source calls it: its context, or its file without the ending.
    :param place: where it is, for messages, such as the path of a file.
    :param variables: of its host, those that the source knows.
    """

    name: str
    place: str
    variables: Mapping[str, str]


def cached_form(asked: str, clusters: Iterable[FoundCluster]) -> dict[str, Any]:
    """Return the clusters as plain data.

    :param asked: digest of what the source was asked for. The keys of Ansible's cache have 24 bits of a digest of the path, which two
        inventories can share, and say nothing of the options.
    """
    return {"asked": asked, "clusters": [asdict(found) for found in clusters]}


def from_cache(asked: str, document: Any) -> list[FoundCluster] | None:
    """Return the clusters of a cached document; None where it answers another question, or is none of ours."""
    document = plain(document)
    if not isinstance(document, dict) or document.get("asked") != asked:
        return None
    try:
        found = [FoundCluster(**entry) for entry in document["clusters"]]
    except (LookupError, TypeError):  # it is of another version
        return None
    return found if all(isinstance(one.name, str) and isinstance(one.variables, dict) for one in found) else None
