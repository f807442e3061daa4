# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pseudonyms for names and addresses of an archive: the same key gives the same ones, and without the key no name can be computed."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_V4: Final = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)"
_GROUPS: Final = r"[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,6}"
_V6: Final = rf"(?<![\w:.])(?:(?:[0-9a-fA-F]{{1,4}}:){{7}}[0-9a-fA-F]{{1,4}}|(?:{_GROUPS})?::(?:{_GROUPS})?)(?![\w:])"
_ADDRESS: Final = re.compile(rf"(?P<v4>{_V4})|(?P<v6>{_V6})")
_KEPT_ADDRESSES: Final = frozenset({"0.0.0.0", "127.0.0.1", "::", "::1"})  # they name no machine
WELL_KNOWN: Final = re.compile(
    r"cilium|clustermesh-apiserver.*|kvstoremesh|hubble-.*|cilium-.*|kube-.*|default|kubernetes|localhost|.*\.svc(\..*)?"
)
"""Names that every cluster has, so that they say nothing of this one."""


@dataclass(kw_only=True)
class Pseudonyms:
    """Replacement of names and addresses in texts. ``given`` fills with what was replaced: original -> pseudonym."""

    key: bytes
    names: Mapping[str, str]  # name -> what it names: cluster, node, pod, service, namespace, mesh, host
    given: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = sorted((name for name in self.names if is_replaced(name)), key=lambda name: (-len(name), name))
        self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, kept))})(?![A-Za-z0-9])") if kept else None

    def __repr__(self) -> str:
        return f"<Pseudonyms of {len(self.names)} names>"

    def replace(self, text: str) -> str:
        """Return the text with a pseudonym in place of each name and each address."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._pseudonym(self.names[found[0]], found[0]), text)
        return _ADDRESS.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        if found[0] in _KEPT_ADDRESSES:
            return found[0]
        return self._pseudonym("ip4" if found["v4"] else "ip6", found[0])

    def _pseudonym(self, kind: str, original: str) -> str:
        if original not in self.given:
            digest = hmac.new(self.key, f"{kind}\0{original}".encode(), hashlib.sha256).hexdigest()
            self.given[original] = f"{kind}-{digest[:10]}"
        return self.given[original]


def is_replaced(name: str) -> bool:
    """Return whether a name gets a pseudonym: it is long enough to be found, and not one that every cluster has."""
    return len(name) > 1 and WELL_KNOWN.fullmatch(name) is None


def named(kind: str, names: Iterable[str]) -> dict[str, str]:
    """Return names with what they name."""
    return {name: kind for name in names if name}
