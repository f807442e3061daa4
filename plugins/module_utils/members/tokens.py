# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tokens of ServiceAccounts by TokenRequest: bounded, and kept by no API server."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from ..base.errors import ServerRefused
from ..base.json_fields import parse_time, text
from ..base.sealed import Sealed
from ..kube.client import Cluster
from ..plan.steps import MemberToken
from .names import CORE, MANAGER


class Issued(NamedTuple):
    """A token and its end, which the API server decides."""

    token: Sealed
    ends: datetime


def request_token(cluster: Cluster, wanted: MemberToken) -> Issued:
    """Have a cluster issue a token.

    :raises ClusterError: when it does not.
    """
    audiences = {"audiences": [wanted.audience]} if wanted.audience else {}
    spec = {"expirationSeconds": wanted.seconds, **audiences}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"{CORE}/{wanted.namespace}/serviceaccounts/{wanted.account}/token"
    answer = cluster.create(path, body, manager=MANAGER)
    token, ends = text(answer, "status", "token"), parse_time(text(answer, "status", "expirationTimestamp"))
    if not token or ends is None:
        raise ServerRefused(
            f"The API server issued no token of ServiceAccount {wanted.namespace}/{wanted.account}.", cluster=wanted.cluster
        )
    return Issued(Sealed(token.encode()), ends)
