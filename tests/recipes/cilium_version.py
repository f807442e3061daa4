# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A Cilium version: the minor after the last one that is supported, whose chart leaves what the last one leaves."""

from __future__ import annotations

from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import KNOWN, SUPPORTED, Minor
from tests.recipes.recipe import Edit, Recipe

LAST: Final = SUPPORTED.last
NEW: Final = Minor(LAST.major, LAST.minor + 1)
NEWEST: Final = max(KNOWN.last, NEW)
_CHART: Final = f"_CHART_{LAST.major}{LAST.minor}"
_NEW_CHART: Final = f"_CHART_{NEW.major}{NEW.minor}"


def _changed(path: str, before: str, after: str) -> Edit:
    return Edit(path=path, at=before, text=after, keep=False, everywhere=True)


def _range(name: str, first: Minor, last: Minor) -> str:
    return f"{name}: Final = MinorRange(Minor({first.major}, {first.minor}), Minor({last.major}, {last.minor}))"


RECIPE: Final = Recipe(
    heading="A Cilium version",
    edits=(
        _changed(
            "plugins/module_utils/mesh/versions/minors.py",
            _range("SUPPORTED", SUPPORTED.first, LAST),
            _range("SUPPORTED", SUPPORTED.first, NEW),
        ),
        _changed(
            "plugins/module_utils/mesh/versions/minors.py", _range("KNOWN", KNOWN.first, KNOWN.last), _range("KNOWN", KNOWN.first, NEWEST)
        ),
        _changed(
            "tests/lab/profiles/charts.py",
            "\nCHARTS: Mapping",
            f'{_NEW_CHART} = replace({_CHART}, minor="{NEW}", patch="{NEW}.0")\n\nCHARTS: Mapping',
        ),
        _changed("tests/lab/profiles/charts.py", f", {_CHART})}}", f", {_CHART}, {_NEW_CHART})}}"),
        *(
            _changed(page, f"{SUPPORTED.first} to {LAST}", f"{SUPPORTED.first} to {NEW}")
            for page in ("README.md", "docs/verify.md", "docs/upgrade-check.md", "docs/migrate-from-provider.md")
        ),
        _changed("docs/lab.md", f"`{SUPPORTED.first}` to `{LAST}`", f"`{SUPPORTED.first}` to `{NEW}`"),
        _changed("docs/policy-evaluation.md", f"{SUPPORTED.first} to {LAST}", f"{SUPPORTED.first} to {NEW}"),
        _changed("docs/policy-evaluation.md", f"after {LAST}", f"after {NEW}"),
        *(
            _changed(page, f"{KNOWN.first} to {KNOWN.last}", f"{KNOWN.first} to {NEWEST}")
            for page in ("docs/verify.md", "docs/runbooks/CM-VER-03.md")
            if KNOWN.last != NEWEST
        ),
        _changed("tests/unit/checks/cilium_values.py", f'"{LAST}": 0}}', f'"{LAST}": 0, "{NEW}": 0}}'),
    ),
    generators=(("-m", "tests.testing.write_code_table"),),
    tests=("tests/unit/project/test_supported_versions.py", "tests/unit/mesh/test_versions.py"),
    around=("tests/unit/project", "tests/unit/mesh", "tests/unit/checks", "tests/unit/findings", "tests/unit/upgrade", "tests/unit/lab"),
)
