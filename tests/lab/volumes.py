# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a pod's volumes contain, and how it gets on disk: as the kubelet does it, because Cilium's readers watch the symlinks it swaps."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Spec = Mapping[str, Any]
Lookup = Callable[[str, str], Mapping[str, Any] | None]
"""Kind ("Secret" or "ConfigMap") and name to the object, or None when there is none in the pod's namespace."""


class VolumeNotReadyError(RuntimeError):
    """Something that is not optional is missing; the text reads as the kubelet's event does."""


@dataclass(frozen=True)
class FileEntry:
    """Content and permission bits of one file of a volume."""

    content: bytes
    mode: int


def references(volume: Spec) -> Iterator[tuple[str, str]]:
    """The (kind, name) of every Secret and ConfigMap that a volume shows."""
    for source in _sources(volume):
        if "secret" in source:
            yield "Secret", _secret_name(source["secret"])
        elif "configMap" in source:
            yield "ConfigMap", source["configMap"]["name"]


def is_projection(volume: Spec) -> bool:
    """Whether the lab has to keep this volume's files in step with the API; all others are empty folders."""
    return any(kind in volume for kind in ("secret", "configMap", "projected", "downwardAPI"))


def render(volume: Spec, lookup: Lookup) -> dict[str, FileEntry]:
    """Files of a secret, configMap or projected volume by path relative to its root; later sources win, as documented for projected
    volumes. Raises VolumeNotReadyError."""
    holder = next(volume[kind] for kind in ("secret", "configMap", "projected", "downwardAPI") if kind in volume)
    mode = int(holder.get("defaultMode", 0o644))
    files: dict[str, FileEntry] = {}
    for source in _sources(volume):
        if "secret" in source:
            files |= _project("Secret", _secret_name(source["secret"]), source["secret"], lookup, mode)
        elif "configMap" in source:
            files |= _project("ConfigMap", source["configMap"]["name"], source["configMap"], lookup, mode)
    return files


def _sources(volume: Spec) -> list[Spec]:
    if "projected" in volume:
        return list(volume["projected"].get("sources") or [])
    return [volume]


def _secret_name(source: Spec) -> str:
    return str(source.get("secretName") or source.get("name"))


def _project(kind: str, name: str, source: Spec, lookup: Lookup, mode: int) -> dict[str, FileEntry]:
    optional = bool(source.get("optional"))
    found = lookup(kind, name)
    if found is None:
        if optional:
            return {}
        raise VolumeNotReadyError(f'{kind.lower()} "{name}" not found')
    data = _data(kind, found)
    if not source.get("items"):
        return {key: FileEntry(content, mode) for key, content in data.items()}
    files = {}
    for item in source["items"]:
        if item["key"] not in data:
            if optional:
                continue
            raise VolumeNotReadyError(f'references non-existent {kind.lower()} key: {item["key"]} of "{name}"')
        files[item["path"]] = FileEntry(data[item["key"]], int(item.get("mode", mode)))
    return files


def _data(kind: str, found: Mapping[str, Any]) -> dict[str, bytes]:
    if kind == "Secret":
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
    text = {key: str(value).encode() for key, value in (found.get("data") or {}).items()}
    return text | {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}


def remove_at_once(folder: Path) -> None:
    """Remove a folder of files that others may be reading: by its path they find all of it or nothing, never a part.

    The name of the folder that goes begins with a dot.
    """
    gone = folder.with_name(f"..removed-{folder.name}")
    with contextlib.suppress(FileNotFoundError):  # the lab that ends removes the folders of all its pods
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


class AtomicFolder:
    """A folder whose content changes as a whole (kubernetes: pkg/volume/util/atomic_writer.go): files lie in a folder with a unique name,
    ``..data`` is a symlink to it that is swapped by rename, and every visible name is a symlink through ``..data``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shown: dict[str, FileEntry] | None = None
        path.mkdir(parents=True, exist_ok=True)

    def show(self, files: Mapping[str, FileEntry]) -> bool:
        """Make ``files`` the content. Returns whether anything changed."""
        wanted = dict(files)
        if wanted == self._shown:
            return False
        fresh = Path(tempfile.mkdtemp(prefix="..", dir=self.path))
        fresh.chmod(0o755)
        for name, entry in wanted.items():
            target = fresh / name
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, entry.mode)
            with os.fdopen(handle, "wb") as file:
                file.write(entry.content)
        data = self.path / "..data"
        old = data.resolve() if data.is_symlink() else None
        swap = self.path / "..data_tmp"
        swap.symlink_to(fresh.name)
        swap.rename(data)
        self._link(wanted)
        if old is not None:
            remove_at_once(old)
        self._shown = wanted
        return True

    def _link(self, wanted: Mapping[str, FileEntry]) -> None:
        tops = {name.split("/")[0] for name in wanted}
        for top in tops:
            link = self.path / top
            if not link.is_symlink():
                link.symlink_to(Path("..data") / top)
        for path in self.path.iterdir():
            if path.is_symlink() and not path.name.startswith("..") and path.name not in tops:
                path.unlink()
