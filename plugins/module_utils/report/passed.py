# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What was checked and passed, by subject. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from ..base.tables import count
from ..findings.catalogue import FAMILIES
from ..findings.finding import Finding
from ..findings.wording import listed


def passed_sentence(checked: Iterable[str], findings: Iterable[Finding], clusters: Collection[str]) -> str:
    """Return ``41 of 43 checks of c1 and c2 passed: Mesh endpoints 8 of 9, …``; "" if nothing was checked.

    A check passes if it has no finding. Subjects stand in the order of the catalogue.

    :param checked: codes of the checks that ran.
    :param clusters: inventory names of those that were observed; of the others nothing is known.
    """
    met = {finding.code for finding in findings}
    total: Counter[str] = Counter()
    good: Counter[str] = Counter()
    for code in sorted(set(checked)):
        subject = FAMILIES[code.rpartition("-")[0]]
        total[subject] += 1
        good[subject] += code not in met
    if not total or not clusters:
        return ""
    subjects = [subject for subject in dict.fromkeys(FAMILIES.values()) if total[subject]]
    texts = [f"{subject} {_of(good[subject], total[subject])}" for subject in subjects]
    whole = total.total()
    head = f"{good.total()} of {count(whole, 'check')}" if good.total() < whole else f"All {count(whole, 'check')}"
    return f"{head} of {listed(clusters)} passed: {', '.join(texts)}"


def _of(good: int, total: int) -> str:
    return str(good) if good == total else f"{good} of {total}"
