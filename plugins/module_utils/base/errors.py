# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Errors of the engine: few classes, each standing for one decision of the caller.

No message ever carries a value out of a Secret, a kubeconfig or an HTTP body: ansible-core prints exception text in spite of ``no_log``.
Raise across a library's border with ``from None``, so that no foreign message is chained.
"""

from __future__ import annotations


class MeshError(Exception):
    """Base of every error that the engine raises on purpose.

    :param message: one sentence that names the thing; safe to print.
    :param remedy: one sentence that says what to do; may be empty.
    :param cluster: the inventory name of the cluster concerned, or "".
    """

    code = "CM-ERR-00"

    def __init__(self, message: str, *, remedy: str = "", cluster: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.cluster = cluster

    def __str__(self) -> str:
        where = f"{self.cluster}: " if self.cluster else ""
        return f"{where}{self.message}" + (f" {self.remedy}" if self.remedy else "")


class Defect(MeshError):
    """Unexpected exception, named by its class and place. Decision: report it to the project."""

    code = "CM-ERR-99"


class InvalidInput(MeshError):
    """Invalid user input; no request was sent to any cluster. Decision: correct the input."""

    code = "CM-INPUT-01"


class MissingLibrary(MeshError):
    """Python package missing where the engine runs; no request was sent to any cluster. Decision: install it."""

    code = "CM-ENV-01"


class ClusterError(MeshError):
    """Failed request to one cluster. Decision: report it for that cluster; others may go on."""

    code = "CM-API-00"


class CredentialsInvalid(ClusterError):
    """Unreadable kubeconfig, or credentials that the cluster refuses (401, bad or expired certificate)."""

    code = "CM-API-02"


class Unreachable(ClusterError):
    """No usable answer in time: refused, timed out, name not found, or an untrusted server certificate. Decision: try later."""

    code = "CM-API-01"


class KeptBack(ClusterError):
    """Deletion that was not tried, because a write failed that may replace what it deletes. Decision: run again after the repair."""

    code = "CM-ITEM-05"


class Forbidden(ClusterError):
    """Request that RBAC denies (403); the message names verb and resource. Decision: extend the role."""

    code = "CM-API-03"


class WriteConflict(ClusterError):
    """Fields that another field manager owns, or an object that changed since it was read (409). Decision: plan again."""

    code = "CM-API-04"


class ServerRefused(ClusterError):
    """Any other answer outside 2xx that remains after retries. Decision: show status and reason.

    :param status: the HTTP status, 0 if there is none.
    """

    code = "CM-API-05"

    def __init__(self, message: str, *, remedy: str = "", cluster: str = "", status: int = 0) -> None:
        super().__init__(message, remedy=remedy, cluster=cluster)
        self.status = status


class LockHeld(MeshError):
    """Lock of the mesh that another run holds; nothing was written. Decision: run again later."""

    code = "CM-LOCK-01"


class LockLost(ClusterError):
    """Lock of the mesh that ended or was taken while this run needed it. Decision: begin no further write; observe and run again."""

    code = "CM-LOCK-02"
