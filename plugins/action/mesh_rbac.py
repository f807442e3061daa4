# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_rbac: prints, writes or withdraws the rights that an account needs for functions of the collection."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.input_problems import LABEL, SUBDOMAIN, Problems, quoted, sentence
from ..module_utils.pipeline.outcome import Outcome, Recorder
from ..module_utils.pipeline.rbac import PRINTED, RbacOptions, make_rights
from ..module_utils.pipeline.shown import Sentence
from ..module_utils.rbac.circumstances import of_mesh
from ..module_utils.rbac.manifest import SERVICE_ACCOUNT, Account
from ..module_utils.rbac.rule import Function
from ..plugin_utils.files import check_places, write_whole
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_of, plain

ALL: Final = "all"
ACCOUNT: Final = "cilium-mesh"
OTHERS: Final = ("User", "Group")
LONGEST: Final = 240  # characters of a name, which "-items" may follow
_NAME: Final = f'(at most {LONGEST} lower-case letters, digits, "-" and ".")'


class ActionModule(MeshAction):
    """Action mesh_rbac: prints, writes or withdraws rights."""

    def execute(self, call: Call) -> Outcome:
        """Make the rights of each member that takes part, and write the manifests into files; those in check mode too."""
        mesh = mesh_of(call.play, call.params["mesh"], limited=True)
        options = _options(call.params)
        folder = os.path.expanduser(call.params["folder"] or "")
        names = [name for name in mesh.clusters if name in call.play.hosts] if folder else []
        if folder and options.state != PRINTED:
            raise InvalidInput("folder is for the state printed.", remedy="Leave one of them out. No cluster was contacted.")
        places = check_places({f"folder, {name}": os.path.join(folder, f"{name}.yaml") for name in names})
        outcome = make_rights(call.run(mesh), options)
        with Recorder(outcome):
            for row in outcome.extra["rbac"]["manifests"] if folder else ():
                for name in row["clusters"]:
                    path = places[f"folder, {name}"]
                    write_whole("folder", path, row["manifest"].encode())
                    call.ports.show(Sentence(f"Written: {path}", "good"))
        return outcome


def _options(params: Mapping[str, Any]) -> RbacOptions:
    problems = Problems()
    account = _account(problems, plain(params["account"]))
    name, namespaces = params["name"] or "", tuple(dict.fromkeys(params["item_namespaces"]))
    if not params["functions"]:
        problems.add("functions", "is empty; name at least one")
    if name and not _is_name(name):
        problems.add("name", f"{quoted(name)} is no name of an object {_NAME}")
    for namespace in namespaces:
        if not LABEL.fullmatch(namespace):
            problems.add("item_namespaces", f"{quoted(namespace)} is no name of a namespace")
    if problems.found:
        raise InvalidInput(sentence(problems.found), remedy="No cluster was contacted.")
    return RbacOptions(
        state=params["state"],
        functions=frozenset(Function) if ALL in params["functions"] else frozenset(map(Function, params["functions"])),
        of_mesh=of_mesh(plain(params["mesh"]) or {}),
        account=account,
        name=name,
        item_namespaces=namespaces,
    )


def _account(problems: Problems, value: Any) -> Account:
    given = problems.mapping("account", value, ("kind", "name", "namespace"), optional=True)
    kind = problems.typed("account.kind", given.get("kind"), str, "a text") or SERVICE_ACCOUNT
    name = problems.typed("account.name", given.get("name"), str, "a text") or ACCOUNT
    namespace = problems.typed("account.namespace", given.get("namespace"), str, "a text") or ""
    if kind not in (SERVICE_ACCOUNT, *OTHERS):
        problems.add("account.kind", f"must be one of {', '.join((SERVICE_ACCOUNT, *OTHERS))}, not {quoted(kind)}")
    elif kind != SERVICE_ACCOUNT and namespace:
        problems.add("account.namespace", f"a {kind} has none")
    elif kind == SERVICE_ACCOUNT and not _is_name(name):
        problems.add("account.name", f"{quoted(name)} is no name of a ServiceAccount {_NAME}")
    if namespace and not LABEL.fullmatch(namespace):
        problems.add("account.namespace", f"{quoted(namespace)} is no name of a namespace")
    if len(name) > LONGEST or not name.isprintable():
        problems.add("account.name", f"must be one line of at most {LONGEST} characters")
    return Account(kind=kind, name=name, namespace=namespace)


def _is_name(name: str) -> bool:
    return len(name) <= LONGEST and SUBDOMAIN.fullmatch(name) is not None
