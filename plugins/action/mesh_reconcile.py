# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_reconcile: brings names, links and items of a mesh to what one file says, by one plan; or removes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ..module_utils.base.errors import InvalidInput
from ..module_utils.mesh.binding.item_kinds import ItemKind
from ..module_utils.pipeline.items import reconcile_items
from ..module_utils.pipeline.mesh import MeshOptions, reconcile_mesh
from ..module_utils.pipeline.options import ConnectOptions, IdentityOptions, ItemsOptions
from ..module_utils.pipeline.outcome import Outcome
from ..module_utils.plan.stored import StoredPlan, stored_plan
from ..plugin_utils.fitted import Line
from ..plugin_utils.identity_requests import identity_requests
from ..plugin_utils.items_action import check_items, desired_items, untouched
from ..plugin_utils.items_lines import FORMATS
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of

KINDS: Final = tuple(ItemKind)


class ActionModule(MeshAction):
    """Action mesh_reconcile: reconciles or removes a whole mesh."""

    FORMATS = FORMATS

    def execute(self, call: Call) -> Outcome:
        """Reconcile the mesh, or remove it, as ``state`` says."""
        given, state = call.params, call.params["state"]
        _check(given)
        approved = _approved(given["hash"])
        # A survey of AWX gives names between blanks, and a name that no host has would be left out without a word.
        items = ItemsOptions.of(given, former=tuple(name for entry in given["former"] for name in entry.split()))
        check_items(items)
        mesh = mesh_of(call.play, given["mesh"], limited=True, leaving=state == "absent")
        desired = desired_items(given["mesh"], mesh, state, KINDS)
        if not desired.kinds and set(given["mesh"]) & {kind.value for kind in KINDS}:
            self.show([Line(text) for text in untouched(KINDS, given["mesh"])])
        if given["binding_status"] is not None:
            return _with_binding(reconcile_items(call.run(mesh), items, desired))
        options = MeshOptions(
            links=ConnectOptions.of(given, purpose="disconnect" if state == "absent" else "connect"),
            items=items,
            identity=_identity_options(given),
            identities=identity_requests(given["names"]),
        )
        return reconcile_mesh(call.run(mesh), options, desired, approved=approved)


def _check(given: Mapping[str, Any]) -> None:
    """Check the options that exclude each other.

    :raises InvalidInput: when two do not go together.
    """
    absent = given["state"] == "absent"
    if given["binding_status"] is not None and (absent or given["hash"]):
        raise InvalidInput(
            "cilium_mesh_binding_status leaves the links alone, so it goes neither with cilium_mesh_hash nor "
            "with cilium_mesh_state=absent.",
            remedy="Leave it out.",
        )
    if absent and given["clusters"]:
        raise InvalidInput(
            "mesh_connect_clusters names members that leave, and cilium_mesh_state=absent removes the whole mesh.",
            remedy="To take out a member, remove it from binding.clusterRefs and run mesh again.",
        )


def _approved(text: str) -> StoredPlan | None:
    """Return the plan that was approved; None without a hash.

    :raises InvalidInput: when the text is no hash. One of two parts was approved before links and items had one plan.
    """
    if "." in text:
        raise InvalidInput(
            "The approved hash has two parts: links and items had a plan each when it was approved, and now have one plan with one hash.",
            remedy="Run again with --check and approve the hash that it prints.",
        )
    return stored_plan(text) if text else None


def _identity_options(given: Mapping[str, Any]) -> IdentityOptions | None:
    if not given["assign_identities"] or given["state"] == "absent":
        return None
    return IdentityOptions.of(given, identity_policy="assign", wait_timeout=given["rollout_timeout"])


def _with_binding(items: Outcome) -> Outcome:
    """Return the outcome of items alone in the form of a whole mesh, whose links were not measured."""
    return replace(items, extra={**items.extra, "status": {"binding": None, **items.extra["status"]}})
