# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base of the actions for items: global services, intents and exposed services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from ..module_utils.items.desired import Desired
from ..module_utils.mesh.binding.item_kinds import ItemKind
from ..module_utils.mesh.binding.model import Mesh
from ..module_utils.pipeline.approval import check_names
from ..module_utils.pipeline.items import ALL, NO_ROWS, reconcile_items
from ..module_utils.pipeline.options import ItemsOptions
from ..module_utils.pipeline.outcome import Outcome
from ..module_utils.pipeline.participants import check_breadth
from ..module_utils.plan.stored import stored_plan
from ..module_utils.reconcile.parse import desired_of
from .fitted import Line
from .items_lines import FORMATS
from .mesh_action import Call, MeshAction
from .option_words import Spec
from .play import mesh_of
from .shown_lines import Formats
from .spec import spec_of


class ItemsAction(MeshAction):
    """Base of the actions for items, which declare the kinds of their items in ``KINDS``."""

    KINDS: ClassVar[tuple[ItemKind, ...]] = tuple(ItemKind)
    SPEC: ClassVar[Spec] = spec_of("mesh_items")
    FORMATS: ClassVar[Formats] = FORMATS

    def execute(self, call: Call) -> Outcome:
        """Reconcile the items of these kinds, or remove all of them, as ``state`` says."""
        options = ItemsOptions.of(call.params)
        check_items(options)
        approved = stored_plan(call.params["hash"]) if call.params["hash"] else None
        mesh = mesh_of(call.play, call.params["mesh"], limited=True, leaving=options.state == "absent")
        desired = desired_items(call.params["mesh"], mesh, options.state, self.KINDS)
        if desired.kinds:
            return reconcile_items(call.run(mesh), options, desired, approved=approved)
        self.show([Line(text) for text in untouched(self.KINDS, call.params["mesh"])])
        return Outcome(clusters=mesh.clusters, extra={"status": NO_ROWS})


def check_items(options: ItemsOptions) -> None:
    """Check the options for items that are the same in every action.

    :raises InvalidInput: when one is not valid.
    """
    check_breadth(options)
    check_names("approve_refused", options.approve_refused)
    check_names("accept_incomplete", options.accept_incomplete, ALL)


def desired_items(given: Any, mesh: Mesh, state: str, kinds: Iterable[ItemKind]) -> Desired:
    """Return what ``given``, the variable ``cilium_mesh``, asks of items of these kinds; with the state ``absent`` that is none of them.

    :raises InvalidInput: as ``desired_of``.
    """
    if state == "absent":
        return Desired(mesh=mesh, kinds=frozenset(kinds))
    return desired_of(given, mesh, kinds=tuple(kinds))


def untouched(kinds: Iterable[ItemKind], given: Mapping[str, Any]) -> list[str]:
    """Return a sentence for the kinds that cilium_mesh does not name, and one for those whose list has no value there."""
    null = [kind.value for kind in kinds if kind.value in given]
    absent = [kind.value for kind in kinds if kind.value not in given]
    texts = [f"{' and '.join(absent)}: not in cilium_mesh, so nothing is done about them"] if absent else []
    return texts + (
        [f"{' and '.join(null)}: without a value in cilium_mesh, so nothing is done about them; [] would prune them"] if null else []
    )
