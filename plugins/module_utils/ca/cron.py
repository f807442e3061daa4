# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Time of the next run of a CronJob. Only the five-field form is read; @monthly and time zones, which Kubernetes also accepts, are not."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

_LIMITS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))  # minute, hour, day of month, month, day of week
_PART: Final = re.compile(r"(\*|\d{1,2}(?:-\d{1,2})?)(?:/(\d{1,2}))?")
_HORIZON: Final = 366 * 5  # days; a schedule for 29 February is due within that time


def next_run(schedule: str, now: datetime) -> datetime | None:
    """Return the first minute after ``now`` that the schedule names; None when it is not understood or names none.

    ``now`` is aware, in UTC as kube-controller-manager's default. A day counts when it matches day of month and day of week; when both
    are restricted, one of them is enough (crontab(5); robfig/cron, which Kubernetes uses, does the same).
    """
    fields = schedule.split()
    if len(fields) != 5:
        return None
    sets = [_values(field, *limits) for field, limits in zip(fields, _LIMITS, strict=True)]
    if any(values is None for values in sets):
        return None
    minutes, hours, days, months, weekdays = (values or frozenset() for values in sets)
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    start = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    for offset in range(_HORIZON):
        day = start + timedelta(days=offset)
        on_date, on_weekday = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month not in months or not (on_date or on_weekday if either else on_date and on_weekday):
            continue
        for hour in sorted(hours):
            for minute in sorted(minutes):
                found = day.replace(hour=hour, minute=minute)
                if found >= start:
                    return found
    return None


def _values(field: str, low: int, high: int) -> frozenset[int] | None:
    """Return the numbers that a field names; None if it is not understood."""
    found: set[int] = set()
    top = 7 if high == 6 else high  # 7 is Sunday too
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        begin, _sep, end = match[1].partition("-")
        step = int(match[2] or 1)
        first = low if begin == "*" else int(begin)
        last = int(end) if end else high if begin == "*" or match[2] else first
        if first < low or last > top or first > last or step < 1:
            return None
        found.update(range(first, last + 1, step))
    return frozenset(value % 7 for value in found) if high == 6 else frozenset(found)
