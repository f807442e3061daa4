# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The options of the actions, as Ansible's validator takes them.

The documentation of the modules is their source. To parse it for every task would take tens of milliseconds, so arguments.py is generated
from it, and a test holds that it is current.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from .arguments import ARGUMENTS

Spec: TypeAlias = dict[str, dict[str, Any]]


def spec_of(module: str) -> Spec:
    """Return the options of a module in the form of ``ArgumentSpecValidator``."""
    return dict(ARGUMENTS[module])
