# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Revisions of a workload: immutable snapshots of its content, each a ControllerRevision in Karmada's API. Pure.

No server lets the data of a ControllerRevision change (kubernetes: pkg/apis/apps/validation, ValidateControllerRevisionUpdate).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..base.json_fields import mapping, number, parse_time, text
from .contents import content_hash, is_content
from .names import Tenant, karmada_namespace

COLLECTION = "/apis/apps/v1/namespaces/{}/controllerrevisions"
MOST: Final = 999_999_999
"""Highest number of a revision; ``toRevision`` of a FleetWorkload ends there too."""


@dataclass(frozen=True, kw_only=True)
class Revision:
    """Snapshot of a workload. ``context``: where it was placed when it was made, for people to read."""

    number: int
    content: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""  # RFC 3339, "" if it is not known
    uid: str = ""

    @property
    def hash(self) -> str:
        """Digest of the content. It is computed, since a digest that is only stored might be another's."""
        return content_hash(self.content)


def revision_name(workload: str, revision: int) -> str:
    """Return the name of the ControllerRevision. Two runs that make the same number collide, and one of them plans again."""
    return f"{workload}-r{revision}"


def revision_body(tenant: Tenant, workload: str, revision: Revision) -> dict[str, Any]:
    """Return the ControllerRevision to create."""
    metadata = {
        "name": revision_name(workload, revision.number),
        "namespace": karmada_namespace(tenant),
        "labels": tenant.labels_of(workload),
    }
    data = {"content": dict(revision.content), "context": dict(revision.context)}
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": revision.number, "data": data}


def revisions_of(workload: str, found: Iterable[Mapping[str, Any]]) -> dict[int, Revision]:
    """Return the revisions of one workload by number. Objects that no run has made, or that cannot be rendered, are left out."""
    revisions = {}
    for entry in found:
        content, position, created = (
            mapping(entry, "data", "content"),
            number(entry, "revision"),
            text(entry, "metadata", "creationTimestamp"),
        )
        if 0 < position <= MOST and text(entry, "metadata", "name") == revision_name(workload, position) and is_content(content):
            revisions[position] = Revision(
                number=position,
                content=content,
                context=mapping(entry, "data", "context"),
                created=created if parse_time(created) else "",
                uid=text(entry, "metadata", "uid"),
            )
    return revisions


def taken_numbers(workload: str, names: Iterable[str]) -> frozenset[int]:
    """Return the numbers whose names are taken, also by what is no revision: a new one would collide with it again and again."""
    before = revision_name(workload, 0)[:-1]
    ends = [name.removeprefix(before) for name in names if name.startswith(before)]
    return frozenset(int(end) for end in ends if end.isascii() and end.isdigit() and len(end) < len(str(MOST + 1)))


def surplus(revisions: Collection[int], limit: int, keep: Collection[int]) -> tuple[int, ...]:
    """Return the revisions to delete, the oldest first: all but the newest ``limit`` beside those in ``keep``, which always stay."""
    old = sorted(number for number in revisions if number not in keep)
    return tuple(old[: max(0, len(old) - limit)])
