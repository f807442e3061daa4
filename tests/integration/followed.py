# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The pages of docs that are followed as they stand on a lab: the reader has a folder with kubeconfigs, and this collection."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import yaml

from tests.collection_path import CHECKOUT, link
from tests.integration.mesh_lab import LAB_VARIABLES, MeshLab
from tests.lab.pki import merged_kubeconfig, write_yaml
from tests.testing.playbooks import write_warm_command
from tests.testing.result_schema import hold_to_schema
from tests.testing.tutorial import Reader, blocks_of

PLACES = ("ffm-1", "ber-2")
"""Names of the kubeconfigs of the first clusters of a lab, as the pages call them."""
CONTEXTS = ("ffm", "ber")
"""Names of their contexts, where they are in one kubeconfig."""


RECORD = ".events"
"""File in the folder of a reader to which the warm process writes the events of runs (tests/testing/callbacks/mesh_record.py)."""


def reader_of(lab: MeshLab, folder: Path, *, columns: int = 80) -> Reader:
    """Return a reader in a folder that has the kubeconfig of each cluster. ``columns``: of the terminal, in which long lines are folded."""
    for place, cluster in zip(PLACES, lab.names, strict=True):
        (folder / f"{place}.kubeconfig").write_bytes(lab.lab.clusters[cluster].kubeconfig.read_bytes())
    shared = {key: value for key, value in LAB_VARIABLES.items() if key != "ansible_connection"}  # what only a lab needs
    (folder / "group_vars").mkdir()
    (folder / "group_vars" / "all.yml").write_text(json.dumps(shared), encoding="utf-8")
    path = os.pathsep.join(map(str, (write_warm_command(folder / "bin"), Path(sys.executable).parent, os.environ["PATH"])))
    return Reader(
        folder,
        {
            "PATH": path,
            "HOME": str(folder),
            "ANSIBLE_COLLECTIONS_PATH": str(link()),
            "LC_ALL": "C.UTF-8",
            "COLUMNS": str(columns),
            "MESH_RECORD": str(folder / RECORD),
        },
    )


def write_kubeconfig(lab: MeshLab, place: Path) -> None:
    """Write one kubeconfig in which the first clusters of a lab are contexts, with the names that pages give them."""
    parts: list[dict[str, object]] = []
    for context, cluster in zip(CONTEXTS, lab.names, strict=True):
        one = yaml.safe_load(lab.lab.clusters[cluster].kubeconfig.read_bytes())
        entries = {key: [{**one[key][0], "name": context}] for key in ("clusters", "users")}
        parts.append(
            {**entries, "contexts": [{"name": context, "context": {"cluster": context, "user": context}}], "current-context": context}
        )
    write_yaml(place, merged_kubeconfig(parts))


def follow(reader: Reader, page: str) -> None:
    """Do what a page of docs says, block by block, and hold the results of its runs to their schema."""
    for block in blocks_of((CHECKOUT / "docs" / page).read_text(encoding="utf-8")):
        reader.follow(block)
    events = map(json.loads, (reader.folder / RECORD).read_text(encoding="utf-8").splitlines())
    ends = [event["event_data"]["artifact_data"] for event in events if event["event"] == "playbook_on_stats"]
    results = [end["mesh_result"] for end in ends if "mesh_result" in end]
    assert results, f"no run of {page} had a result"
    for result in results:
        hold_to_schema(result)
