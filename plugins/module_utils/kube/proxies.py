# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Proxy before an API server: that of the kubeconfig, or of the environment."""

from __future__ import annotations

import base64
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from ..base.optional_imports import deferred

if TYPE_CHECKING:
    from kubernetes.client import rest
else:
    rest = deferred("kubernetes.client.rest")  # 0.2 s, where the environment names a proxy

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_PORTS: Final = {"http": 80, "https": 443, "socks5h": 1080}


@dataclass(frozen=True)
class Proxy:
    """Proxy, whose user and password are None where its URL has none."""

    scheme: str  # http | https | socks5h
    host: str  # an IPv6 address stands in brackets
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Without user and password."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def authorization(self) -> str:
        """Value of the header Proxy-Authorization; "" for none. It is UTF-8 in base64, as Go's client sends it (net/http, transport.go)."""
        if self.user is None:
            return ""
        both = f"{self.user}:{self.password or ''}"
        return f"Basic {base64.b64encode(both.encode()).decode()}"


def proxy_of(server: str, own: str | None) -> Proxy | None:
    """Return the proxy for a server; None for none.

    From the environment it is that of the server's scheme, and none for this machine (golang.org/x/net/http/httpproxy).

    :param server: URL.
    :param own: URL that the kubeconfig has, which counts whatever NO_PROXY says; None if it has none.
    :raises ValueError: when the environment names none that can be used; Go's client sends no request then either.
    """
    if own:
        return _parsed(own)
    scheme, host = server.partition("://")[0], urlsplit(server).hostname or ""
    found = urllib.request.getproxies_environment()
    proxy = found.get(scheme)
    if not proxy or host in _LOOPBACK or host.startswith("127.") or rest.should_bypass_proxies(server, found.get("no", "")):
        return None
    return _parsed(proxy if "://" in proxy else f"http://{proxy}")


def _parsed(url: str) -> Proxy:
    """Return the parts of a URL, with what is percent-encoded in user and password decoded."""
    parts = urlsplit(url)
    scheme = "socks5h" if parts.scheme == "socks5" else parts.scheme  # Go has the proxy resolve the name
    if scheme not in _PORTS or not parts.hostname:
        raise ValueError
    shown = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    user, password = (unquote(part) if part is not None else None for part in (parts.username, parts.password))
    return Proxy(scheme, shown, parts.port or _PORTS[scheme], user, password)
