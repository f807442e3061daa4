# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Cilium's CRDs, read from its Go module at run time: they are Cilium's work and no copy of them is kept here."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab.options import PROFILES
from tests.lab.tools import cache, golang
from tests.lab.tools.catalogue import CILIUM, CILIUM_CRDS
from tests.lab.tools.child import run_long
from tests.lab.tools.errors import ToolUnavailable
from tests.lab.tools.progress import Progress, console

MODULE = "github.com/cilium/cilium"
FOLDER = "pkg/k8s/apis/cilium.io/client/crds"
# What `go mod download` must report (the form of go.sum), beside the checksum database that Go asks anyway.
SUMS = {
    "1.15.19": "h1:paLLN6chvDJiW9FB31c2KHdtFbkFB6QsVxgvLHN9XHs=",
    "1.16.19": "h1:t8UqCIzIeRuKOEZ9B5kj8usoVtjxMA1Z3dKVUMxozL0=",
    "1.18.11": "h1:8KV/ntPoZ6nRMW1l+AVbvkbvIHJhv2ZiBFJD5MEEthg=",
    "1.19.5": "h1:R4tqIO3wwjzr5TnPw5cSbUhdMIjMAoHhtjNvO/hIZ+Q=",
    "1.20.2": "h1:dqiEGIcXc+gqCLYG/l7VCFJ8GHyb4HUrwbZOpkX5dL8=",
}


@dataclass(frozen=True, kw_only=True)
class CrdModule:
    """A release of a Go module that has CRDs. ``title``: of the project, for people. ``checksum``: in the form of go.sum; "" where none is
    known, which leaves the checksum database that Go asks. ``stored``: file in the cache."""

    title: str
    path: str
    folder: str
    version: str
    checksum: str
    stored: str

    def read(self, progress: Progress | None = None) -> list[dict[str, Any]]:
        """Return the CustomResourceDefinition objects, sorted by name. After the first time Go is not needed any more.

        :raises ToolUnavailable: the module cannot be downloaded, or is not the one expected.
        """
        place = cache.cache_root() / self.stored
        if not place.is_file():
            progress = progress or console()
            with cache.exclusive("crds", progress):
                if not place.is_file():
                    progress(
                        f"Fetching the CRDs of {self.title} {self.version} from its Go module (once; usually under a minute). "
                        f"They are kept in {cache.cache_root()}"
                    )
                    _store(place, parse_folder(self.fetch(progress) / self.folder))
        objects: list[dict[str, Any]] = json.loads(place.read_text())
        return objects

    def fetch(self, progress: Progress | None = None) -> Path:
        """Return the folder of the module in Go's own cache, after a download if it is not there.

        :raises ToolUnavailable: the module cannot be downloaded, or is not the one expected.
        """
        progress = progress or console()
        go, release = golang.provide_go(progress), f"{self.path} v{self.version}"
        with tempfile.TemporaryDirectory() as empty:  # outside any module, so that no go.mod has a say
            answer = run_long(
                [go.program, "mod", "download", "-json", f"{self.path}@v{self.version}"],
                what=f"downloading {release}",
                progress=progress,
                cwd=Path(empty),
                env={"GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"},
            )
        module = json.loads(answer)
        if self.checksum and module.get("Sum") != self.checksum:
            raise ToolUnavailable(
                f"{release} came with checksum {module.get('Sum')}, not with {self.checksum}. Do not use that module proxy."
            )
        return Path(module["Dir"])


def cilium_crds(version: str, *, progress: Progress | None = None) -> list[dict[str, Any]]:
    """Return the CRDs of a Cilium release ("1.20.2"), as `CrdModule.read` does."""
    return cilium_module(version).read(progress)


def cilium_module(version: str) -> CrdModule:
    """Return the Go module of a Cilium release. Its folder ``bpf`` has what agents compile."""
    return CrdModule(
        title="Cilium",
        path=MODULE,
        folder=FOLDER,
        version=version,
        checksum=SUMS.get(version, ""),
        stored=f"crds-cilium-{version}.json",
    )


def crds_for_profile(profile: str, *, progress: Progress | None = None) -> list[dict[str, Any]]:
    """The CRDs for a lab cluster that plays a profile: those of 1.20, which have every field that the project writes, and those
    that only the binary's own release has, since clustermesh-apiserver 1.15 waits for all CRDs of its release by name. They have no
    descriptions, of which kube-apiserver makes documents that cost it a second of its start."""
    if profile not in PROFILES:
        raise ToolUnavailable(f"There is no lab profile {profile!r}; there are {', '.join(PROFILES)}.")
    found = merged(cilium_crds(CILIUM_CRDS, progress=progress), cilium_crds(CILIUM, progress=progress))
    return [without_descriptions(item) for item in found]


def merged(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``first``, and what of ``second`` has a name that is not in it."""
    names = {item["metadata"]["name"] for item in first}
    return [*first, *(item for item in second if item["metadata"]["name"] not in names)]


def without_descriptions(value: Any) -> Any:
    """Return an object without the descriptions of its schema; a property of that name is an object, and stays."""
    if isinstance(value, dict):
        return {key: without_descriptions(entry) for key, entry in value.items() if key != "description" or not isinstance(entry, str)}
    return [without_descriptions(entry) for entry in value] if isinstance(value, list) else value


def parse_folder(folder: Path) -> list[dict[str, Any]]:
    """Every CustomResourceDefinition in the YAML files below ``folder``, sorted by name."""
    objects = [item for path in folder.rglob("*.yaml") for item in yaml.safe_load_all(path.read_text()) if item]
    crds = [item for item in objects if item.get("kind") == "CustomResourceDefinition"]
    if not crds:
        raise ToolUnavailable(f"{folder} holds no CustomResourceDefinition; Cilium must have moved them.")
    return sorted(crds, key=lambda item: str(item["metadata"]["name"]))


def _store(path: Path, objects: list[dict[str, Any]]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix="unfinished-", delete=False) as file:
        json.dump(objects, file)
    os.replace(file.name, path)
