# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Who asks, and what he may do. Roles and bindings of a workspace are real ones, and the real API server decides by them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Final

from tests.testing.kcp_double.answers import Object, Target
from tests.testing.kcp_double.places import Places
from tests.testing.kcp_double.upstream import Upstream

ADMINS: Final = "system:kcp:admin"  # may do everything everywhere, also what a maximal permission policy forbids
POLICY_PREFIX: Final = "apis.kcp.io:binding:"
_AUTHENTICATED: Final = "system:authenticated"
_REMEMBERED: Final = 2.0  # seconds that a permission is believed
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True)
class User:
    """``cluster``: the logical cluster of a ServiceAccount, whose ``name`` is then the one it has there; "" for users."""

    name: str
    groups: tuple[str, ...] = ()
    cluster: str = ""
    real_name: str = ""

    @property
    def admin(self) -> bool:
        return ADMINS in self.groups


class Access:
    """See the module. Thread-safe."""

    def __init__(self, upstream: Upstream, places: Places, users: Mapping[str, User]) -> None:
        self._upstream = upstream
        self._places = places
        self._users = users  # by token
        self._accounts: dict[str, tuple[float, User]] = {}
        self._allowed: dict[object, float] = {}

    def user_of(self, headers: Message) -> User | None:
        """None for a user who is not known."""
        scheme, _, token = (headers.get("Authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        return self._users.get(token) or self._service_account(token)

    def forget(self) -> None:
        """Roles or bindings have changed."""
        self._allowed.clear()

    def may(self, user: User, cluster: str, target: Target, *, prefix: str = "") -> bool:
        """Does RBAC of ``cluster`` allow it? ``prefix`` before all names: for the maximal permission policy."""
        if target.plural:
            what: Object = {
                "verb": target.verb,
                "group": target.group,
                "version": target.version,
                "resource": target.plural,
                "subresource": target.subresource,
                "name": target.name,
                "namespace": self._places.real(cluster, target.namespace) if target.namespace else "",
            }
            return user.admin or self._review(user, cluster, prefix, {"resourceAttributes": what})
        return user.admin or self._review(user, cluster, prefix, {"nonResourceAttributes": {"verb": target.verb, "path": target.path}})

    def may_enter(self, user: User, cluster: str) -> bool:
        """kcp: a ServiceAccount its own workspace, every other user with the verb ``access`` (system:kcp:workspace:access)."""
        return user.cluster == cluster or self.may(user, cluster, Target("access", "/"))

    def _review(self, user: User, cluster: str, prefix: str, attributes: Object) -> bool:
        key = (user, cluster, prefix, str(attributes))
        if self._allowed.get(key, 0.0) > time.monotonic():
            return True
        groups = [*user.groups, _AUTHENTICATED]
        name = user.name
        if user.cluster and user.cluster != cluster:  # a stranger's account is known here by its long name only
            namespace, _, account = user.name.removeprefix("system:serviceaccount:").partition(":")
            name, groups = (
                f"system:kcp:serviceaccount:{user.cluster}:{namespace}:{account}",
                [f"system:cluster:{user.cluster}", _AUTHENTICATED],
            )
        subject = f"{cluster}/{prefix}{name}"
        if user.cluster == cluster and not prefix:
            subject = user.real_name
        spec = {"user": subject, "groups": [f"{cluster}/{prefix}{group}" for group in groups], **attributes}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        allowed = bool(self._upstream.json("POST", _REVIEWS, body)["status"].get("allowed"))
        if allowed:  # a refusal is not remembered: the role may be there in a moment
            self._allowed[key] = time.monotonic() + _REMEMBERED
        return allowed

    def _service_account(self, token: str) -> User | None:
        until, known = self._accounts.get(token, (0.0, None))
        if known is not None and until > time.monotonic():
            return known
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = self._upstream.json("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)["status"]
        if not status.get("authenticated"):
            return None
        real_name = str(status["user"]["username"])
        namespace, _, account = real_name.removeprefix("system:serviceaccount:").partition(":")
        origin = self._places.origin(namespace)
        if origin is None:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{origin[1]}")
        user = User(f"system:serviceaccount:{origin[1]}:{account}", groups, origin[0], real_name)
        self._accounts[token] = (time.monotonic() + _REMEMBERED, user)
        return user
