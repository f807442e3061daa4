# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The commands of the pages of the way in, and what runs each of them.

A command is run as it stands where it is in a block ``shell`` of a page that is followed (tutorial.py), or in the table of a page
(tests/integration/test_page_commands.py). Every other one is in `RUN_BY` with what runs it, or in `NOT_RUN` with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tests.collection_path import CHECKOUT

FOLLOWED: Final = tuple(
    f"docs/{name}.md" for name in ("quickstart", "failover-tutorial", "migrate-from-cilium-cli", "fleet-tutorial", "awx")
)
TABLES: Final[Mapping[str, str]] = {"README.md": "NAME and options", "docs/troubleshooting.md": "Run"}
"""Pages with a table of playbooks and their options, and the head of the column that has them."""
PAGES: Final = (*TABLES, *FOLLOWED)
FORM: Final = "ansible-playbook -i clusters.yml -e @mesh.yml edge_portal.cilium_mesh.NAME"
"""What a command of a table stands for: NAME is the playbook with its options."""

_OF_PAGES: Final = "tests/unit/project/test_page_commands.py::"
_TARGET: Final = f"{_OF_PAGES}test_a_target_of_make_that_a_page_names_exists"
_PACKAGES: Final = f"{_OF_PAGES}test_a_page_installs_the_packages_that_the_collection_needs"
_LAB: Final = f"{_OF_PAGES}test_the_lab_takes_the_arguments_that_a_page_gives_it"
_NETWORKS: Final = f"{_OF_PAGES}test_a_page_writes_the_variable_that_clusters_of_the_lab_need"
_KINDS: Final = f"{_OF_PAGES}test_kubectl_is_given_names_of_kinds"
RUN_BY: Final[Mapping[str, str]] = {
    "make demo": "tests/integration/test_demo.py::test_the_demo_ends_with_the_line_that_the_readme_shows",
    "make demo-traffic": (
        "tests/integration/test_demo.py::test_the_demo_of_traffic_shows_all_that_it_is_to_show_and_is_like_its_recording"
    ),
    "make build": _TARGET,
    "make help": _TARGET,
    "make lab-tools": _TARGET,
    "pip install 'ansible-core>=2.19' kubernetes cryptography pyyaml urllib3 websocket-client jmespath grpcio protobuf": _PACKAGES,
    "pip install -r ~/.ansible/collections/ansible_collections/edge_portal/cilium_mesh/meta/ee-requirements.txt": _PACKAGES,
    ".venv/bin/python -m tests.lab up --names cluster-ffm-1,cluster-ber-2 --cilium 1.20": _LAB,
    ".venv/bin/python -m tests.lab up --karmada --names cluster-ffm-1,cluster-ber-2": _LAB,
    ".venv/bin/python -m tests.lab down": "tests/integration/test_lab.py::test_an_ordinary_user_can_start_and_end_a_lab",
    "mkdir -p group_vars && echo 'cilium_mesh_endpoint_networks: [127.0.0.0/8]' > group_vars/all.yml": _NETWORKS,
    "kubectl get clustermeshbindings,globalservices,connectivityintents,exposedservices": _KINDS,
    "kubectl describe clustermeshbinding edge-mesh-eu": _KINDS,
    "apply -e cilium_mesh_plan_hash=462cce2e91f0": (
        "tests/integration/test_plan.py::test_a_plan_is_applied_exactly_or_refused_with_what_has_changed"
    ),
    "ca -e ca_sync_state=rolled": "tests/integration/test_ca.py::test_clusters_get_new_cas_and_no_reader_sees_an_error",
    "migrate": "tests/integration/test_migrate.py::test_a_mesh_of_the_provider_is_taken_over_and_its_policies_go_when_they_are_replaced",
    "explain": "docs/failover-tutorial.md",
    "adopt": "docs/migrate-from-cilium-cli.md",
    "adopt --check": "docs/migrate-from-cilium-cli.md",
    "hand_back": "docs/migrate-from-cilium-cli.md",
}
"""A command -> the test that runs it with other words, such as a hash that it has just read, or that holds its words; or the followed page
that runs it. A command of a table that is not here is run as it stands."""

_TESTS: Final = "It runs the tests, and this one with them."
_REGISTRY: Final = "It takes the collection from a registry, or packages from the network, and no test depends on either."
_IMAGE: Final = "It makes or moves an image, for which a container engine is needed."
_OTHERS: Final = "The page names a command of another tool, for what the reader does or did with that."
NOT_RUN: Final[Mapping[str, str]] = {
    ".ci/run": _TESTS,
    "make test": _TESTS,
    "make test-all": _TESTS,
    "make test-fast": _TESTS,
    "ansible-test sanity": "It is a part of .ci/run, beside the tests.",
    "python3 -m venv mesh && . mesh/bin/activate": _REGISTRY,
    "ansible-galaxy collection install edge_portal.cilium_mesh": _REGISTRY,
    "ansible-galaxy collection install .build/dist/edge_portal-cilium_mesh-*.tar.gz": _REGISTRY,
    "ansible-builder build --file execution-environment.yml --tag registry.example.com/mesh-ee:1": _IMAGE,
    "podman push registry.example.com/mesh-ee:1": _IMAGE,
    "KUBECONFIG=ffm.kubeconfig:ber.kubeconfig kubectl config view --flatten > clusters.kubeconfig": _OTHERS,
    "kubectl config get-contexts --output name": _OTHERS,
    "cilium clustermesh connect": _OTHERS,
    "cilium clustermesh connect --context A --destination-context B": _OTHERS,
    "cilium clustermesh disconnect": _OTHERS,
    "cilium clustermesh status": _OTHERS,
    "cilium config view | grep cluster-name": _OTHERS,
    "cilium upgrade": _OTHERS,
    "helm upgrade": _OTHERS,
}
"""A command -> why no test runs it."""

_FENCED: Final = re.compile(r"^```(\w*)(?: nodes)?\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_INDENTED: Final = re.compile(r"(?m)^(?: {4}|\t)(\S.*)$")
_PROGRAMS: Final = r"make|kubectl|helm|cilium|pip|python3|ansible-[a-z]+|\.venv/bin/\w+"
_QUOTED: Final = re.compile(rf"`((?:{_PROGRAMS}) [^`]+|\.ci/run)`")
_NOTE: Final = re.compile(r"(?:^|\s+)#\s.*$")
_BEFORE_NAME: Final = FORM.removesuffix("NAME")


def table_commands(page: str) -> list[str]:
    """Return the commands in the table of a page of `TABLES` in their order, once each."""
    tables = re.findall(r"(?m)(?:^\|.*\n)+", _text(page))
    rows = next(rows for rows in map(_cells, tables) if TABLES[page] in rows[0])
    column = rows[0].index(TABLES[page])
    quoted = [found for row in rows[2:] for found in re.findall(r"`([^`]+)`", row[column])]
    return list(dict.fromkeys(found for found in quoted if not found.startswith("cilium_mesh_")))


def other_commands(page: str) -> set[str]:
    """Return the commands of a page that neither a test that follows it runs, nor stand in its table: of its other blocks, and of its text.

    One of a playbook over the mesh is given as in a table.
    """
    text, blocks = _text(page), list(_FENCED.finditer(_text(page)))
    run = "shell" if page in FOLLOWED else ""
    lines = [line for block in blocks if block[1] in {"shell", "sh", ""} - {run} for line in block[2].splitlines()]
    prose = _FENCED.sub("", text)
    found = [*lines, *_INDENTED.findall(prose), *_QUOTED.findall(prose)]
    commands = (_NOTE.sub("", line).strip().removeprefix(_BEFORE_NAME) for line in found)
    return {command for command in commands if command not in ("", "NAME")}


def _cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def _text(page: str) -> str:
    return (CHECKOUT / page).read_text(encoding="utf-8")
