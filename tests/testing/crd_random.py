# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Random specs of custom resources, put together from parts of the examples; what the engine says to a spec; and where its answer
may differ from that of the API server.

A rule that stands in a CRD as CEL stands in a parser as Python (decision 0035). Parts of right and wrong examples are mixed, so that each
rule meets values that no author thought of beside each other.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from mesh_operator.base.kinds import ITEMS

from .crd_examples import BASES, BINDING, MEMBERS, examples

MESH: Final = Mesh(binding=Binding(name=BINDING, cluster_refs=MEMBERS))
LISTS: Final = {row.kind: ItemKind(row.listed) for row in ITEMS}
MEANING: Final = re.compile(
    r"[\w.:\[\]/-]+: (?:"
    r'"[^"]*" is (?:no|not a) member of the mesh; its members are c\d(?:, c\d)*'
    r'|"[^"]*" and "[^"]*" are a pair already; the first is [\w.\[\]]+'
    r'|contradicts the same key with another source: "[^"]*" and "[^"]*"'
    # Annotations say what fields say too.
    r"|is \w+, and globalAnnotations says \w+; give one of them"
    r"|contradicts its other key in globalAnnotations: \w+ and \w+"
    r"|needs backends that are exported, and shared is false; remove one of them"
    r"|is false, and backend MCS exports the Service; remove one of them"
    r'|"[^"]*" is not a cluster of the binding; the clusters of the binding are c\d(?:, c\d)*'
    r'|"[^"]*" is no time that exists'
    r"|together these are every address; write [0-9./:]+(?: and ::/0)? if that is intended"
    r")"
)
"""What the parsers alone refuse, as they say it: it takes the members of the mesh, sums over lists, or fields beside annotations."""


def beyond_meaning(problems: str) -> str:
    """Return what is left of the problems without those that only the engine can see."""
    return re.sub(r"^\w+ has \d+ problems?: |[; .]", "", MEANING.sub("", problems))


def problems_of(kind: str, spec: Any) -> str:
    """Return what the engine says against a spec; "" when it takes it."""
    try:
        if kind in LISTS:
            entry = {"name": "x", **spec} if isinstance(spec, dict) else spec
            return "; ".join(text for refused in desired_of({LISTS[kind]: [entry]}, MESH).refused for text in refused.problems)
        parse({"binding": {"name": BINDING, **spec} if isinstance(spec, dict) else spec}, MEMBERS)
    except InvalidInput as error:
        return error.message
    return ""


def random_specs(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return specs of the kind whose fields come from right examples, whole or mixed; half of them have a field of a wrong example.

    Examples that only the schema refuses are left out: a file has more forms than a custom resource.
    """
    known = [found for found in examples() if found.kind == kind and isinstance(found.spec, dict) and (found.schema or not found.engine)]
    right, every = (_fields([found.spec for found in known if found.schema or all_of_them]) for all_of_them in (False, True))
    least = {name: right[name] for name in BASES[kind]}
    specs = st.fixed_dictionaries(least, optional={name: part for name, part in right.items() if name not in least})
    wrong = st.one_of([st.fixed_dictionaries({name: part}) for name, part in every.items()])
    return st.builds(lambda spec, other: copy.deepcopy({**spec, **other}), specs, st.one_of(st.just({}), wrong))


def _fields(specs: Sequence[dict[str, Any]]) -> dict[str, st.SearchStrategy[Any]]:
    return {name: _mixed([spec[name] for spec in specs if name in spec]) for spec in specs for name in spec}


def _mixed(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    """Return the values, and what is put together from the parts of those that are maps or lists."""
    found: list[st.SearchStrategy[Any]] = [st.sampled_from(values)]
    maps = [value for value in values if isinstance(value, dict) and value]
    if maps:
        parts = {name: _mixed([value[name] for value in maps if name in value]) for value in maps for name in value}
        found.append(st.fixed_dictionaries({}, optional=parts))
    entries = [entry for value in values if isinstance(value, list) and len(value) < 9 for entry in value]
    if entries:
        found.append(st.lists(_mixed(entries), max_size=3))
    return st.one_of(found)
