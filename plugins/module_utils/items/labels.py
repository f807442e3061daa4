# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Labels as the API server accepts them, and what a flat selector matches (apimachinery, pkg/util/validation and pkg/labels). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

NAME_LIMIT: Final = 63
PREFIX_LIMIT: Final = 253

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def valid_key(text: str) -> bool:
    """``app`` or ``example.com/app``: a qualified name. Annotations have keys of the same form."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > PREFIX_LIMIT or not _PREFIX.fullmatch(prefix)):
        return False
    return len(name) <= NAME_LIMIT and _NAME.fullmatch(name) is not None


def valid_value(text: str) -> bool:
    """Empty, or at most 63 letters, digits, ``-``, ``_``, ``.`` that begin and end with a letter or digit."""
    return text == "" or (len(text) <= NAME_LIMIT and _NAME.fullmatch(text) is not None)


def matches(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Has an object with ``labels`` all of ``wanted``? Nothing wanted matches everything, as in Kubernetes: refuse that before asking."""
    return all(labels.get(key) == value for key, value in wanted.items())
