# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Values out of Secrets, kept apart from the facts and out of every repr, exception and result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NoReturn


class Sealed:
    """Bytes that no repr, str or pickle reveals."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value: Final = value

    def reveal(self) -> bytes:
        """Return the bytes. Call it only where they go into an API call or a cryptographic operation."""
        return self._value

    def __repr__(self) -> str:
        return "<sealed>"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("sealed values are not pickled")


class SecretStore:
    """Secret values of one observation, by (cluster, Secret, key). It lives as long as the run."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], Sealed] = {}

    def put(self, cluster: str, secret: str, key: str, value: bytes) -> None:
        """Store a value under the inventory name of a cluster, the name of a Secret and its key."""
        self._values[(cluster, secret, key)] = Sealed(value)

    def get(self, cluster: str, secret: str, key: str) -> Sealed:
        """Return the sealed value of a key.

        :raises KeyError: when it was not read; the error holds the three names, never a value.
        """
        return self._values[(cluster, secret, key)]

    def has(self, cluster: str, secret: str, key: str) -> bool:
        """Return whether the value of a key was read."""
        return (cluster, secret, key) in self._values

    def values(self) -> Iterator[Sealed]:
        """Yield every value, to compare texts with them before they are shown."""
        return iter(tuple(self._values.values()))

    def __repr__(self) -> str:
        return f"<SecretStore of {len(self._values)} values>"
