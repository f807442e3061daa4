# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The wire between a lab and who commands it: JSON lines over a unix socket in the lab's folder (mode 0700).

Request ``{"verb": …, "args": {…}}``; answers ``{"progress": text}`` any number of times, then ``{"result": …}`` or ``{"error": text}``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

SOCKET = "control.sock"
Handler = Callable[[str, dict[str, Any]], AsyncIterator[dict[str, Any]]]
"""Verb and arguments to answers."""


class LabError(RuntimeError):
    """The lab said no, or there is none; the text says why."""


@contextlib.contextmanager
def _reachable(folder: Path) -> Iterator[str]:
    """The socket's path, however long the folder's is (a unix socket address holds 107 bytes)."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)


async def serve(folder: Path, handler: Handler) -> asyncio.Server:
    """Answer requests until the server is closed."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _reachable(folder) as path:
        listener.bind(path)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            try:
                request = json.loads(await reader.readline())
                async for reply in handler(request["verb"], request.get("args") or {}):
                    writer.write(json.dumps(reply).encode() + b"\n")
                    await writer.drain()
            except Exception as error:  # whatever went wrong, who asked has to hear of it; the lab itself goes on
                writer.write(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode() + b"\n")
            writer.close()

    return await asyncio.start_unix_server(answer, sock=listener)


def call(folder: Path, verb: str, args: dict[str, Any] | None = None, *, on_progress: Callable[[str], None] | None = None) -> Any:
    """Ask the lab in ``folder``. Returns the result; raises LabError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            with _reachable(folder) as path:
                connection.connect(path)
            connection.sendall(json.dumps({"verb": verb, "args": args or {}}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                for line in answers:
                    reply = json.loads(line)
                    if "error" in reply:
                        raise LabError(reply["error"])
                    if "result" in reply:
                        return reply["result"]
                    if on_progress:
                        on_progress(reply["progress"])
        except (FileNotFoundError, ConnectionRefusedError):
            others = f"name one that does with --name ({', '.join(names)}), or " if (names := beside(folder)) else ""
            raise LabError(f"no lab runs in {folder}; {others}start one with `python -m tests.lab up`") from None
        except ConnectionError:
            pass
    raise LabError(f"the lab in {folder} ended before it answered {verb!r}")


def beside(folder: Path) -> list[str]:
    """Return the names of the other labs of this user that run."""
    return sorted(entry.name for entry in folder.parent.iterdir() if entry.is_dir() and entry != folder) if folder.parent.is_dir() else []
