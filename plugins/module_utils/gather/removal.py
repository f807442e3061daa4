# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Rules by which values are removed from an archive, and what was removed where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class RemovalRule(StrEnum):
    """Reason for which a value was removed."""

    ANNOTATION = "annotation"
    COMMAND = "command"
    CONFIG = "config"
    ENVIRONMENT = "environment"
    KNOWN = "known"
    NAME = "name"
    OBJECT_DATA = "object-data"
    TEXT = "text"


MEANING: Final[dict[RemovalRule, str]] = {
    RemovalRule.ANNOTATION: "the annotation is not one of those whose values are known to be harmless",
    RemovalRule.COMMAND: "the argument is not one of the flags and words of Cilium that are known to be harmless",
    RemovalRule.CONFIG: "the key of cilium-config is not one of those that are known to be harmless",
    RemovalRule.ENVIRONMENT: "every value of an environment variable is removed",
    RemovalRule.KNOWN: "the text is, or has a part of, a value of a Secret that this run has read",
    RemovalRule.NAME: "the name of the field says that it holds a password, a token, a key or credentials",
    RemovalRule.OBJECT_DATA: "every value in the data of a Secret or ConfigMap is removed",
    RemovalRule.TEXT: "a part of the text has the form of a key, a token, credentials or a long encoded value",
}


@dataclass(frozen=True, kw_only=True, order=True)
class RemovedValue:
    """One value that was removed. ``at`` is its place in the document, as a path of keys without values."""

    at: str
    rule: RemovalRule
