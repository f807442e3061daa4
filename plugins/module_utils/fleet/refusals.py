# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Why a member did not take an object, as a sentence of our own. Pure.

Karmada passes on what the member's API server said (``appliedMessage``). That text may name service accounts, webhooks and objects of
other tenants, so a tenant gets a sentence by its class, and the text goes to the operators of the control plane.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Refusal(NamedTuple):
    """Class of a refusal: a CamelCase word, and a sentence about the object, which begins in lower case."""

    reason: str
    sentence: str
    passes: bool = False  # by itself: Karmada brings a namespace after what is in it, and tries again


_ROWS: Final = (
    (r"already exists in the cluster", "AlreadyExists", "exists in the cluster already and was not made by the fleet; delete or rename it"),
    (r"PodSecurity|violates .*security", "PodSecurity", "is not permitted by the Pod Security level of its namespace"),
    (
        r"ValidatingAdmissionPolicy|admission webhook|denied the request|denied request",
        "AdmissionDenied",
        "is refused by a rule of the cluster",
    ),
    (r"exceeded quota", "QuotaExceeded", "does not fit into the quota of its namespace"),
    (r"is forbidden", "Forbidden", "must not be written by the control plane"),
    (r"namespaces? .*not found", "NamespaceMissing", "waits for its namespace in the cluster"),
    (r"no matches for kind|could not find the requested resource", "KindMissing", "is of a kind that the cluster does not serve"),
    (
        r"field is immutable|Forbidden: updates to|may not be changed",
        "Immutable",
        "has a field that must not change; delete it first",
    ),
    (r"is invalid|Invalid value|Required value", "Invalid", "is not valid for the cluster's API server"),
    (r"connection refused|timeout|deadline exceeded|no route|EOF|Unauthorized", "Unreachable", "could not be brought to the cluster"),
)
_PASSING: Final = ("NamespaceMissing",)
_PATTERNS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), Refusal(reason, sentence, reason in _PASSING)) for pattern, reason, sentence in _ROWS
)
UNKNOWN: Final = Refusal("NotApplied", "is not applied; the log of the control plane has the reason")


def refusal_of(message: str) -> Refusal:
    """Return the class of what a member's API server said."""
    return next((refusal for pattern, refusal in _PATTERNS if pattern.search(message[:4000])), UNKNOWN)
