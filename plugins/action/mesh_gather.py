# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action mesh_gather: makes one archive for a bug report, without secrets. It writes to no cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from ansible.release import __version__ as core_version

from ..module_utils.base.errors import InvalidInput
from ..module_utils.base.json_reader import NotJson, load_json
from ..module_utils.gather.document import Document
from ..module_utils.gather.redaction import as_pretty
from ..module_utils.pipeline.gather import GatherInput, gather
from ..module_utils.pipeline.outcome import Outcome, Recorder
from ..module_utils.pipeline.shown import ArchiveMade
from ..plugin_utils.files import check_places, read_bounded, write_whole
from ..plugin_utils.installed import collection_version, installed_versions
from ..plugin_utils.mesh_action import Call, MeshAction
from ..plugin_utils.play import mesh_to_verify

MODE: Final = 0o600
MEBIBYTE: Final = 2**20
RESULT_LIMIT: Final = 16 * MEBIBYTE
LOG_LIMIT: Final = 4 * MEBIBYTE
LEAST_KEY: Final = 16  # bytes


class ActionModule(MeshAction):
    """Action mesh_gather: makes an archive for a bug report."""

    def execute(self, call: Call) -> Outcome:
        """Read the members, and write the archive; in check mode too, as no cluster is changed by that."""
        mesh, _unbound = mesh_to_verify(call.play, call.params["mesh"])
        where = call.params["path"] or f"cilium-mesh-gather-{mesh.binding.name}-{_stamp(call.now)}.tar.gz"
        pseudonyms = bool(call.params["pseudonyms"] or call.params["pseudonym_file"])
        files = {"path": where, **({"path (the names)": f"{where}.names.json"} if pseudonyms else {})}
        places = check_places({option: os.path.expanduser(path) for option, path in files.items()})
        given = GatherInput(
            versions=installed_versions(core_version),
            collection=f"edge_portal.cilium_mesh {collection_version()}",
            documents=tuple(_given_documents(call.params)),
            proof=call.params["proof"],
            pseudonym_key=_key(call.params["pseudonym_file"]) if pseudonyms else None,
            most=call.params["max_mebibytes"] * MEBIBYTE,
        )
        found = gather(call.run(mesh), given, places["path"])
        with Recorder(found.outcome):
            write_whole("path", places["path"], found.packed.content, MODE)
            if pseudonyms:
                write_whole("path", places["path (the names)"], as_pretty(dict(found.pseudonyms)).encode(), MODE)
            archive = found.outcome.extra["archive"]
            call.ports.show(ArchiveMade(places["path"], archive, archive["bytes"]))
        return found.outcome


def _stamp(now: datetime) -> str:
    return now.strftime("%Y%m%dT%H%M%SZ")


def _key(path: str | None) -> bytes:
    """Return the key of the pseudonyms: the content of the file, or one for this archive alone."""
    if not path:
        return os.urandom(32)
    content, _more = read_bounded("pseudonym_file", path, 4096, end=False)
    key = content.strip().encode()
    if len(key) < LEAST_KEY:
        raise InvalidInput(
            f"pseudonym_file: {path} holds less than {LEAST_KEY} bytes, from which names could be guessed.",
            remedy="Make it with: openssl rand -hex 32. No cluster was contacted.",
        )
    return key


def _given_documents(params: Mapping[str, Any]) -> Iterator[Document]:
    """Yield the results and the log that the user names."""
    why = "it shows what was done before, and what was said"
    for number, path in enumerate(params["results"], 1):
        content, more = read_bounded("results", path, RESULT_LIMIT, end=False)
        if more:
            raise InvalidInput(f"results: {path} is larger than {RESULT_LIMIT} bytes.", remedy="Name the result of one run.")
        yield Document(
            path=f"results/{number:02}-{os.path.basename(path)}",
            what="a result of an earlier run",
            why=why,
            source=(f"file {os.path.basename(path)} of the controller",),
            content=_json_or_text(content),
        )
    if params["operator_log"]:
        content, more = read_bounded("operator_log", params["operator_log"], LOG_LIMIT, end=True)
        note = f"; its first {more} bytes were left out" if more else ""
        yield Document(
            path="operator.log",
            what=f"the log of mesh-operator{note}",
            why=why,
            source=(f"file {os.path.basename(params['operator_log'])} of the controller",),
            content=content.partition("\n")[2] if more else content,
        )


def _json_or_text(content: str) -> Any:
    """Return the document that a text holds; a text that is no JSON, such as the output of a run, is kept as lines."""
    try:
        found = load_json(content)
    except NotJson:
        return content
    return found if isinstance(found, (dict, list)) else content
