# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A setting of Cilium: ``enable-endpoint-health-checking``; where it is off, nodes do not probe the pod network of others."""

from __future__ import annotations

from typing import Final

from tests.recipes.recipe import Edit, Recipe

RECIPE: Final = Recipe(
    heading="A setting of Cilium",
    edits=(
        Edit(
            path="plugins/module_utils/mesh/versions/cilium_values.py",
            at='    "enable-health-checking": (_FLAG,),\n',
            text='    "enable-endpoint-health-checking": (_FLAG,),\n',
        ),
        Edit(
            path="tests/unit/checks/cilium_values.py",
            at='    "enable-health-checking": flag(off=("health off True",)),\n',
            text='    "enable-endpoint-health-checking": flag(off=("health off True",)),\n',
        ),
        Edit(
            path="plugins/module_utils/observe/node_health.py",
            at='    return "" if enabled(facts, "enable-health-checking", True) else "enable-health-checking is off in cilium-config"\n',
            text=(
                '    keys = ("enable-health-checking", "enable-endpoint-health-checking")\n'
                '    return next((f"{key} is off in cilium-config" for key in keys if not enabled(facts, key, True)), "")\n'
            ),
            keep=False,
        ),
    ),
    generators=(("-m", "tests.testing.write_code_table"),),
    tests=("tests/unit/checks/test_cilium_values.py",),
    around=("tests/unit/project", "tests/unit/checks", "tests/unit/findings", "tests/unit/observe", "tests/unit/gather"),
)
