# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""APIExportEndpointSlice -> URLs of virtual workspaces, one per shard that has consumers. Pure but for ``--kcp-external-url``, which
replaces scheme, host and port of each and keeps its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


def urls_of(found: Mapping[str, Any] | None, external_url: str = "") -> tuple[str, ...]:
    """URLs of ``status.endpoints``, in order, without doubles; () for a slice that is missing or has none (nobody has bound the export).

    With ``external_url`` shards that differ in nothing but their host become one: it is for one shard behind another address.
    """
    endpoints = ((found or {}).get("status") or {}).get("endpoints") or ()
    urls = [str(endpoint["url"]) for endpoint in endpoints if endpoint.get("url")]
    if external_url:
        outside = urlsplit(external_url)
        urls = [urlsplit(url)._replace(scheme=outside.scheme, netloc=outside.netloc).geturl() for url in urls]
    return tuple(dict.fromkeys(urls))
