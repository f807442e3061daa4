# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""State of the lock in one member as it was read, and the bodies with which it is taken, renewed and emptied. Pure.

All times are those of the member's API server. Nothing in the object is trusted: types are checked, and texts are cut to one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Any, Final

from ..base.json_fields import mapping, parse_time, text
from ..base.redact import one_line
from ..leases.registry import registry_name
from ..mesh.binding.model import Binding
from ..mesh.ownership.objects import labels_of_new_object

DURATION: Final = 30  # seconds that a lock lasts without renewal, where the user sets no other
SHORTEST: Final = 5  # seconds; the least that a user can set
LONGEST_WAIT: Final = 86_400  # seconds; the most that a user can let a run wait for another
LONGEST: Final = 3600  # seconds; what an object says beyond that counts as this much
MARGIN: Final = 5.0  # seconds by which the servers of one cluster may differ, and by which Date rounds
HOLDER_LIMIT: Final = 200  # characters of a holder's name
_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"  # metav1.MicroTime


@dataclass(frozen=True, kw_only=True)
class LockState:
    """Lock of one member. ``holder`` is "" where no run holds it. ``read_at``: the server's time of the answer; None if it sent no date.

    ``absent_at``: where there is no lock, the version of the collection without it; "" if the version is not known.
    """

    present: bool = False
    uid: str = ""
    version: str = ""
    absent_at: str = ""
    holder: str = ""
    since: datetime | None = None
    renewed: datetime | None = None
    duration: int = DURATION
    transitions: int = 0
    read_at: datetime | None = None

    @property
    def ends(self) -> datetime | None:
        """Time after which any run may take the lock, unless it is renewed; None if the object has no time."""
        return self.renewed + timedelta(seconds=self.duration + MARGIN) if self.renewed is not None else None

    @property
    def expired(self) -> bool:
        """Whether the lock had ended by the time of the answer."""
        return self.ends is not None and self.read_at is not None and self.read_at > self.ends

    @property
    def untimely(self) -> bool:
        """Whether the time of the renewal is none that a run writes: missing, or later than this very answer."""
        return self.renewed is None or (self.read_at is not None and self.renewed > self.read_at + timedelta(seconds=MARGIN))

    @property
    def patience(self) -> float:
        """Seconds without a renewal after which the holder counts as ended.

        A run whose server's clock was set back renews within a third of its duration, and its time is right again. Another run with an
        untimely lock, whatever duration it claims, is waited for as long as is usual, and no longer.
        """
        return (min(self.duration, DURATION) if self.untimely else self.duration) + MARGIN

    def held_by_other(self, holder: str) -> bool:
        """Return whether another run than ``holder`` held the lock when it was read."""
        return self.holder not in ("", holder) and not self.expired


def lock_name(binding: Binding) -> str:
    """Return the name of the Lease; the lease registry has the same, as an object of another kind."""
    return registry_name(binding)


def locks_path(namespace: str) -> str:
    """Return the API path of the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def lock_state(value: Any, read_at: datetime | None) -> LockState:
    """Return the state that an object of kind Lease has, present or missing."""
    if value is None:
        return LockState(read_at=read_at)
    spec = mapping(value, "spec")
    return LockState(
        present=True,
        uid=text(value, "metadata", "uid"),
        version=text(value, "metadata", "resourceVersion"),
        holder=one_line(text(spec, "holderIdentity"), HOLDER_LIMIT),
        since=_time(spec.get("acquireTime")),
        renewed=_time(spec.get("renewTime")),
        duration=min(max(_number(spec.get("leaseDurationSeconds"), DURATION), 1), LONGEST),
        transitions=max(_number(spec.get("leaseTransitions"), 0), 0),
        read_at=read_at,
    )


def new_body(binding: Binding, namespace: str) -> dict[str, Any]:
    """Return the Lease of a member that has none, which no run holds yet."""
    metadata = {"name": lock_name(binding), "namespace": namespace, "labels": labels_of_new_object(binding)}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


def taken_body(state: LockState, holder: str, duration: int, now: datetime) -> dict[str, Any]:
    """Return the merge patch by which ``holder`` takes the lock, over the version of ``state``."""
    spec = {
        "holderIdentity": holder,
        "acquireTime": _text(now),
        "renewTime": _text(now),
        "leaseDurationSeconds": duration,
        "leaseTransitions": state.transitions + 1,
    }
    return {"metadata": {"resourceVersion": state.version}, "spec": spec}


def renewed_body(version: str, now: datetime) -> dict[str, Any]:
    """Return the merge patch by which the holder renews the lock."""
    return {"metadata": {"resourceVersion": version}, "spec": {"renewTime": _text(now)}}


def emptied_body(version: str) -> dict[str, Any]:
    """Return the merge patch by which the holder gives the lock back. The count of holders stays."""
    gone = dict.fromkeys(("holderIdentity", "acquireTime", "renewTime", "leaseDurationSeconds"))
    return {"metadata": {"resourceVersion": version}, "spec": gone}


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime(_TIME)


def _time(value: Any) -> datetime | None:
    """Parse a time of the object; None if it is not valid, or so late that a duration cannot be added."""
    found = parse_time(value) if isinstance(value, str) else None
    return found if found is not None and found.year < MAXYEAR else None


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
