# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Why a run failed, read from the result of its action. Pure.

The tasks of roles and playbooks have ``failed_when: false``, and a task behind them fails (action mesh_end): a task that fails shows its
whole result as JSON. So the message of a result says that its run failed, and not the key ``failed`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..findings.catalogue import IMPACT_CODES

UNFINISHED: Final = "A task of the playbook failed; its message says why."


def failure_of(result: Mapping[str, Any]) -> str:
    """Return why the run failed that returned this result, in the words of its action; "" if it did not fail.

    A result that ``failed_when`` speaks free and that is none of this collection's actions failed in Ansible itself.
    """
    withheld = result.get("failed_when_result") is False
    if result.get("failed") or (withheld and (result.get("msg") or "findings" not in result)):
        return str(result.get("msg") or UNFINISHED)
    return ""


def lead_of(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the finding for which a run failed; None if there is none.

    It is the first whose code its message begins with, or else that blocks, or else that is about a cluster or an item that its message
    names.

    :param result: of a run that failed; its findings as ``Finding.to_dict`` returns them.
    """
    findings: Sequence[Mapping[str, Any]] = result.get("findings") or ()
    message = str(result.get("msg", ""))
    words = frozenset(re.findall(r"[\w./-]*\w", message))
    named = (finding for finding in findings if message.startswith(f"{finding['code']}:"))
    blocking = (finding for finding in findings if finding["severity"] == "blocking" and not finding["accepted"])
    wanting = (finding for finding in findings if finding["severity"] == "remediable" and finding["code"] not in IMPACT_CODES)
    about = (
        finding for finding in wanting if {finding["cluster"], finding.get("item", ""), *finding.get("item", "").split("/")[1:]} & words
    )
    return next(named, None) or next(blocking, None) or next(about, None)
