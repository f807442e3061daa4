# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What ansible-runner starts in the place of ``ansible-playbook``.

    python -I -S playbook_client.py FOLDER ansible-playbook ARGUMENTS…

It asks the confined child that listens in the run's folder (playbook_job.py) to run the command with the working folder and the environment
of this process, and ends with its exit status. Of the child's output it passes on the marks of events alone, of bounded length:
ansible-runner keeps all that it reads in the memory of the operator. It imports little, as each run waits for it.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import sys

LISTENER = "playbook"  # file in the folder of a run
VARIABLES = "variables.json"  # likewise: the extra variables
HOSTS = "hosts.json"  # likewise: the inventory
DIED = 250  # exit status where the run has none
LONGEST = 1024  # bytes of a mark, which names an event by its UUID: ansible-runner's callback writes some 90

_MARK = re.compile(rb"\x1b\[K(?:[A-Za-z0-9+/=]+\x1b\[\d+D)+\x1b\[K")  # as OutputEventFilter of ansible-runner finds it


def main(folder: str, *command: str) -> int:
    """Ask for a run, and return its exit status.

    :param folder: of the run.
    :raises OSError: when no child listens there.
    """
    place = os.open(folder, os.O_PATH)  # the name of a socket has 108 bytes at most, and a folder can have more
    request = {"command": command, "environment": dict(os.environ), "folder": os.getcwd(), "run": folder}
    output, written = os.pipe()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"/proc/self/fd/{place}/{LISTENER}")
        socket.send_fds(connection, [b" "], [0, written, written])
        os.close(written)
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        pass_marks(output, connection)
        return int(connection.recv(16) or DIED)


def pass_marks(output: int, connection: socket.socket) -> None:
    """Pass the marks of events on to our output, until the child says its exit status or is gone; what it wrote before is passed on too."""
    os.set_blocking(output, False)
    kept = b""
    sources: list[int | socket.socket] = [output, connection]
    while True:
        ready, _, _ = select.select(sources, [], [])
        try:
            while part := os.read(output, 1 << 16):
                kept, end = kept + part, 0
                for mark in _MARK.finditer(kept):
                    end = mark.end()
                    if len(mark[0]) <= LONGEST:
                        os.write(1, mark[0])
                kept = kept[end:][-LONGEST:]
            sources = [connection]  # all that had it open have closed it
        except BlockingIOError:
            pass
        if connection in ready:
            return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
