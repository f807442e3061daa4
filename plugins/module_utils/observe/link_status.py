# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of the JSON in which agents and kvstoremesh report their remote clusters (api/v1/models/remote_cluster.go).

It repeats data that a peer published, so it is not trusted: wrong types count as absent, text becomes one short line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..base.json_fields import items, mapping, number, text
from ..base.redact import one_line
from ..mesh.facts import LinkFacts

KINDS = ("nodes", "endpoints", "identities", "services")
NEVER = "0001-01-01"  # Go's zero time


def kvstoremesh_statuses(output: str) -> dict[str, Mapping[str, Any]] | None:
    """Parse ``kvstoremesh-dbg status -o json`` or ``GET /v1/cluster`` to statuses by the peer's Cilium name; None if it is no list."""
    document = _document(output)
    if document is None:
        return {}  # no remote cluster: Go writes null for an empty list
    return _by_name(items({"clusters": document}, "clusters")) if isinstance(document, list) else None


def agent_statuses(output: str) -> dict[str, Mapping[str, Any]] | None:
    """Parse ``cilium status -o json`` to statuses by the peer's Cilium name; None if it is no object, {} if the agent has no mesh."""
    document = _document(output)
    return _by_name(items(document, "cluster-mesh", "clusters")) if isinstance(document, dict) else None


def link_from_status(link: LinkFacts, status: Mapping[str, Any] | None) -> LinkFacts:
    """Return ``link`` (cluster, peer and reader) completed with the reader's report; None: the reader does not list the peer."""
    if status is None:
        return link
    config = mapping(status, "config")
    return LinkFacts(
        cluster=link.cluster,
        peer=link.peer,
        reader=link.reader,
        pod=link.pod,
        node=link.node,
        source=link.source,
        known=True,
        ready=status.get("ready") is True,
        connected=status.get("connected") is True,
        status=one_line(status.get("status"), 300),
        # go-swagger leaves false out; without "config" at all nothing is known yet
        config_required=config.get("required") is True if config else None,
        config_retrieved=config.get("retrieved") is True if config else None,
        cluster_id=number(config, "cluster-id") or None,
        synced=_synced(mapping(status, "synced")),
        failures=max(0, number(status, "num-failures")),
        last_failure=_last_failure(text(status, "last-failure")),
    )


def _synced(found: Mapping[str, Any]) -> dict[str, bool]:
    """Return which kinds are synchronised: the four of every release, and further ones.

    False is not written, so an absent one is not synced.
    """
    return dict.fromkeys(KINDS, False) | {one_line(k, 40): v is True for k, v in list(found.items())[:20]} if found else {}


def _last_failure(value: str) -> str:
    return "" if value.startswith(NEVER) else one_line(value, 40)


def _by_name(statuses: list[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {text(s, "name"): s for s in statuses if text(s, "name")}


def _document(output: str) -> Any:
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        return ""
