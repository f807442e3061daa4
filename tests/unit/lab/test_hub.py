# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The lab's network and its faults, on real sockets of this machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.lab.addresses import claim_lab_number
from tests.lab.hub import Backend, Door, Hub
from tests.unit.lab.asynchronous import in_loop

SERVICE = "kube-system/clustermesh-apiserver"


class Machine:
    """A place like a pod's, but in the machine's own network, so that no privileges are needed."""

    name = "here"

    def call(self, job: Callable[[], Any]) -> Any:
        return job()


@contextlib.asynccontextmanager
async def mesh() -> AsyncIterator[tuple[Hub, str, int]]:
    """A hub with one cluster c1 whose endpoint echoes; address and port of its door for the controller."""
    lab, holder = claim_lab_number()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1024):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    hub = Hub(["c1", "c2"])
    hub.set_backends("c1", SERVICE, [Backend(Machine(), port)])  # type: ignore[arg-type]  # a machine with the attributes that are used
    address = f"127.{lab}.1.2"
    hub.set_doors("c1", [Door(address, 2379, SERVICE), Door(f"127.{lab}.1.4", 2379, SERVICE, everywhere=False)])
    try:
        yield hub, address, 2379
    finally:
        hub.close()
        server.close()
        holder.close()


async def say(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], text: bytes, limit: float = 2.0) -> bytes:
    connection[1].write(text)
    return await asyncio.wait_for(connection[0].read(1024), limit)


@in_loop
async def test_bytes_get_through_and_back() -> None:
    async with mesh() as (_, address, port):
        connection = await asyncio.open_connection(address, port)
        assert await say(connection, b"hello") == b"hello"
        connection[1].write_eof()
        assert await connection[0].read() == b""


@in_loop
async def test_the_stand_in_for_the_cluster_ip_is_seen_by_the_clusters_own_pods_only() -> None:
    async with mesh() as (_, address, port):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address[:-1] + "4", port)


@in_loop
async def test_a_cut_link_refuses_and_ends_what_was_open_and_heals() -> None:
    async with mesh() as (hub, address, port):
        before = await asyncio.open_connection(address, port)
        assert await say(before, b"1") == b"1"
        hub.cut("controller", "c1")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address, port)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(before[0].read(), 2) == b""
        hub.heal("controller", "c1")
        assert await say(await asyncio.open_connection(address, port), b"2") == b"2"


@in_loop
async def test_a_cut_between_others_is_not_felt() -> None:
    async with mesh() as (hub, address, port):
        hub.cut("c2", "c1")
        assert await say(await asyncio.open_connection(address, port), b"x") == b"x"
        assert hub.links["c2", "c1"].faults() == ["cut"]


@in_loop
async def test_a_frozen_link_keeps_connections_and_delivers_when_it_thaws() -> None:
    async with mesh() as (hub, address, port):
        connection = await asyncio.open_connection(address, port)
        assert await say(connection, b"1") == b"1"
        hub.freeze("controller", "c1")
        with pytest.raises(TimeoutError):
            await say(connection, b"2", 0.3)
        fresh = await asyncio.open_connection(address, port)
        with pytest.raises(TimeoutError):
            await say(fresh, b"3", 0.3)
        hub.heal("controller", "c1")
        assert await asyncio.wait_for(connection[0].read(1024), 2) == b"2"
        assert await asyncio.wait_for(fresh[0].read(1024), 2) == b"3"


@in_loop
async def test_a_slow_link_delays_each_way() -> None:
    async with mesh() as (hub, address, port):
        connection = await asyncio.open_connection(address, port)
        assert await say(connection, b"1") == b"1"
        hub.slow("controller", "c1", 0.2)
        began = asyncio.get_running_loop().time()
        assert await say(connection, b"2", 5) == b"2"
        assert asyncio.get_running_loop().time() - began >= 0.4
        assert hub.links["controller", "c1"].faults() == ["slow 200 ms"]


@in_loop
async def test_an_endpoint_without_ready_pods_refuses() -> None:
    async with mesh() as (hub, address, port):
        hub.set_backends("c1", SERVICE, [])
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address, port)
