# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""URLs of virtual workspaces, one per shard that has consumers, from the APIExportEndpointSlice. Pure.

``--kcp-external-url`` replaces scheme, host and port of each URL and keeps its path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.json_fields import items, text


def urls_of(found: Mapping[str, Any] | None, external_url: str = "") -> tuple[str, ...]:
    """Return the URLs of ``status.endpoints``, in order, each once; () if the slice is missing or empty (no workspace binds the export).

    With ``external_url``, shards that differ only in their host become one: it is for one shard behind another address.
    """
    urls = [url for endpoint in items(found, "status", "endpoints") if (url := text(endpoint, "url"))]
    if external_url:
        outside = urlsplit(external_url)
        urls = [parts._replace(scheme=outside.scheme, netloc=outside.netloc).geturl() for url in urls if (parts := _parts(url))]
    return tuple(dict.fromkeys(urls))


def _parts(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:  # half an IPv6 address
        return None
