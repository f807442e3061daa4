# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Real control planes for the tests of this folder. Where a server binary cannot be had, the tests skip with the reason."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.integration.mesh_lab import MeshLab
from tests.lab.options import LabOptions
from tests.lab.tools import ToolUnavailable, ensure

_numbers = itertools.count(1)


def unused_name() -> str:
    """A lab name that no other test of this or another process uses."""
    return f"test-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="session")
def servers() -> None:
    """The server binaries, built if need be."""
    try:
        ensure(progress=lambda line: print(line, flush=True))
    except ToolUnavailable as error:
        pytest.skip(f"the lab's servers cannot be had: {error}")


@pytest.fixture
def start_lab(servers: None) -> Iterator[Callable[..., MeshLab]]:
    """Start a lab that ends with the test: ``start_lab(cilium="1.18", ca="own")``."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(MeshLab(LabOptions(name=unused_name(), **options)))


@pytest.fixture(scope="module")
def shared_lab(servers: None) -> Iterator[Callable[..., MeshLab]]:
    """Labs that all tests of a file share, one for each set of options; a test leaves its lab as it found it."""
    labs: dict[Any, MeshLab] = {}
    with ExitStack() as stack:

        def get(**options: Any) -> MeshLab:
            key = tuple(sorted(options.items()))
            if key not in labs:
                labs[key] = stack.enter_context(MeshLab(LabOptions(name=unused_name(), **options)))
            return labs[key]

        yield get
