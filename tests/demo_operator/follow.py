# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The phases of all tenants' resources, as ``kubectl get --watch`` shows them: a line per change, with the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.demo.stages import StageFailed, say
from tests.demo_operator.scene import documents_in
from tests.testing.kcp_client import path_of
from tests.testing.kcp_world import Tenant
from tests.testing.waiting import NeverCame, wait_for

GONE: Final = "gone"
_INTERVAL: Final = 0.2  # seconds
_TEXT: Final = 110  # characters of a message


@dataclass(frozen=True, kw_only=True)
class Change:
    """``at``: seconds since the follower began. ``phase``: that of the status, or "gone"."""

    at: float
    tenant: str
    kind: str
    phase: str


class Follower:
    """Asks as each tenant, in its own workspace. ``history`` is what the verdict is made of."""

    def __init__(self, tenants: Iterable[Tenant]) -> None:
        self._tenants = tuple(tenants)
        self._began = time.monotonic()
        self.history: list[Change] = []

    def now(self) -> float:
        return time.monotonic() - self._began

    def phase(self, tenant: str, kind: str) -> str:
        """The last one; "" before the first."""
        return next((c.phase for c in reversed(self.history) if (c.tenant, c.kind) == (tenant, kind)), "")

    def tell(self, tenant: str, what: str) -> None:
        say(f"      {self.now():5.1f} s  {tenant}  {what}")

    def follow(self, seconds: float) -> None:
        """Tell what changes in that time."""
        end = self.now() + seconds
        while self.now() < end:
            self._observe()

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Print what changes until ``holds``. Raises StageFailed when no phase changes any more (tests/testing/waiting.py)."""

        def probe() -> bool:
            if holds():
                return True
            self._observe()
            return False

        try:
            wait_for(probe, what=what, progress=lambda: len(self.history), every=0.0)
        except NeverCame as error:
            raise StageFailed(str(error)) from None

    def _observe(self) -> None:
        for tenant in self._tenants:
            for document in documents_in(tenant.home):
                kind, found = document["kind"], tenant.client.get(path_of(document))
                phase = GONE if found is None else str((found.get("status") or {}).get("phase", ""))
                if phase and phase != self.phase(tenant.name, kind):
                    self.history.append(Change(at=self.now(), tenant=tenant.name, kind=kind, phase=phase))
                    self.tell(tenant.name, f"{f'{kind}/' + document['metadata']['name']:36}  {phase:10}  {_ready(found)}".rstrip())
        time.sleep(_INTERVAL)


def _ready(found: Mapping[str, Any] | None) -> str:
    """What its condition Ready says."""
    conditions = ((found or {}).get("status") or {}).get("conditions") or ()
    text = next((str(entry.get("message", "")) for entry in conditions if entry.get("type") == "Ready"), "")
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
