# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fields of kubeconfig v1 and the types of their values (Kubernetes, "kubeconfig (v1)" reference; client-go, tools/clientcmd/api/v1).

kubectl refuses a value of another type, ignores a field that v1 does not have, and takes null for a field that is not there. A value that
is empty says the same as none, so it is left out here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

Entry = Mapping[str, Any]
"""Cluster, user or context: its fields by their names in a kubeconfig. Bytes are decoded; what is empty is not there."""


class WrongValue(Exception):
    """Value of another type than its field has. ``place`` is that of the value below the entry, such as ``exec.env[2].value``."""

    def __init__(self, why: str, place: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.place = place


Check = Callable[[Any], Any]
"""Returns the value in the form that is worked with. Raises WrongValue. It never gets None."""


def text(value: Any) -> str:
    """Return a text. YAML can write half of a character (a lone surrogate), of which nothing that is sent can be made."""
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise WrongValue("has half of a character")
        return value
    if isinstance(value, (bool, int, float)):
        raise WrongValue("is a number or a truth value where a text belongs; put it in quotes")
    raise WrongValue("is no text")


def flag(value: Any) -> bool:
    """Return a truth value."""
    if isinstance(value, bool):
        return value
    raise WrongValue("is neither true nor false; write one of them, without quotes")


def data(value: Any) -> bytes:
    """Return what a text holds in base64. Line breaks in it count for nothing (Go, encoding/base64)."""
    try:
        return base64.b64decode(text(value).replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise WrongValue("is not valid base64") from None


def anything(value: Any) -> Any:
    """Return the value."""
    return value


def many(check: Check) -> Check:
    """Return the check of a list. Null in it stands for the empty value."""

    def checked(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise WrongValue("is no list")
        return [_below(f"[{number}]", check, "" if entry is None else entry) for number, entry in enumerate(value, start=1)]

    return checked


def by_name(check: Check) -> Check:
    """Return the check of a mapping whose keys the user chooses."""

    def checked(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise WrongValue("is no mapping")
        return {_below("", text, key): _below("[...]", check, entry) for key, entry in value.items() if entry is not None}

    return checked


def record(fields: Mapping[str, Check]) -> Check:
    """Return the check of a mapping with these fields."""

    def checked(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise WrongValue("is no mapping")
        found = {key: _below(f".{key}", check, value[key]) for key, check in fields.items() if value.get(key) is not None}
        return {key: entry for key, entry in found.items() if entry not in ("", b"", False, [])}

    return checked


def _below(place: str, check: Check, value: Any) -> Any:
    try:
        return check(value)
    except WrongValue as wrong:
        raise WrongValue(wrong.why, place + wrong.place) from None


EXTENSIONS: Final = many(record({"name": text, "extension": anything}))
EXEC: Final = record(
    {
        "command": text,
        "args": many(text),
        "env": many(record({"name": text, "value": text})),
        "apiVersion": text,
        "installHint": text,
        "provideClusterInfo": flag,
        "interactiveMode": text,
    }
)
FIELDS: Final[Mapping[str, Check]] = {
    "cluster": record(
        {
            "server": text,
            "tls-server-name": text,
            "insecure-skip-tls-verify": flag,
            "certificate-authority": text,
            "certificate-authority-data": data,
            "proxy-url": text,
            "disable-compression": flag,
            "extensions": EXTENSIONS,
        }
    ),
    "user": record(
        {
            "client-certificate": text,
            "client-certificate-data": data,
            "client-key": text,
            "client-key-data": data,
            "token": text,
            "tokenFile": text,
            "as": text,
            "as-uid": text,
            "as-groups": many(text),
            "as-user-extra": by_name(many(text)),
            "username": text,
            "password": text,
            "auth-provider": record({"name": text, "config": by_name(text)}),
            "exec": EXEC,
            "extensions": EXTENSIONS,
        }
    ),
    "context": record({"cluster": text, "user": text, "namespace": text, "extensions": EXTENSIONS}),
}
"""By kind of entry. A field that is not here is none of kubeconfig v1."""

FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
    "context": (),
}
"""Fields that name a file; a relative path begins at the folder of the kubeconfig that has the entry."""
