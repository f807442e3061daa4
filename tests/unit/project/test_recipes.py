# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The recipes for contributors lead to what passes, and touch the files that they say (docs/contributing/recipes.md, tests/recipes)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.collection_path import CHECKOUT
from tests.recipes import check, cilium_version, item_kind, setting, trust_mode
from tests.recipes.recipe import PAGE, Recipe, copied, python

RECIPES = {module.RECIPE.heading: module.RECIPE for module in (check, setting, cilium_version, trust_mode, item_kind)}
each = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def test_every_recipe_of_the_page_has_a_sample() -> None:
    assert re.findall(r"(?m)^## (.*): [0-9]+ files?$", PAGE.read_text(encoding="utf-8")) == [*RECIPES]
    assert {path.stem for path in (CHECKOUT / "tests" / "recipes").glob("*.py")} == {
        *("__init__", "recipe", "check", "cilium_version", "item_kind", "setting", "trust_mode")
    }


@each
def test_a_recipe_counts_its_files_and_names_them(recipe: Recipe) -> None:
    assert len(recipe.files) == recipe.promised

    def is_named(path: str) -> bool:
        place = Path(path)
        return any(
            text in recipe.section
            for text in (path, f"`{place.name}`", f"{place.parent}/", f"`{place.parent}`", *map(str, place.parents[1:-1]))
        )

    assert [path for path in sorted(recipe.files) if not is_named(path)] == []
    for program in (arguments[1] for arguments in recipe.generators):
        assert program in recipe.section or "make findings" in recipe.section


@each
def test_what_a_recipe_adds_is_complete(recipe: Recipe, tmp_path: Path) -> None:
    recipe.carried_out(copied(tmp_path))
    python(tmp_path, "-m", "ruff", "check", "--quiet", *sorted(path for path in recipe.files if path.endswith(".py")))
    python(tmp_path, "-m", "ruff", "format", "--check", *sorted(path for path in recipe.files if path.endswith(".py")))
    python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *recipe.tests)


@pytest.mark.full
@each
def test_what_a_recipe_adds_disturbs_nothing_else(recipe: Recipe, tmp_path: Path) -> None:
    recipe.carried_out(copied(tmp_path))
    helm = shutil.which("helm")
    if helm is None and any(path.startswith("operator/deploy/crds/") for path in recipe.files):
        pytest.skip("helm is not on PATH, and without it no manifest is made of the changed chart")
    if helm is not None:
        python(tmp_path, "-c", "import subprocess; subprocess.run(['operator/deploy/manifests/make'], check=True)")
    for package in recipe.packages:
        python(tmp_path, "-m", "mypy", "-p", f"ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.{package}")
    others = ("--ignore", "tests/unit/project/test_recipes.py")
    python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not full and not slow", *others, *recipe.around)
