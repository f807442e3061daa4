# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A check: the Service of clustermesh-apiserver has another port than the one that Cilium's chart gives it."""

from __future__ import annotations

from itertools import count
from typing import Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.catalogue import CATALOGUE
from tests.collection_path import CHECKOUT
from tests.recipes.recipe import Edit, Recipe

CODE: Final = next(code for number in count(1) if (code := f"CM-SVC-{number:02}") not in CATALOGUE)
_LAST: Final = f"CM-SVC-{int(CODE[-2:]) - 1:02}"


def _last_row() -> str:
    """Return the row of the last code of the family, as the catalogue has it."""
    text = (CHECKOUT / "plugins" / "module_utils" / "findings" / "catalogue.py").read_text(encoding="utf-8")
    begin = text.index(f'"{_LAST}"')
    return text[begin : text.index("\n    Row(" if "\n    Row(" in text[begin:] else "\n)", begin)].partition("\n    #")[0]


_CHECK: Final = f'''@check("{CODE}")
def service_has_the_usual_port(context: CheckContext, facts: ClusterFacts) -> Iterator[Flaw]:
    """Report another port of the Service than the chart's (clustermesh.apiserver.service in values.yaml): firewalls know the usual one."""
    if facts.service is None or facts.service.port == 2379:
        return
    yield Flaw(
        summary=f"clustermesh-apiserver of {{facts.host}} listens on port {{facts.service.port}}: firewalls may keep peers out",
        evidence=f"{{where(facts, 'Service', SERVICE)}}: port = {{facts.service.port}}",
        fix="Set the port back to 2379, or open the other one in every firewall between the clusters.",
    )


'''
_PAGE: Final = f"""\
# {CODE}: The Service has an unusual port

## What it means

Peers dial another port than that of Cilium's chart.

## How it is found

The check reads `spec.ports` of the Service.

## Why it matters

A firewall that was opened for 2379 refuses the connection.

## What to do

Set the port back, or open the other one.
"""

RECIPE: Final = Recipe(
    heading="A check",
    new={f"docs/runbooks/{CODE}.md": _PAGE},
    edits=(
        Edit(
            path="plugins/module_utils/findings/catalogue.py",
            at=f"    Row({_last_row()}",
            text=f'\n    Row("{CODE}", "The Service has an unusual port", ADVISORY, CLUSTER),',
        ),
        Edit(path="plugins/module_utils/checks/service.py", at='@check("CM-ELB-01")\n', text=_CHECK + '@check("CM-ELB-01")\n', keep=False),
        Edit(
            path="tests/unit/checks/catalogue_verify.py",
            at="OTHERS: Table = {\n",
            text=(
                f'    "{CODE}": (\n'
                '        [lambda: one(service=ServiceFacts(type="NodePort", port=2380))],\n'
                '        [lambda: one(service=ServiceFacts(type="NodePort", port=2379))],\n'
                "    ),\n"
            ),
        ),
    ),
    generators=(("-m", "tests.testing.write_code_table"),),
    tests=("tests/unit/checks/test_checks_catalogue.py", "tests/unit/checks/test_checks_documented.py"),
    around=("tests/unit/project", "tests/unit/checks", "tests/unit/findings"),
)
