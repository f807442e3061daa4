# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Real control planes for the tests of this folder. Where a server binary cannot be had, the tests skip with the reason."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack

import pytest

from tests.integration import labs
from tests.integration import operator_lab as operator_labs
from tests.integration.mesh_lab import MeshLab
from tests.lab import agents
from tests.lab.options import LabOptions
from tests.lab.tools import AGENT, KARMADA, ToolUnavailable, ensure
from tests.lab.tools.provide import at_hand
from tests.testing import gate, group_weights, shard


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption(gate.OPTION):
        items.sort(key=lambda item: gate.place(item.nodeid))
    if not config.pluginmanager.hasplugin("xdist"):
        return
    weights = group_weights.read()
    labs.place_in_groups(items, weights, gate=bool(config.getoption(gate.OPTION)))
    if wanted := config.getoption(shard.OPTION):
        left_out = set(labs.outside_of_shard(items, weights, shard.Shard.parse(wanted)))
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    if getattr(config.option, "loadgroup", False):  # in a worker of pytest-xdist with --dist loadgroup
        labs.name_groups(items)


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str:
    lent = labs.api_servers(items, gate=bool(config.getoption(gate.OPTION)))
    return f"{sum(lent.values())} API servers in labs: {', '.join(f'{name} {count}' for name, count in sorted(lent.items()))}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the last playbooks printed beside the failure of a test that ran some."""
    report = yield
    if report.failed and report.when == "call":
        for lab in (value for value in getattr(item, "funcargs", {}).values() if isinstance(value, MeshLab)):
            report.sections.extend(
                (f"a playbook's run, {len(lab.last_runs) - at - 1} before the last", text) for at, text in enumerate(lab.last_runs)
            )
    return report


@pytest.fixture(scope="session")
def servers() -> None:
    """The server binaries, built if need be."""
    try:
        ensure(progress=lambda line: print(line, flush=True))
    except ToolUnavailable as error:
        pytest.skip(f"the lab's servers cannot be had: {error}")


@pytest.fixture(scope="session")
def karmada_programs() -> None:
    """The four programs of Karmada, which only the deep run builds."""
    missing = set(KARMADA) - at_hand(KARMADA, print).keys()
    if missing:
        pytest.skip(f"no Karmada: {', '.join(sorted(missing))} missing (python -m tests.lab.tools build karmada)")


@pytest.fixture(scope="session")
def real_agents(servers: None) -> None:
    """Cilium's programs, which only the deep run builds, on a machine that can run them."""
    if lacks := [*agents.missing(), *sorted(set(AGENT) - at_hand(AGENT, print).keys())]:
        pytest.skip(f"no real agents: {', '.join(lacks)} missing (docs/lab.md#real-agents)")


@pytest.fixture
def start_lab(servers: None) -> Iterator[Callable[..., MeshLab]]:
    """Start a lab that ends with the test: ``start_lab(cilium="1.18", ca="own")``."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(MeshLab(LabOptions(name=labs.unused_name(), **options)))


@pytest.fixture(scope="session")
def lab_pool(servers: None) -> Iterator[labs.Pool]:
    """The pool of this worker."""
    pool = labs.Pool()
    yield pool
    pool.close()


@pytest.fixture
def lab(request: pytest.FixtureRequest, lab_pool: labs.Pool) -> Iterator[MeshLab]:
    """The lab that the test's marker names, as it was when it was new."""
    with lab_pool.lend(*labs.request_of(request.node), borrower=request.node.nodeid) as lent:
        yield lent


@pytest.fixture(scope="module")
def module_lab(request: pytest.FixtureRequest, lab_pool: labs.Pool) -> Iterator[MeshLab]:
    """The lab that the file's ``pytestmark`` names, for all tests of the file, which run in any order."""
    with lab_pool.lend(*labs.request_of(request.node), borrower=request.node.nodeid) as lent:
        yield lent


@pytest.fixture(scope="module")
def operator_lab(lab_pool: labs.Pool, tmp_path_factory: pytest.TempPathFactory) -> operator_labs.OperatorLab:
    """Clusters, a management plane and a kcp, as they were when they were new."""
    lab_pool.close()
    return operator_labs.SHARED.lend(tmp_path_factory.mktemp("operator"))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the operator lab when the next test has no use for it."""
    if nextitem is None or "operator_lab" not in getattr(nextitem, "fixturenames", ()):
        operator_labs.SHARED.close()
