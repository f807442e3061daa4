# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfig that is whole in itself: what it names in files stands in it. It is for a process that may read no other file."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .chosen import Chosen
from .fields import Entry
from .invalid import KubeconfigInvalid

_DATA: Final = ("certificate-authority", "client-certificate", "client-key")
_NAME: Final = "own"


def whole_document(chosen: Chosen) -> dict[str, Any]:
    """Return what a context chose as a document with one cluster, user and context. A token file stands there as its token of now.

    :raises KubeconfigInvalid: when a file cannot be read.
    """
    return kubeconfig_of(_whole(chosen.cluster), _whole(chosen.user))


def kubeconfig_of(cluster: Entry, user: Entry) -> dict[str, Any]:
    """Return the document with this cluster and user and no other; bytes are written in base64."""
    entries: dict[str, Mapping[str, Any]] = {"cluster": cluster, "user": user, "context": {"cluster": _NAME, "user": _NAME}}
    lists = {f"{kind}s": [{"name": _NAME, kind: {key: _written(value) for key, value in entry.items()}}] for kind, entry in entries.items()}
    return {"apiVersion": "v1", "kind": "Config", "current-context": _NAME, **lists}


def _whole(entry: Entry) -> dict[str, Any]:
    found = dict(entry)
    for key in _DATA:
        if path := found.pop(key, None):
            found[f"{key}-data"] = _content(key, path)
    if path := found.pop("tokenFile", None):
        try:
            found["token"] = _content("tokenFile", path).decode("utf-8", "replace").strip()
        except KubeconfigInvalid:
            if "token" not in found:  # client-go goes on with the token where the file cannot be read
                raise
    return found


def _content(key: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KubeconfigInvalid(f"names a file that cannot be read as {key}: {error.strerror}") from None


def _written(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
