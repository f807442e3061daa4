# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The errors of the engine: few, each standing for one decision of the caller.

No message ever carries a value out of a Secret, a kubeconfig or an HTTP body: ansible-core prints exception text in spite of ``no_log``.
Raise across a library's border with ``from None``, so that no foreign message is chained.
"""

from __future__ import annotations


class MeshError(Exception):
    """Anything the engine refuses or cannot do.

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
    """An exception that nobody foresaw, named by class and place. Decision: report it to the project."""

    code = "CM-ERR-99"


class InvalidInput(MeshError):
    """What the user wrote cannot be meant; nothing was asked of any cluster. Decision: correct the input."""

    code = "CM-INPUT-01"


class MissingLibrary(MeshError):
    """A Python package that the engine needs is not installed where it runs; nothing was asked of any cluster. Decision: install it."""

    code = "CM-ENV-01"


class ClusterError(MeshError):
    """A cluster did not do what was asked. Decision: report it for that cluster; others may go on."""

    code = "CM-API-00"


class CredentialsInvalid(ClusterError):
    """The kubeconfig cannot be read, or the cluster refuses who we are (401, bad or expired certificate)."""

    code = "CM-API-02"


class Unreachable(ClusterError):
    """No usable answer in time: refused, timed out, name not found, or the server's certificate is not trusted. Decision: try later."""

    code = "CM-API-01"


class Forbidden(ClusterError):
    """RBAC says no (403); the message names verb and resource. Decision: extend the role."""

    code = "CM-API-03"


class WriteConflict(ClusterError):
    """Another field manager owns what we would write, or the object changed since it was read (409). Decision: plan again."""

    code = "CM-API-04"


class ServerRefused(ClusterError):
    """Any other answer outside 2xx that retries did not cure. Decision: show status and reason. ``status``: of HTTP, 0 without one."""

    code = "CM-API-05"

    def __init__(self, message: str, *, remedy: str = "", cluster: str = "", status: int = 0) -> None:
        super().__init__(message, remedy=remedy, cluster=cluster)
        self.status = status
