# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Records of another source of custom resources: they are reported, and taken over once the platform says so.

They are there after a restore, in a copy of the management plane, and after the source was replaced. What they say was true of the source
that they were written for: that none of its resources is here means nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from logging import WARNING
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError, WriteConflict

from ..base.log import log
from ..source.stored import MeshObjects
from .records import Record, Records

RECORD_OF_ANOTHER_SOURCE: Final = "RecordOfAnotherSource"  # reason of conditions and Events
ANOTHER: Final = "AnotherSource"  # reason of the metric
UNKNOWN: Final = "UnknownSource"
NO_SOURCE: Final = "unknown"
"""Value of --take-over-records for records that name no source, as versions of the operator before this field wrote them."""

HELD: Final = (
    "The operator's records are of another source of custom resources, as after a restore or in a copy. Nothing is written until the"
    " platform has decided about them."
)
"""Message to a tenant. It names no record: that may be another tenant's."""

_WHAT_TO_DO: Final = "They lead to no write. Read docs/backup.md before --take-over-records"
PAUSE: Final = 60.0  # seconds between two reads of records that may have been deleted
REMINDER: Final = 3600.0  # seconds between two reports in the log


class ForeignRecords:
    """Tracker of the records of other sources. Times are monotonic seconds.

    :param taken_over: source whose records become this one's; "" for none.
    :ivar counts: records of other sources, by reason; as they were at the last read.
    """

    def __init__(self, records: Records, taken_over: str) -> None:
        self._records, self._taken_over = records, taken_over
        self._read_at, self._logged, self._logged_at = float("-inf"), Counter[str](), float("-inf")
        self.counts: Mapping[str, float] = {ANOTHER: 0, UNKNOWN: 0}

    def own(self, now: float) -> tuple[Record, ...]:
        """Return the records of this source, with those that are taken over now; report the others. Raises nothing: () if that fails."""
        try:
            for record in self._records.foreign():
                if self._taken_over and source_of(record) == self._taken_over:
                    self._take_over(record)
            if now >= self._read_at + PAUSE:
                self._read_at = now
                self._records.drop_deleted(self._records.foreign())
            self._report(now)
            return self._records.all()
        except ClusterError as error:  # the source or the management plane does not answer; it is asked again in some seconds
            log("records_not_judged", level=WARNING, code=error.code)
            return ()

    def _take_over(self, record: Record) -> None:
        key = record.key
        try:
            self._records.take_over(record)
        except WriteConflict:  # it was read anew, for the next try
            return
        log("record_taken_over", level=WARNING, workspace=key.workspace, namespace=key.namespace, name=key.name, source=source_of(record))

    def _report(self, now: float) -> None:
        found = Counter(source_of(record) for record in self._records.foreign())
        self.counts = {ANOTHER: found.total() - found[NO_SOURCE], UNKNOWN: found[NO_SOURCE]}
        reminds = now >= self._logged_at + REMINDER
        for source, count in found.items():
            if reminds or count > self._logged[source]:
                log("records_of_another_source", level=WARNING, count=count, source=source, reason=_WHAT_TO_DO)
        self._logged, self._logged_at = found, now if reminds else self._logged_at


def source_of(record: Record) -> str:
    """Return the source of a record, as --take-over-records names it."""
    return record.source or NO_SOURCE


def record_that_holds(mesh: MeshObjects, records: Records) -> Record | None:
    """Return a record of another source because of which nothing is done for a mesh; None if there is none.

    That is one of its key. And as long as there is a record that is known to be of another source, a mesh without a record of its own is
    not begun: its clusters may hold the same mesh, made for the other source. It can be deleted: no cluster holds anything of it.

    A record that does not say its source becomes one of this source if the binding has the uid in it: no restored object has it.

    :raises ClusterError: as the methods of Records.
    """
    record, binding = records.find(mesh.key), mesh.binding
    if record is None:
        if binding is None or binding.deleting:
            return None
        return next(filter(records.is_of_another, records.foreign()), None)
    if records.is_own(record):
        return None
    if record.source or not record.uid or binding is None or binding.uid != record.uid:
        return record
    records.take_over(record)
    return None
