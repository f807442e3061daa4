# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Packing of documents: redacted, bounded, and the same bytes for the same documents, with a manifest that accounts for every file.

Nothing reaches the archive but by ``pack``, and there every text, every name of a file and the manifest itself pass the same four steps:
redaction, known secrets, pseudonyms, bounds.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..base.redact import digest
from .document import Document, Missing
from .known_secrets import KnownSecrets
from .pseudonyms import Pseudonyms
from .redaction import Redacted, as_pretty, paths, redact, redact_lines, redact_text
from .removal import MEANING, RemovalRule, RemovedValue

FOLDER: Final = "cilium-mesh-gather"
SCHEMA: Final = 1
FILE_LIMIT: Final = 4 * 2**20  # bytes of one file
REMOVALS_LISTED: Final = 100  # of one file; the others are counted
NAME_LIMIT: Final = 100  # characters of one part of a path
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
MTIME: Final = 315_532_800  # 1980-01-01: the same in every archive, and a time that every program can show


@dataclass(frozen=True, kw_only=True)
class Heading:
    """What the manifest says of the archive as a whole."""

    made: str  # RFC 3339
    mesh: str
    collection: str
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Packed:
    """An archive. ``manifest`` is what its MANIFEST.json says; ``content`` the bytes of the tar.gz."""

    content: bytes
    manifest: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Guards:
    """What every text of an archive passes besides the rules of redaction."""

    known: KnownSecrets = field(default_factory=KnownSecrets)
    pseudonyms: Pseudonyms | None = None

    def text(self, text: str) -> tuple[str, int]:
        """Return the text without known secrets and with pseudonyms, and the number of known secrets that it had."""
        kept, removed = self.known.remove(text)
        return (self.pseudonyms.replace(kept) if self.pseudonyms else kept), removed

    def name(self, text: str) -> str:
        """Return a text of the manifest without anything that may be a secret."""
        return self.text(redact_text(text))[0]

    def path(self, path: str) -> str:
        """Return the path of a file: besides, only letters that no file system and no terminal interprets, and no way upwards."""
        parts = (_UNSAFE.sub("_", part)[:NAME_LIMIT] for part in self.name(path).split("/"))
        return "/".join(re.sub(r"^\.+", "_", part) or "_" for part in parts)


@dataclass(frozen=True)
class _File:
    path: str
    content: bytes
    row: dict[str, Any]


def pack(documents: Iterable[Document], heading: Heading, guards: Guards, *, most: int, file_limit: int = FILE_LIMIT) -> Packed:
    """Return the archive of documents.

    :param most: bytes of all files together, before compression. Files that do not fit are left out and named; those that come first in
        ``documents`` are kept.
    """
    files: list[_File] = []
    left_out: list[dict[str, Any]] = []
    paths_taken: set[str] = set()
    taken = 0
    for document in documents:
        file = _file(document, guards, file_limit)
        if taken + len(file.content) > most:
            left_out.append({"path": file.path, "what": file.row["what"], "bytes": len(file.content)})
            continue
        taken += len(file.content)
        while file.path in paths_taken:
            file = _renamed(file)
        paths_taken.add(file.path)
        files.append(file)
    files.sort(key=lambda file: file.path)
    manifest = _manifest(files, left_out, heading, guards)
    written = [
        ("MANIFEST.json", as_pretty(manifest).encode()),
        ("MANIFEST.md", _markdown(manifest).encode()),
        *((file.path, file.content) for file in files),
    ]
    return Packed(content=_tar(written), manifest=manifest)


def summary(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what a result says of an archive: of each file its path, its size, and the number of values that were removed."""
    rows = [
        {"path": row["path"], "bytes": row["bytes"], "removed": len(row["redacted"]) + row["redactedMore"], "cutBytes": row["cutBytes"]}
        for row in manifest["files"]
    ]
    return {"pseudonyms": manifest["pseudonyms"], "files": rows, "missing": manifest["missing"], "leftOut": manifest["leftOut"]}


def _file(document: Document, guards: Guards, limit: int) -> _File:
    is_log = isinstance(document.content, str)
    redacted = redact_lines(document.content) if is_log else redact(document.content)
    text, known = guards.text(redacted.value if is_log else as_pretty(redacted.value))
    content = text.encode("utf-8", "replace")
    cut = max(0, len(content) - limit)
    if cut:
        content = _cut(content, limit, keep_end=is_log)
    path = guards.path(document.path) + (".cut" if cut and not is_log else "")
    return _File(path, content, _row(document, path, content, redacted, known, cut, guards))


def _renamed(file: _File) -> _File:
    """Return the file under a path that differs: two names may have become one."""
    path = f"{file.path}_"
    return _File(path, file.content, {**file.row, "path": path})


def _cut(content: bytes, limit: int, *, keep_end: bool) -> bytes:
    """Return whole lines of at most ``limit`` bytes: of a log the last ones, of a document the first."""
    if keep_end:
        return content[-limit:].partition(b"\n")[2]
    return content[:limit].rpartition(b"\n")[0] + b"\n"


def _row(document: Document, path: str, content: bytes, redacted: Redacted, known: int, cut: int, guards: Guards) -> dict[str, Any]:
    removed = [*redacted.removed, *([RemovedValue(at="/", rule=RemovalRule.KNOWN)] if known else [])]
    row = {
        "path": path,
        "what": document.what,
        "why": document.why,
        "source": list(document.source),
        "bytes": len(content),
        "sha256": digest(content),
        "redacted": paths(removed[:REMOVALS_LISTED]),
        "redactedMore": max(0, len(removed) - REMOVALS_LISTED),
        "cutBytes": cut,
    }
    return {key: _plain(value, guards) for key, value in row.items()}


def _plain(value: Any, guards: Guards) -> Any:
    """Return a part of the manifest with every text guarded."""
    if isinstance(value, str):
        return value if len(value) == 64 and value.isalnum() else guards.name(value)
    if isinstance(value, dict):
        return {key: _plain(part, guards) for key, part in value.items()}
    return [_plain(part, guards) for part in value] if isinstance(value, (list, tuple)) else value


def _manifest(files: Sequence[_File], left_out: Sequence[dict[str, Any]], heading: Heading, guards: Guards) -> dict[str, Any]:
    used = sorted({row["rule"] for file in files for row in file.row["redacted"]})
    found: dict[str, Any] = _plain(
        {
            "schema": SCHEMA,
            "made": heading.made,
            "mesh": heading.mesh,
            "collection": heading.collection,
            "pseudonyms": guards.pseudonyms is not None,
            "missing": [{"cluster": entry.cluster, "what": entry.what, "reason": entry.reason} for entry in heading.missing],
            "leftOut": list(left_out),
        },
        guards,
    )
    rules = {rule: MEANING[RemovalRule(rule)] for rule in used}
    return {**found, "files": [file.row for file in files], "rules": rules}


def _markdown(manifest: dict[str, Any]) -> str:
    """Return the manifest for people."""
    lines = [
        f"# Archive of mesh {manifest['mesh']}",
        "",
        f"Made {manifest['made']} by {manifest['collection']}. MANIFEST.json has the same with the place of every value that was removed.",
        "Names and addresses are pseudonyms." if manifest["pseudonyms"] else "Names and addresses are the real ones.",
        "",
        "| File | Bytes | Removed | What | Why | From |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in manifest["files"]:
        removed = len(row["redacted"]) + row["redactedMore"]
        what = f"{row['what']}; {row['cutBytes']} bytes were cut" if row["cutBytes"] else row["what"]
        cells = (row["path"], str(row["bytes"]), str(removed), what, row["why"], ", ".join(row["source"]))
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    for title, rows in (("Not read", manifest["missing"]), ("Left out, as the archive was full", manifest["leftOut"])):
        if rows:
            lines += ["", f"## {title}", ""]
            lines += [f"- {' '.join(filter(None, (row.get('cluster'), row.get('path'), row['what'])))}: {_reason(row)}" for row in rows]
    if manifest["rules"]:
        lines += ["", "## Why values were removed", "", *(f"- `{rule}`: {meaning}" for rule, meaning in manifest["rules"].items())]
    return "\n".join(lines) + "\n"


def _reason(row: dict[str, Any]) -> str:
    return str(row["reason"]) if "reason" in row else f"{row['bytes']} bytes"


def _tar(files: Sequence[tuple[str, bytes]]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in files:
            entry = tarfile.TarInfo(f"{FOLDER}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), MTIME, 0o600
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)
