# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""An archive accounts for every file, has the same bytes for the same documents, and has an upper bound."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.gather.archive import FOLDER, MTIME, Guards, Heading, pack
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.gather.document import Document, Missing

HEADING = Heading(
    made="2026-09-01T12:00:00+00:00",
    mesh="edge-mesh-eu",
    collection="edge_portal.cilium_mesh 0.1.0",
    missing=(Missing(cluster="c2", what="the whole cluster", reason="No answer within 5 s."),),
)


def document(path: str, content: Any) -> Document:
    return Document(path=path, what=f"what of {path}", why="why", source=(f"object of {path}",), content=content)


def read(content: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {m.name.removeprefix(f"{FOLDER}/"): (archive.extractfile(m) or io.BytesIO()).read() for m in archive.getmembers()}


def test_the_manifest_accounts_for_every_file_by_bytes_and_digest() -> None:
    packed = pack([document("b.json", {"env": [{"value": "x"}]}), document("a/c.json", [1])], HEADING, Guards(), most=2**20)
    files = read(packed.content)
    manifest = json.loads(files.pop("MANIFEST.json"))
    page = files.pop("MANIFEST.md").decode()
    assert {row["path"]: (row["bytes"], row["sha256"]) for row in manifest["files"]} == {
        path: (len(content), hashlib.sha256(content).hexdigest()) for path, content in files.items()
    }
    row = next(row for row in manifest["files"] if row["path"] == "b.json")
    assert row["redacted"] == [{"at": "/env[0]/value", "rule": "environment"}]
    assert row["source"] == ["object of b.json"] and row["what"] and row["why"]
    assert manifest["rules"].keys() == {"environment"}
    for said in ("a/c.json", "b.json", "what of b.json", "object of b.json", "c2 the whole cluster: No answer within 5 s."):
        assert said in page


def test_the_same_documents_in_any_order_give_the_same_bytes_without_owner_or_time() -> None:
    documents = [document(f"{number}.json", {"b": number, "a": [number]}) for number in range(8)]
    first = pack(documents, HEADING, Guards(), most=2**20).content
    shuffled = documents[:]
    random.Random(1).shuffle(shuffled)
    assert pack(shuffled, HEADING, Guards(), most=2**20).content == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in archive.getmembers()} == {(MTIME, 0, 0, "", "", 0o600)}


def test_what_does_not_fit_is_cut_or_left_out_and_named() -> None:
    log = "".join(f"line {number:04}\n" for number in range(1000))
    documents = [document("first.json", list(range(50))), document("operator.log", log), document("late.json", list(range(500)))]
    packed = pack(documents, HEADING, Guards(), most=2000, file_limit=1200)
    files = read(packed.content)
    rows = {row["path"]: row for row in packed.manifest["files"]}
    assert sum(row["bytes"] for row in rows.values()) <= 2000
    assert files["operator.log"].decode().splitlines()[-1] == "line 0999", "of a log the end is kept"
    assert files["operator.log"].decode().splitlines()[0].startswith("line 0"), "of whole lines"
    assert rows["operator.log"]["cutBytes"] > 0
    assert [row["path"] for row in packed.manifest["leftOut"]] == ["late.json.cut"]
    assert "late.json.cut" in files["MANIFEST.md"].decode()


def test_the_manifest_lists_a_bounded_number_of_removals_and_counts_the_others() -> None:
    many = {"annotations": {f"example.com/{number}": "x" for number in range(5000)}}
    (row,) = pack([document("a.json", many)], HEADING, Guards(), most=2**22).manifest["files"]
    assert len(row["redacted"]) + row["redactedMore"] == 5000 and len(row["redacted"]) == 100


def test_no_name_of_a_cluster_leads_out_of_the_archive_or_hides_another_file() -> None:
    hostile = [
        "clusters/../../etc/passwd",
        "/etc/passwd",
        "clusters/a b/x.json",
        "clusters/a_b/x.json",
        "clusters/\x1b[31m/x",
        "..",
        "a\n.json",
    ]
    packed = pack([document(path, path) for path in hostile], HEADING, Guards(), most=2**20)
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
        names = archive.getnames()
    assert len(set(names)) == len(names) == len(hostile) + 2
    assert all(name.startswith(f"{FOLDER}/") and ".." not in name.split("/") and name.isprintable() for name in names)
