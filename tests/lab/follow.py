# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Program ``follow`` of pods on nodes with real agents: who answers, request after request. Standard library only.

``follow SECONDS ADDRESS PORT`` asks for so long at most, and until something connects to port `ENOUGH` of loopback: files of a pod are
not shared by what is executed in it. It prints a JSON list of [seconds since the start, text of the answer]; the text is "" where none came
within `PATIENCE`. Each request has a connection of its own.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time

PATIENCE = 1.0
ENOUGH = 9
_PAUSE = 0.02


def ask(address: str, port: int) -> str:
    connection = http.client.HTTPConnection(address, port, timeout=PATIENCE)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode().strip()
    except OSError:
        return ""
    finally:
        connection.close()


def main(argv: list[str]) -> None:
    seconds, address, port = float(argv[0]), argv[1], int(argv[2])
    with socket.create_server(("127.0.0.1", ENOUGH)) as enough:
        enough.settimeout(_PAUSE)
        began, seen = time.monotonic(), []
        while (moment := time.monotonic() - began) < seconds:
            seen.append((round(moment, 3), ask(address, port)))
            try:
                enough.accept()
                break
            except TimeoutError:
                continue
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1:])
