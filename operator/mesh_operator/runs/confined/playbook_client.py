# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What ansible-runner starts in the place of ``ansible-playbook``.

    python -I -S playbook_client.py FOLDER ansible-playbook ARGUMENTS…

It asks the confined child that listens in the run's folder (playbook_job.py) to run the command with the streams, the working folder and
the environment of this process, and ends with its exit status. It imports little, as each run waits for it.
"""

from __future__ import annotations

import json
import os
import socket
import sys

LISTENER = "playbook"  # file in the folder of a run
DIED = 250  # exit status where the run has none


def main(folder: str, *command: str) -> int:
    """Ask for a run, and return its exit status.

    :param folder: of the run.
    :raises OSError: when no child listens there.
    """
    place = os.open(folder, os.O_PATH)  # the name of a socket has 108 bytes at most, and a folder can have more
    request = {"command": command, "environment": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"/proc/self/fd/{place}/{LISTENER}")
        socket.send_fds(connection, [b" "], [0, 1, 2])
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        return int(connection.recv(16) or DIED)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
