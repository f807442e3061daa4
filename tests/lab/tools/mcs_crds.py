# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The CRDs of MCS-API (ServiceExport, ServiceImport), read from its Go module at run time: no copy of them is kept here.

Cilium's own module has them only in its vendor folder, which modules are without. The version is that of Cilium 1.20.2's go.mod.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.lab.tools import cache, golang
from tests.lab.tools.child import run_long
from tests.lab.tools.crds import parse_folder
from tests.lab.tools.errors import ToolUnavailable
from tests.lab.tools.progress import Progress, console

MODULE: Final = "sigs.k8s.io/mcs-api"
VERSION: Final = "0.5.2"
SUM: Final = "h1:N+vrRiCIb0WJ0dxbBo7VfNv2WJigOHEo4gsLXpffVs8="
FOLDER: Final = "config/crd"


def mcs_crds(*, progress: Progress | None = None) -> list[dict[str, Any]]:
    """The two CustomResourceDefinition objects. After the first time Go is not needed any more.

    :raises ToolUnavailable: the module cannot be downloaded, or is not the one expected.
    """
    stored = cache.cache_root() / f"crds-mcs-api-{VERSION}.json"
    if not stored.is_file():
        progress = progress or console()
        with cache.exclusive("mcs-crds", progress):
            if not stored.is_file():
                found = _from_module(progress)
                with tempfile.NamedTemporaryFile("w", dir=stored.parent, prefix="unfinished-", delete=False) as file:
                    json.dump(found, file)
                Path(file.name).replace(stored)
    objects: list[dict[str, Any]] = json.loads(stored.read_text())
    return objects


def _from_module(progress: Progress) -> list[dict[str, Any]]:
    go = golang.provide_go(progress)
    progress(f"Fetching the CRDs of MCS-API {VERSION} from its Go module (once). They are kept in {cache.cache_root()}")
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
