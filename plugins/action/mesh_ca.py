# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_ca: reports the certificates and CAs of a mesh, renews certificates, or rolls the CA. No link drops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..module_utils.base.errors import InvalidInput
from ..module_utils.ca.roll import RollRequest
from ..module_utils.mesh.binding.model import Mesh
from ..module_utils.mesh.facts.cluster import ClusterFacts
from ..module_utils.mesh.trust.ca_roll import RollStage
from ..module_utils.pipeline.ca_roll import RequestOf, roll_ca
from ..module_utils.pipeline.options import ConnectOptions
from ..module_utils.pipeline.outcome import Outcome
from ..module_utils.pipeline.trust import renew, report_trust
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of
from ..plugin_utils.trust_lines import FORMATS


class ActionModule(MeshAction):
    """Action mesh_ca: reports the certificates and CAs of a mesh, renews certificates, or rolls the CA."""

    FORMATS = FORMATS

    def execute(self, call: Call) -> Outcome:
        """Report, renew or roll, as ``state`` says."""
        mesh, state = mesh_of(call.play, call.params["mesh"]), call.params["state"]
        run, options, request = call.run(mesh), ConnectOptions.of(call.params, clusters=()), _request_of(mesh, call.params)
        if state in ("rolled", "shared"):  # every member has to answer, whatever max_failures says
            return roll_ca(run, replace(options, max_failures=None), request)
        return renew(run, options) if state == "renewed" else report_trust(run, options)


def _request_of(mesh: Mesh, params: Mapping[str, Any]) -> RequestOf:
    """Validate the options, and return a function from facts to the request of a roll.

    The request depends on the facts: with ``shared``, the members whose CA is not that of ``source`` roll.

    :raises InvalidInput: when an option is missing, names a cluster that is no member, or belongs to another state.
    """
    state, named, source, confirm = params["state"], [str(c) for c in params["clusters"]], params["source"], params["confirm"]
    strangers = [name for name in (*named, *([source] if source else [])) if name not in mesh.clusters]
    if strangers:
        raise InvalidInput(
            f"{', '.join(strangers)}: no member of the mesh.", remedy=f"Its members are {', '.join(mesh.clusters)}; name these."
        )
    if named and state != "rolled":
        raise InvalidInput("clusters is for state=rolled.", remedy="With state=shared every member but the source takes the source's CA.")
    if (source or confirm) and state != "shared":
        raise InvalidInput("source and confirm are for state=shared.", remedy="Leave them out.")
    if state == "shared":
        _require_confirmation(mesh, source, confirm)
    until = RollStage(params["stage"])

    def request(facts: Mapping[str, ClusterFacts]) -> RollRequest:
        if state == "shared":
            wanted = tuple(host for host in mesh.clusters if host != source and facts[host].ca.digest != facts[source].ca.digest)
        else:
            wanted = tuple(host for host in mesh.clusters if not named or host in named)
        return RollRequest(clusters=wanted, days=params["ca_days"], source=source, until=until)

    return request


def _require_confirmation(mesh: Mesh, source: str, confirm: str) -> None:
    if not source:
        raise InvalidInput("state=shared needs source.", remedy="Name the member whose CA, with its key, the others are to take.")
    if confirm != mesh.binding.name:
        raise InvalidInput(
            f"state=shared copies the CA of {source}, with its private key, into every other member: each can then speak for each.",
            remedy=f"If that is meant, set confirm to the name of the mesh, {mesh.binding.name}.",
        )
