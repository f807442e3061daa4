# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last line of the demo, out of what the kvstoremesh processes said. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The last line of a demo. ``good``: everything that it is to show was seen."""

    good: bool
    text: str


def judge(binding: str, clusters: Sequence[str], said: Mapping[str, Iterable[Mapping[str, Any]]], phase: str) -> Verdict:
    """Compare the two witnesses: every kvstoremesh, and the phase that the collection reported. Links are counted per direction.

    :param said: by cluster, the rows of its ``kvstoremesh-dbg status -o json`` (``name`` of the peer, ``ready``); absent: not asked.
    :param phase: ``status.binding.phase`` of the collection's own result, "" when there was none.
    """
    wanted = {(local, peer) for local in clusters for peer in clusters if local != peer}
    ready = {(local, str(row.get("name"))) for local, rows in said.items() for row in rows if row.get("ready") is True} & wanted
    whole = [local for local in clusters if all(link in ready for link in wanted if link[0] == local)]
    connected = ready == wanted and phase == "Connected"
    word = "Connected" if connected else "not connected"
    counted = f"{len(whole)}/{len(clusters)} clusters, {len(ready)}/{len(wanted)} links ready"
    doubt = f"; the collection reported {phase or 'no phase'}" if ready == wanted and not connected else ""
    return Verdict(good=connected, text=f"{binding}: {word} ({counted}{doubt})")
