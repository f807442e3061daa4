# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The action mesh_gather: an archive is made of whatever answers, whole and for its owner alone; input that is not valid is refused."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline import gather as pipeline_gather
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.installed import collection_version
from tests.collection_path import CHECKOUT

BOTH = {"binding": {"name": "edge-mesh-eu", "clusterRefs": [{"name": "c1"}, {"name": "c2"}]}}


def read(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {member.name.partition("/")[2]: archive.extractfile(member) for member in archive.getmembers()}
        return {name: file.read().decode() for name, file in found.items() if file is not None}


def test_everything_is_in_the_archive_that_the_page_promises_and_only_its_owner_may_read_it(make_world: Any, tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps({"findings": [], "token": "canary-5f2b"}))
    log = tmp_path / "operator.txt"
    log.write_text('{"level": "info", "msg": "run ended", "password": "canary-5f2b"}\nAuthorization: Bearer canary-5f2b\n')
    world = make_world()
    result = world.run("mesh_gather", mesh=BOTH, path=str(target), results=[str(earlier)], operator_log=str(log))
    assert "failed" not in result, result.get("msg")
    files = read(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path not in (earlier, log)] == ["report.tar.gz"], "no scratch file is left"
    page = (CHECKOUT / "docs" / "gather.md").read_text()
    for name in files:
        last = name.rpartition("/")[2]
        assert last.startswith(("MANIFEST", "01-earlier")) or last in page, f"{name} is not on the page"
    of_a_cluster = (
        "cluster",
        "config",
        "certificates",
        "peers",
        "users",
        "leases",
        "service",
        "services",
        "workloads",
        "pods",
        "nodes",
        "writers",
    )
    expected = {f"clusters/{host}/{name}.json" for host in ("c1", "c2") for name in of_a_cluster}
    expected |= {"versions.json", "mesh.json", "findings.json", "plan.json", "links.json", "readers.json", "operator.log"}
    expected |= {"MANIFEST.json", "MANIFEST.md", "results/01-earlier.json"}
    assert set(files) == expected
    assert json.loads(files["versions.json"])["edge_portal.cilium_mesh"] == collection_version() != "unknown"
    assert {link["cluster"] for link in json.loads(files["links.json"])["links"]} == {"c1", "c2"}
    assert "run ended" in files["operator.log"]
    assert not [name for name, text in files.items() if "canary" in text]
    missing = {(row["cluster"], row["what"]) for row in json.loads(files["MANIFEST.json"])["missing"]}
    assert missing == {(host, what) for host in ("c1", "c2") for what in ("states of containers", "global Services")}, (
        "RBAC forbids them here"
    )
    assert world.writes == 0 and result["archive"]["path"] == str(target)
    assert any(str(target) in line for line in world.output)


def test_a_cluster_that_does_not_answer_is_named_and_stops_nothing(make_world: Any, tmp_path: Path) -> None:
    world = make_world()
    world.failures["c2"] = ObserveFailure(host="c2", code="CM-API-01", message="No answer: token=canary-5f2b", remedy="Start it.")
    result = world.run("mesh_gather", mesh=BOTH, path=str(tmp_path / "a.tar.gz"))
    files = read(tmp_path / "a.tar.gz")
    assert "failed" not in result and "clusters/c1/config.json" in files
    assert json.loads(files["clusters/c2/silent.json"])["code"] == "CM-API-01"
    assert "c2 the whole cluster: No answer" in files["MANIFEST.md"] and "canary" not in "".join(files.values())


def test_a_defect_in_one_part_is_named_and_the_others_are_made(make_world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise ValueError("canary-5f2b")

    monkeypatch.setattr(pipeline_gather, "judge_and_plan", broken)
    result = make_world().run("mesh_gather", mesh=BOTH, path=str(tmp_path / "a.tar.gz"))
    files = read(tmp_path / "a.tar.gz")
    assert "failed" not in result and "links.json" in files and "findings.json" not in files
    (row,) = [row for row in json.loads(files["MANIFEST.json"])["missing"] if row["what"] == "findings"]
    assert "Unexpected ValueError at test_gather.py" in row["reason"] and "canary" not in "".join(files.values())


def test_names_are_replaced_everywhere_and_the_list_stays_with_the_user(make_world: Any, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a text of more than sixteen bytes")
    made = []
    for name in ("a", "b"):
        target = tmp_path / f"{name}.tar.gz"
        result = make_world().run("mesh_gather", mesh=BOTH, path=str(target), pseudonym_file=str(tmp_path / "key"))
        assert "failed" not in result
        names = Path(f"{target}.names.json")
        assert stat.S_IMODE(names.stat().st_mode) == 0o600
        made.append((json.loads(names.read_text()), read(target)))
    given, files = made[0]
    assert given["edge-mesh-eu"].startswith("mesh-") and given["c1"].startswith("cluster-")
    assert given == made[1][0], "the same text gives the same pseudonyms"
    assert f"clusters/{given['c1']}/config.json" in files and "clusters/c1/config.json" not in files
    assert not [name for name, text in files.items() if "edge-mesh-eu" in text]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "/nowhere/a.tar.gz"}, "there is no folder /nowhere"),
        ({"results": ["/nowhere/a.json"]}, "results: /nowhere/a.json cannot be read"),
        ({"operator_log": "/"}, "operator_log: / is no regular file"),
        ({"max_mebibytes": 0}, "max_mebibytes is 0; use 1 to 1024"),
        ({"pseudonym_file": "/dev/null"}, "pseudonym_file: /dev/null is no regular file"),
        ({"pseudonyms": True, "pseudonym_file": "SHORT"}, "holds less than 16 bytes"),
    ],
)
def test_input_that_is_not_valid_is_refused_before_a_cluster_is_contacted(
    make_world: Any, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    (tmp_path / "SHORT").write_text("short\n")
    given = {key: str(tmp_path / value) if value == "SHORT" else value for key, value in options.items()}
    world = make_world()
    result = world.run("mesh_gather", mesh=BOTH, **{"path": str(tmp_path / "a.tar.gz"), **given})
    assert result["failed"] is True and said in result["msg"], result["msg"]
    assert world.contacted == set() and not (tmp_path / "a.tar.gz").exists()
