# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_identity: reports the cluster name and id of each member, or assigns them to clusters that were never meshed.

A cluster that is or was in a mesh is never renumbered: it is refused with a recipe, and nothing is written to any cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.base.errors import InvalidInput
from ..module_utils.identity.decide import IdentityRequest
from ..module_utils.pipeline.identity import assign_identities
from ..module_utils.pipeline.options import IdentityOptions
from ..module_utils.pipeline.outcome import Outcome
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of
from ..plugin_utils.spec import spec_of


class ActionModule(MeshAction):
    """Action mesh_identity: reports or assigns cluster names and ids."""

    SPEC = spec_of("mesh_identity")

    def execute(self, call: Call) -> Outcome:
        """Report the names and ids of the members, or assign them, as ``identity_policy`` says."""
        requests = _requests(call.params["names"])
        mesh = mesh_of(call.play, call.params["mesh"])
        return assign_identities(call.run(mesh), IdentityOptions.of(call.params), requests)


def _requests(names: Any) -> dict[str, IdentityRequest]:
    """Parse the option ``names``: inventory name -> {name, id}.

    :raises InvalidInput: when a value is not of that form.
    """
    requests: dict[str, IdentityRequest] = {}
    for host, wanted in dict(names).items():
        known = isinstance(wanted, Mapping) and set(wanted) <= {"name", "id"}
        name, number = (wanted.get("name", ""), wanted.get("id")) if known else ("", None)
        if isinstance(number, str) and number.isascii() and number.isdecimal():
            number = int(number)
        if not known or not isinstance(name, str) or isinstance(number, bool) or not isinstance(number, int | None):
            raise InvalidInput(
                f"names gives {str(host)!r} something else than a name and an id.", remedy="Write HOST: {name: NAME, id: 7}."
            )
        requests[str(host)] = IdentityRequest(name=name, id=None if number is None else int(number))  # Ansible tags numbers too
    return requests
