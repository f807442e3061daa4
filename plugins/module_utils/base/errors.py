# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Errors of the engine: few classes, each standing for one decision of the caller.

No message ever carries a value out of a Secret, a kubeconfig or an HTTP body: ansible-core prints exception text in spite of ``no_log``.
Raise across a library's border with ``from None``, so that no foreign message is chained.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable

Right = tuple[str, str, str, str]
"""Verb, resource with its group, namespace and name of an object; "" where there is none."""


def clause(sentence: str) -> str:
    """Return a sentence without its full stop, to stand in parentheses or in a list; the sentence around it has its own."""
    return sentence if sentence.endswith("...") else sentence.removesuffix(".")


class MeshError(Exception):
    """Base of every error that the engine raises on purpose.

    :param message: one sentence that names the thing; safe to print.
    :param remedy: one sentence that says what to do; "" takes ``usual_remedy``, which a class may lack.
    :param cluster: the inventory name of the cluster concerned, or "".
    """

    code = "CM-ERR-00"
    usual_remedy = ""

    def __init__(self, message: str, *, remedy: str = "", cluster: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy or self.usual_remedy
        self.cluster = cluster
        self.detail = ""

    @property
    def clause(self) -> str:
        """Message as a part of another sentence."""
        return clause(self.message)

    def __str__(self) -> str:
        where = f"{self.cluster}: " if self.cluster else ""
        return f"{where}{self.message}" + (f" {self.remedy}" if self.remedy else "")


class Defect(MeshError):
    """Unexpected exception, named by its class and place. Decision: report it to the project."""

    code = "CM-ERR-99"

    @classmethod
    def of(cls, error: BaseException, *, cluster: str = "") -> Defect:
        """Return the error that names the class of an exception and its place in the source, and never its text."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
        return cls(
            f"Unexpected {type(error).__name__}{place}. This is a defect of edge_portal.cilium_mesh; please report this line. "
            "Its text is withheld, as it might hold values of Secrets.",
            cluster=cluster,
        )


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
    """No usable answer in time: refused, timed out, name not found, or an untrusted server certificate. Decision: try later.

    :param detail: what the message withholds from the owner of the cluster, for the log of the controller (base/dialling.py).
    """

    code = "CM-API-01"

    def __init__(self, message: str, *, remedy: str = "", cluster: str = "", detail: str = "") -> None:
        super().__init__(message, remedy=remedy, cluster=cluster)
        self.detail = detail


class LibraryFailed(Unreachable):
    """Exception of a client library at one cluster, named by its class. Its server may have done anything. Decision: try later."""

    code = "CM-API-00"


class KeptBack(ClusterError):
    """Deletion that was not tried, because a write failed that may replace what it deletes. Decision: run again after the repair."""

    code = "CM-ITEM-05"


class Forbidden(ClusterError):
    """Request that RBAC denies (403); the message names verb and resource. Decision: extend the role.

    :param rights: what is missing, one entry for each object: (verb, resource with its group, namespace, name).
    """

    code = "CM-API-03"

    def __init__(self, message: str, *, remedy: str = "", cluster: str = "", rights: Iterable[Right] = ()) -> None:
        super().__init__(message, remedy=remedy, cluster=cluster)
        self.rights = tuple(rights)

    @classmethod
    def of_several(cls, errors: Iterable[Forbidden], cluster: str) -> Forbidden:
        """Return one error for all, so that the role is extended once: a line for each verb and place, objects as kubectl has them."""
        every = list(errors)
        objects: dict[tuple[str, str], dict[str, None]] = {}
        for verb, resource, namespace, name in sorted(right for error in every for right in error.rights):
            objects.setdefault((verb, namespace), {})[f"{resource}/{name}" if name else resource] = None
        rights = [
            f"{verb}{f' in namespace {namespace}' if namespace else ''}: {', '.join(names)}"
            for (verb, namespace), names in sorted(objects.items())
        ]
        verbs = sorted({f"{verb.partition(' ')[0]} {resource}" for error in every for verb, resource, *_rest in error.rights})
        message = f"RBAC forbids to {', '.join(verbs) or 'read it'} (403)."
        remedy = "\n".join(["Grant these to its user; the playbook rbac prints the whole role:", *rights])
        return cls(message, remedy=remedy, cluster=cluster, rights=[right for error in every for right in error.rights])


class WriteConflict(ClusterError):
    """Fields that another field manager owns, or an object that changed since it was read (409). Decision: plan again."""

    code = "CM-API-04"


class ServerRefused(ClusterError):
    """Any other answer outside 2xx that remains after retries. Decision: show status and reason.

    :param status: the HTTP status, 0 if there is none.
    """

    code = "CM-API-05"
    usual_remedy = "Run again. If it stays so, the log of what answered says why."

    def __init__(self, message: str, *, remedy: str = "", cluster: str = "", status: int = 0) -> None:
        super().__init__(message, remedy=remedy, cluster=cluster)
        self.status = status


def may_be_done(error: ClusterError) -> bool:
    """Return whether a write that ended in this error may have been carried out: no answer came, or none that says that it was not."""
    return isinstance(error, Unreachable) or (isinstance(error, ServerRefused) and not 400 <= error.status < 500)


class LockHeld(MeshError):
    """Lock of the mesh that another run holds; nothing was written. Decision: run again later."""

    code = "CM-LOCK-01"


class LockLost(ClusterError):
    """Lock of the mesh that ended or was taken while this run needed it. Decision: begin no further write; observe and run again."""

    code = "CM-LOCK-02"
