# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What ansible-runner starts in the place of ``ansible-playbook`` for an operator with warm plays (tests/testing/warm_operator.py).

    python -I -S warm_play.py SOCKET ansible-playbook ARGUMENTS…

It asks a warm process (tests/testing/warm_ansible.py) for the run, with its own standard streams, folder and environment, and ends with the
run's exit status. A plain script of the standard library, because it has to start fast.
"""

from __future__ import annotations

import json
import os
import socket
import sys

MARK = "MESH_OPERATOR_RUN"  # of mesh_operator/runs.py
DIED = 250  # exit status where the run has none


def main(path: str, program: str, *arguments: str) -> int:
    request = {
        "program": program,
        "args": arguments,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "mark": f"{MARK}={os.environ[MARK]}",
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [b" "], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("r", encoding="ascii") as answers:
            answers.readline()  # the id of the run's process
            return int(answers.read() or DIED)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
