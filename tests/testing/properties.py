# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""How many examples a property is tried with: by the profile of Hypothesis, which the targets of the Makefile choose.

    make test, make test-fast    fast    12
    pytest by hand               tests   100
    make test-all                full    1000
    by hand                      long    8000

`pytest --hypothesis-profile long` chooses one by hand. A property that is dearer or cheaper than others says so with `examples`.
"""

from __future__ import annotations

import copy
import math
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

PROFILES: Final = {"fast": 12, "tests": 100, "full": 1000, "long": 8000}
USUAL: Final = "tests"
_NO_CONSTANTS: Final = copy.deepcopy(providers._local_constants)


def register() -> None:
    """Register all profiles, and load the usual one; the option of the command line is read later.

    The examples of ``full`` and ``long`` are others each time. Those of the other profiles are the same until the test changes, so that CI
    can be repeated. On a loaded machine a draw may take a second; how long something takes is a matter for the benchmark, not for a test.
    """
    for name, count in PROFILES.items():
        settings.register_profile(
            name, max_examples=count, deadline=None, derandomize=name in ("fast", "tests"), suppress_health_check=[HealthCheck.too_slow]
        )
    settings.load_profile(USUAL)


def repeat() -> None:
    """Draw no constants from the sources of imported modules, as Hypothesis does since 6.131, of which no setting turns it off.

    Which modules are imported depends on what a worker ran before, so a property of the gate had other examples in each run, although it is
    derandomized. To read all sources also takes a worker seconds. The deep run draws them.
    """
    providers._get_local_constants = lambda: _NO_CONSTANTS


def examples(usual: int) -> settings:
    """Return settings with ``usual`` examples under the usual profile, and as many more or fewer under another one."""
    return settings(max_examples=math.ceil(usual * settings().max_examples / PROFILES[USUAL]))
