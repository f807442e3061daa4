# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Program ``follow`` of pods on nodes with real agents: who answers, request after request. Standard library only.

``follow SECONDS ADDRESS PORT`` asks until file `ENOUGH` is there, at most for so long. It prints a JSON list of [seconds since the start,
text of the answer]; the text is "" where none came within `PATIENCE`. Each request has a connection of its own.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time

PATIENCE = 1.0
ENOUGH = "/tmp/enough"
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
    began, seen = time.monotonic(), []
    while (moment := time.monotonic() - began) < seconds and not os.path.exists(ENOUGH):
        seen.append((round(moment, 3), ask(address, port)))
        time.sleep(_PAUSE)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1:])
