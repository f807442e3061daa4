# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""URLs of virtual workspaces, one per shard that has consumers, from the APIExportEndpointSlice. Pure.

``--kcp-external-url`` replaces scheme, host and port of each URL and keeps its path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


def urls_of(found: Mapping[str, Any] | None, external_url: str = "") -> tuple[str, ...]:
    """Return the URLs of ``status.endpoints``, in order, each once; () if the slice is missing or empty (no workspace binds the export).

    With ``external_url``, shards that differ only in their host become one: it is for one shard behind another address.
    """
    endpoints = ((found or {}).get("status") or {}).get("endpoints") or ()
    urls = [str(endpoint["url"]) for endpoint in endpoints if endpoint.get("url")]
    if external_url:
        outside = urlsplit(external_url)
        urls = [urlsplit(url)._replace(scheme=outside.scheme, netloc=outside.netloc).geturl() for url in urls]
    return tuple(dict.fromkeys(urls))
