# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Is a container ready? Asked at its real port, inside its pod."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.lab.hub import dial_place
from tests.lab.netns import NetNs
from tests.lab.translate import Probe

TIMEOUT = 1.0


def template_probe(container: dict[str, Any]) -> Probe | None:
    """The readinessProbe of a container as the chart writes it: an HTTP path at a named or numbered port; None when there is none."""
    get = (container.get("readinessProbe") or {}).get("httpGet")
    if not get:
        return None
    ports = {port.get("name"): port["containerPort"] for port in container.get("ports") or []}
    return Probe(int(ports.get(get["port"], get["port"])), get.get("path", "/"))


async def holds(place: NetNs, probe: Probe) -> bool:
    """Whether the probe succeeds now."""
    try:
        async with asyncio.timeout(TIMEOUT):
            return await _ask(place, probe)
    except (OSError, TimeoutError, ValueError):
        return False


async def _ask(place: NetNs, probe: Probe) -> bool:
    loop = asyncio.get_running_loop()
    with await dial_place(place, probe.port) as connection:
        if not probe.path:
            return True
        await loop.sock_sendall(connection, f"GET {probe.path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = await loop.sock_recv(connection, 4096)
        words = answer.split(None, 2)
        return len(words) > 1 and 200 <= int(words[1]) < 400
