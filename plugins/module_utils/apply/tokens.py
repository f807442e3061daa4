# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tokens of ServiceAccounts by TokenRequest: bounded, and kept by no API server."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ..base.errors import ServerRefused
from ..base.json_fields import parse_time, text
from ..base.sealed import Sealed
from ..observe import Observation
from ..plan.steps import MemberToken


class Issued(NamedTuple):
    """A token and its end, which the API server decides."""

    token: Sealed
    ends: datetime


def issue_token(opened: Observation, wanted: MemberToken, manager: str) -> Issued:
    """Have a cluster issue a token, which nothing reads back.

    :raises ClusterError: when it does not.
    """
    audiences = {"audiences": [wanted.audience]} if wanted.audience else {}
    spec = {"expirationSeconds": wanted.seconds, **audiences}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{wanted.namespace}/serviceaccounts/{wanted.account}/token"
    answer = opened.clusters[wanted.cluster].create(path, body, manager=manager)
    token, ends = text(answer, "status", "token"), parse_time(text(answer, "status", "expirationTimestamp"))
    if not token or ends is None:
        raise ServerRefused(
            f"The API server issued no token of ServiceAccount {wanted.namespace}/{wanted.account}.", cluster=wanted.cluster
        )
    return Issued(Sealed(token.encode()), ends)
