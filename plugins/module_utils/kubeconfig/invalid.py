# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Refusal of a kubeconfig."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RefusedSubject:
    """What a refusal is about: the words for it with its name, for the owner of the file, and without any text of the file."""

    named: str
    plain: str


IT = RefusedSubject("it", "it")
"""The kubeconfig as a whole."""


class KubeconfigInvalid(ValueError):
    """Kubeconfig, or a field of one, that cannot be used. Safe to print: a message names entries and fields, and repeats no value.

    :param what: what is wrong, without any text of the file: the rest of a sentence that begins with the subject.
    :param subject: what it is about.
    :param remedy: one sentence that says what to do; "" where the message says it.
    """

    def __init__(self, what: str, *, subject: RefusedSubject = IT, remedy: str = "") -> None:
        self.what, self.subject, self.remedy = what, subject, remedy
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The clause with the name of the entry."""
        return f"{self.subject.named} {self.what}"

    @property
    def plain(self) -> str:
        """The clause without any text of the file, for readers who do not own it."""
        return f"{self.subject.plain} {self.what}"


class KubeconfigUnreadable(KubeconfigInvalid):
    """File of a kubeconfig that cannot be read or used; the subject is the file."""
