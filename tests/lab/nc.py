# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``nc -v -z -w SECONDS ADDRESS PORT`` for the pods of a probe, in OpenBSD's words. A plain script of the standard library.

Pod addresses of a lab without real agents exist in its API alone, so the file that LAB_ROUTES names says what is there:
{"10.2.0.1:8080": "127.0.0.1:40123"} is a listener of this machine, to which a real connection is made. What is not in it lets bytes vanish,
as a policy does. Without LAB_ROUTES an address is what it says.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time


def main(argv: list[str]) -> int:
    *options, address, port = argv
    if options[:3] != ["-v", "-z", "-w"] or len(options) != 4:
        print("nc: the lab's knows only -v -z -w SECONDS ADDRESS PORT", file=sys.stderr)
        return 2
    route = f"{address}:{port}"
    if routes := os.environ.get("LAB_ROUTES"):
        with open(routes, encoding="utf-8") as file:
            route = json.load(file).get(route, "")
    if not route:
        time.sleep(min(float(options[3]), 0.2))  # a test need not wait as long as a user
        print(f"nc: connect to {address} port {port} (tcp) timed out: Operation now in progress", file=sys.stderr)
        return 1
    host, _sep, number = route.rpartition(":")
    try:
        socket.create_connection((host, int(number)), timeout=float(options[3])).close()
    except OSError as error:
        why = "timed out: Operation now in progress" if isinstance(error, TimeoutError) else f"failed: {error.strerror}"
        print(f"nc: connect to {address} port {port} (tcp) {why}", file=sys.stderr)
        return 1
    print(f"Connection to {address} {port} port [tcp/*] succeeded!", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
