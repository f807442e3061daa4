# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Signals that end a run: Ctrl-C, and SIGTERM as AWX and init systems send it.

ansible-playbook passes both on to its worker, which would end at once, and leave the lock of the mesh to its expiry.
https://github.com/ansible/ansible/blob/v2.19.0/lib/ansible/executor/process/worker.py (_term)
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
GRACE: Final = 8
"""Seconds for what is under way and for giving the lock back. ansible-playbook waits 10 for its worker (WORKER_SHUTDOWN_POLL_COUNT)."""


class Stopped(BaseException):
    """Signal that ends the run. No Exception, since what handles errors would go on with the run."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Have a signal leave the block as ``Stopped``, so that everything is given back, and then take effect as it would have without.

    A process that does not get there in ``GRACE`` seconds is ended. A thread other than the main one gets no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    arrived: list[int] = []

    def stop(number: int, _frame: object) -> None:
        arrived.append(number)
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(GRACE)
        raise Stopped(number)

    before: dict[signal.Signals, Any] = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        if arrived:
            signal.alarm(0)
            signal.raise_signal(arrived[0])
