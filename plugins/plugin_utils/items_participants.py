# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Members that do not answer while items are carried out: which of them stop the run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..module_utils.absence import OWN_FAULT, REFUSED
from ..module_utils.facts import ObserveFailure
from ..module_utils.findings import Finding, Severity, ordered
from ..module_utils.items.kinds import ItemKind
from ..module_utils.items.scene import Scene
from ..module_utils.observe import Observation
from .outcome import failure_findings

NO_ROWS: Final[Mapping[str, list[Any]]] = {kind.value: [] for kind in ItemKind}

LEFT_OUT: Final = "CM-TOPO-02"
LEFT: Final = "What items made there stays as it is; they are carried out in the other clusters."


def silent_findings(scene: Scene, former: Observation | None, *, leaving: bool, max_failures: int | None) -> tuple[Finding, ...]:
    """A finding per cluster that did not answer or could not be read; blocking ones stop the run before its first write.

    :param leaving: items are taken away: that must work with broken and dead clusters, as long as one answers.
    :param max_failures: so many may fail in whatever way. None: any number that are down, but none that answers and says no: its RBAC or
        its kubeconfig is wrong, and waiting does not cure it.
    """
    failures = {host: failure for host, failure in scene.failures.items() if failure.code != LEFT_OUT}
    many = max_failures is not None and len(failures) > max_failures and not leaving
    stopping: list[ObserveFailure] = []
    rest: list[ObserveFailure] = []
    for failure in failures.values():
        stops = not scene.hosts or many or _stops(failure, leaving=leaving, allowed=max_failures is not None)
        (stopping if stops else rest).append(failure)
    why = f"{len(failures)} members do not answer, and max_failures allows {max_failures}." if many else ""
    gone = former.failures.values() if former else ()
    return ordered(
        (
            *failure_findings(stopping, Severity.BLOCKING, why),
            *failure_findings((*rest, *gone), Severity.REMEDIABLE, LEFT),
        )
    )


def _stops(failure: ObserveFailure, *, leaving: bool, allowed: bool) -> bool:
    return failure.code in OWN_FAULT or (failure.code in REFUSED and not leaving and not allowed)
