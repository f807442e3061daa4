# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What every test needs: the checkout importable as the collection, property tests that do not mind a loaded machine, and the two tiers."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from tests.collection_path import link
from tests.testing import cpu_account, gate, lab_proof, properties, shard

gc.disable()  # until all is collected: what imports make stays, and passes over it take a quarter of the time of the collection
link()
properties.register()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(gate.OPTION, action="store_true", help="collect nothing of the deep run (tests/testing/gate.py)")
    parser.addoption(
        shard.OPTION, metavar="NUMBER/COUNT", help="of the deep run only this part; no test is in two parts, and each has its lab"
    )
    parser.addoption(cpu_account.OPTION, action="store_true", help="print where the processor time of the run went")
    parser.addoption("--fault-seed", type=int, default=1, help="chooses the cases of tests/integration/test_reliability.py and their order")
    parser.addoption("--fault-minutes", type=float, default=2.0, help="after so many minutes of a circle no further case of them begins")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a shard that is none, and a path that is not there, before anything runs: pytest-xdist shows no error of its workers."""
    folder = config.invocation_params.dir
    os.environ.pop("COLUMNS", None)  # which pytest-xdist sets for its workers: the screens of runs have the width that a test gives them
    if missing := [argument for argument in config.args if not (folder / argument.partition("::")[0]).exists()]:
        raise pytest.UsageError(f"There is no such file or folder: {', '.join(missing)}.")
    if wanted := config.getoption(shard.OPTION):
        try:
            shard.Shard.parse(wanted)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from error
    if config.getoption(gate.OPTION):
        properties.repeat()
    cpu_account.register(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep files of the deep run out of the gate, so that no test imports them there."""
    if not config.getoption(gate.OPTION):
        return None
    if collection_path == lab_proof.TESTS:
        return lab_proof.is_proven() or None
    return gate.is_of_the_deep_run(collection_path) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption(gate.OPTION):
        config.hook.pytest_deselected(items=[item for item in items if not gate.has(item.nodeid)])
        items[:] = [item for item in items if gate.has(item.nodeid)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption(gate.OPTION):
        terminalreporter.write_line(gate.left_out(lab_is_proven=lab_proof.is_proven()))


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's sight: it stays to the end, and every full pass would walk it.
    What is garbage by then stays too: a pass that finds it takes longer than it is worth.

    From here on the collector looks at new objects less often than by default, for a tenth of the time of the tests.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
