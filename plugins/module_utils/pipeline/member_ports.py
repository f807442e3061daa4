# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Ports that only runs of members have, beside those of ``ports.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..apply.tokens import Issued, issue_token
from ..observe import Observation
from ..observe.namespaces import NamespaceContents, read_namespaces
from ..plan.steps import MemberToken


@dataclass(frozen=True, kw_only=True)
class MemberPorts:
    """Functions through which a run of members reaches clusters."""

    read_namespaces: Callable[[Observation, str, Iterable[str]], Mapping[str, NamespaceContents | None]]
    issue_token: Callable[[Observation, MemberToken, str], Issued]


REAL_MEMBER_PORTS: Final = MemberPorts(read_namespaces=read_namespaces, issue_token=issue_token)
"""Ports to real clusters."""
