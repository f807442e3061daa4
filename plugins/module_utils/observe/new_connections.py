# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""New connections to peers, opened in a pod with the files of its links, by Cilium's own ``troubleshoot`` (1.15 and newer).

It takes one peer after the other. A peer that answers costs some milliseconds, one that is silent costs PEER_SECONDS; so one command is
enough for all peers of a healthy cluster, and the peers that a silent one leaves over are shared between a few more. Never more than
1 + SHARED * (ROUNDS - 1) commands, and ROUNDS * COMMAND_SECONDS, for any number of peers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ..base.errors import ClusterError
from ..kube.client import Cluster
from .troubleshoot import Hint, in_order, parse_troubleshoot

PEER_SECONDS: Final = 2  # for one peer: a connection, a handshake, a read
COMMAND_SECONDS: Final = 9.0
SHARED: Final = 4  # commands at once, from the second round on
ROUNDS: Final = 4

SPOILED: Final = "new connections were tried, but text of a peer is mixed into the output"
TIME_RAN_OUT: Final = "no new connection was tried: peers that do not answer used up the time"


def try_connections(cluster: Cluster, pod: str, program: Sequence[str], names: Sequence[str]) -> tuple[Mapping[str, Hint], str]:
    """Return (the result of each connection by the peer's Cilium name, why there are names without one or "").

    :param program: container, command and the arguments up to ``troubleshoot [clustermesh]``.
    :param names: Cilium names, fit to stand in a command line.
    """
    found: dict[str, Hint] = {}
    problem = ""
    for turn in range(ROUNDS):
        pending = [name for name in names if name not in found]
        if not pending:
            return found, ""
        groups = [pending] if turn == 0 else [group for group in (pending[i::SHARED] for i in range(SHARED)) if group]
        with ThreadPoolExecutor(len(groups)) as pool:
            answers = list(pool.map(lambda group: _run(cluster, pod, program, group), groups))
        problem = next((answer[1] for answer in answers if answer[1]), "")
        spoiled = problem == SPOILED
        for answer in answers:
            found.update(answer[0])
        going_on = any(answer[2] for answer in answers) and any(answer[0] for answer in answers)
        if not going_on and not (spoiled and turn == 0):  # in groups, a peer that spoils the output spoils that of its group only
            break  # the command ended with its whole output, or without any: running it again would not help
    missing = any(name not in found for name in names)
    return found, (problem or TIME_RAN_OUT) if missing else ""


def _run(cluster: Cluster, pod: str, program: Sequence[str], names: Sequence[str]) -> tuple[Mapping[str, Hint], str, bool]:
    """Return (hints, why there are none, whether time ran out)."""
    container, *command = program
    try:
        result = cluster.exec(pod, container, [*command, f"--timeout={PEER_SECONDS}s", *names], timeout=COMMAND_SECONDS, partial=True)
    except ClusterError as error:
        return {}, f"no new connection could be tried: {error.clause}", False
    late = result.exit_code == -1
    if not in_order(result.stdout, names):
        return {}, SPOILED, late
    hints = parse_troubleshoot(result.stdout, ended=not late)
    if hints or late:
        return hints, "", late
    return {}, "no new connection could be tried: the pod's program has no such command (Cilium before 1.15)", False
