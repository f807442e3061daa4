# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of ``troubleshoot`` (Cilium 1.15 and newer), which shows the step at which a connection from a reader to its peer fails.

The status of a peer that is not connected says only "Waiting for initial connection to be established"; ``kvstoremesh-dbg
troubleshoot`` and ``cilium troubleshoot clustermesh`` try each step by themselves and say which one fails. Phrases:
pkg/kvstore/etcd_debug.go and cilium-dbg/cmd/troubleshoot_clustermesh.go; a phrase that is not known proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..base.redact import one_line

_CLUSTER: Final = re.compile(r'^Cluster "([^"\n]{1,63})":$', re.MULTILINE)
_FAILED: Final = re.compile(r"^[ \t]*❌ (.*)$", re.MULTILINE)  # \s matches line ends too: thousands of empty lines would take hours
_CONNECTED: Final = "✅ Etcd connection successfully established"
_NO_ANSWER: Final = ("deadline exceeded", "i/o timeout", "EOF", "reset by peer", "broken pipe", "connection refused")

# (phrase, stage) in the order in which a connection is made; of several endpoints the one that came furthest counts.
_PHRASES: Final = (
    ("Configuration not found", "secret_not_projected"),
    ("Cannot parse endpoint", "dialling"),
    ("No available endpoints", "dialling"),
    ("Cannot resolve hostname", "dialling"),
    ("Cannot establish TCP connection", "dialling"),
    ("Cannot establish TLS connection", "tls"),
    ("TLS client authentication failed", "tls"),
    ("Failed to establish connection", "dialling"),  # of the etcd client, when the steps before it went well
    ("Failed to create etcd client", "dialling"),
    ("Failed to retrieve key from etcd", "authorisation"),
)
_ORDER: Final = ("", "secret_not_projected", "dialling", "tls", "authorisation")


@dataclass(frozen=True, kw_only=True)
class Hint:
    """Step that failed (name of a link stage), and the reader's sentence about it. Both are "" if nothing is proven.

    ``connected``: a new connection was established, and the peer's heartbeat could be read.
    """

    stage: str = ""
    error: str = ""
    connected: bool = False


def parse_troubleshoot(output: str, *, ended: bool = True) -> dict[str, Hint]:
    """Parse the output to hints by the peer's Cilium name. A peer that was reached in the meantime has an empty hint.

    :param ended: False when time ran out before the command ended: the section of its last peer may then be incomplete.
    """
    parts = _CLUSTER.split(output[: 1024 * 1024])
    found = {name: _hint(section) for name, section in zip(parts[1::2], parts[2::2], strict=True)}
    if not ended and found and not found[parts[-2]].connected:
        del found[parts[-2]]
    return found


def in_order(output: str, names: Iterable[str]) -> bool:
    """Return whether the peers in the output are those requested, each once, in the program's order (sorted), with none left out.

    The program repeats text of a peer's server (the names of the CAs that it accepts) with line ends and all. A peer could so
    write a text that looks like the section of another; it cannot remove that other's own section.
    """
    found = _CLUSTER.findall(output[: 1024 * 1024])
    return found == sorted(names)[: len(found)]


def _hint(section: str) -> Hint:
    if _CONNECTED in section:
        return Hint(connected=True)
    hints = [Hint(stage=_stage(sentence), error=one_line(sentence)) for sentence in _FAILED.findall(section)]
    return max(hints, key=lambda hint: _ORDER.index(hint.stage), default=Hint())


def _stage(sentence: str) -> str:
    if sentence.startswith("Cannot parse etcd configuration"):
        # The YAML exists before a file that it names: both are projected from Secrets, and these are two different ones.
        return "secret_not_projected" if "no such file" in sentence else ""
    stage = next((stage for phrase, stage in _PHRASES if sentence.startswith(phrase)), "")
    if stage in ("tls", "authorisation") and any(words in sentence for words in _NO_ANSWER):
        return "dialling"  # the connection was accepted and no answer came: a load balancer without its backend
    return stage
