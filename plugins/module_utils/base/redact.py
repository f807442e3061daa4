# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Redaction of foreign text for printing: one short line, no control characters, nothing that looks like a secret.

Peers, pods and API servers are not trusted: their text reaches a terminal, a job's log and a custom resource's status.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Any, Final

MASK: Final = "<redacted>"

_SECRETS: Final = (
    re.compile(r"-----BEGIN [A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*-----|$)", re.DOTALL),  # PEM, also when cut off
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),  # JSON Web Token
    re.compile(r"(?<=://)[^/\s@]+@"),  # user and password of a URL
    re.compile(r"(?i)(?<=\bbearer )\S+"),
    re.compile(r"(?i)\b(?:password|passwd|token|secret|api[-_]?key|client-key-data)\b[\"']?\s*[:=]\s*[\"']?[^\s\"',}]+"),
    re.compile(r"[A-Za-z0-9+/]{64,}={0,2}"),  # base64 of 48 bytes and more; names in Kubernetes are at most 63 characters to a label
)


def mask(text: str) -> str:
    """Replace PEM blocks, tokens, passwords and long base64 runs in ``text`` by ``<redacted>``."""
    for pattern in _SECRETS:
        text = pattern.sub(MASK, text)
    return text


def one_line(value: Any, limit: int = 200) -> str:
    """Return ``value`` as at most ``limit`` printable characters on one line, with secrets masked; "" if it is not text.

    All of Unicode's category C is dropped: control characters (terminal escapes) and format characters (text that runs backwards or hides).
    """
    if not isinstance(value, str):
        return ""
    text = mask(value[: limit * 16])
    if not text.isprintable():  # category C is never printable
        text = "".join(" " if c.isspace() else c for c in text if c.isspace() or not unicodedata.category(c).startswith("C"))
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def digest(value: bytes) -> str:
    """Return the SHA-256 of ``value`` in lower-case hex, which names a value that must not be shown."""
    return hashlib.sha256(value).hexdigest()
