# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The CRDs of the Gateway API, standard channel, read from its Go module at run time like those of Cilium (crds.py): no copy is here."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.lab.tools import cache, golang
from tests.lab.tools.child import run_long
from tests.lab.tools.crds import parse_folder
from tests.lab.tools.errors import ToolUnavailable
from tests.lab.tools.progress import Progress, console

MODULE: Final = "sigs.k8s.io/gateway-api"
FOLDER: Final = "config/crd/standard"
VERSION: Final = "1.3.0"  # what Cilium 1.18 asks for (Documentation/network/servicemesh/gateway-api/installation.rst)
SUM: Final = "h1:q6okN+/UKDATola4JY7zXzx40WO4VISk7i9DIfOvr9M="  # in the form of go.sum


def gateway_crds(*, progress: Progress | None = None) -> list[dict[str, Any]]:
    """The CustomResourceDefinition objects, sorted by name. After the first time Go is not needed any more.

    :raises ToolUnavailable: the module cannot be downloaded, or is not the one expected.
    """
    stored = cache.cache_root() / f"crds-gateway-api-{VERSION}.json"
    if not stored.is_file():
        progress = progress or console()
        with cache.exclusive("gateway-crds", progress):
            if not stored.is_file():
                _store(stored, _from_module(progress))
    objects: list[dict[str, Any]] = json.loads(stored.read_text())
    return objects


def _from_module(progress: Progress) -> list[dict[str, Any]]:
    go = golang.provide_go(progress)
    progress(f"Fetching the CRDs of the Gateway API {VERSION} from its Go module (once). They are kept in {cache.cache_root()}")
    with tempfile.TemporaryDirectory() as empty:  # outside any module, so that no go.mod has a say
        answer = run_long(
            [go.program, "mod", "download", "-json", f"{MODULE}@v{VERSION}"],
            what=f"downloading {MODULE} v{VERSION}",
            progress=progress,
            cwd=Path(empty),
            env={"GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"},
        )
    module = json.loads(answer)
    if module.get("Sum") != SUM:
        raise ToolUnavailable(f"{MODULE} v{VERSION} came with checksum {module.get('Sum')}, not with {SUM}. Do not use that module proxy.")
    return parse_folder(Path(module["Dir"]) / FOLDER)


def _store(path: Path, objects: list[dict[str, Any]]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix="unfinished-", delete=False) as file:
        json.dump(objects, file)
    os.replace(file.name, path)
