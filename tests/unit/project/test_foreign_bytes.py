# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every file that decodes a text of another writer is fuzzed (tests/fuzz/parsers.py), or says why it need not be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from tests.collection_path import CHECKOUT
from tests.fuzz.parsers import PARSERS, READS_ITS_OWN

# The name in a call, with whatever stands before its last dot.
DECODERS: Final = frozenset(
    {
        *("loads", "load_json", "decoded_json", "read_json"),
        *("load_yaml", "compose_yaml", "safe_load", "safe_load_all", "load_all", "full_load"),
        *(
            *("load_certificates", "load_der", "load_key", "load_pem_x509_certificate", "load_pem_x509_certificates"),
            "load_der_x509_certificate",
        ),
        *("load_pem_private_key", "load_verify_locations", "b64decode", "unhexlify", "fromhex", "FromString", "ParseFromString", "unpack"),
        *("fromisoformat", "strptime", "parsedate_to_datetime", "ip_address", "ip_network", "urlsplit", "urlparse", "literal_eval"),
        *("decompress", "recv_frame", "HTTPResponse", "rebuild_kubeconfig", "parse_registry"),
    }
)
READERS: Final = frozenset({("json", "load"), ("json", "loads")})
CHECKED_BEFORE: Final = {
    "plugins/action/mesh_gather.py": "results that the user names, by the bounded reader, whose error it handles",
    "plugins/module_utils/gather/contents.py": "the copies of the leases, by the parser registry, whose errors it handles",
    "plugins/module_utils/gather/redaction.py": "texts of an archive, by the bounded reader, whose error it handles",
    "plugins/plugin_utils/installed.py": "the collection's own MANIFEST.json",
    "plugins/action/mesh_apply.py": "a plan that the user names; plugin_utils/files.py reads it",
    "plugins/module_utils/apply/lease_store.py": "the copies of the leases, by the parser registry, whose errors it handles",
    "plugins/module_utils/identity/findings.py": "the copies of the leases, by the parser registry, whose errors it handles",
    "operator/mesh_operator/source/resources.py": "deletionTimestamp, which an API server sets",
    "operator/mesh_operator/base/settings.py": "a flag",
    "plugins/plugin_utils/play.py": "ranges that the user permits, which were validated as such",
    "plugins/module_utils/checks/network.py": "addresses in facts; parser cluster-objects runs the checks",
    "plugins/module_utils/checks/nodes.py": "addresses in facts; parser cluster-objects runs the checks",
    "plugins/module_utils/checks/peer_records.py": "the addresses of the user's own networks",
    "plugins/module_utils/observe/tls_probe.py": "OpenSSL reads certificates that were parsed before; its errors are the caller's",
    "plugins/module_utils/pipeline/probes.py": "a time that this collection wrote into a status",
}
"""Files with a decoder whose input another file has checked, or that no stranger writes."""


def nodes(*words: str) -> Iterator[tuple[str, ast.AST]]:
    """(file, node) of the files below plugins and operator in which one of the words matches; to walk through the others takes seconds."""
    wanted = re.compile("|".join(words))
    for folder in ("plugins", "operator/mesh_operator"):
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if wanted.search(text):
                for node in ast.walk(ast.parse(text)):
                    yield path.relative_to(CHECKOUT).as_posix(), node


@cache
def decoding() -> frozenset[str]:
    """Files below plugins and operator with a call of a decoder."""
    found = set()
    for file, node in nodes(rf"\b(?:{'|'.join(sorted(DECODERS))})\s*\("):
        called = node.func if isinstance(node, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name in DECODERS:
            found.add(file)
    return frozenset(found)


def test_every_file_that_decodes_foreign_text_is_fuzzed() -> None:
    fuzzed = {file for parser in PARSERS.values() for file in parser.files}
    assert decoding() - fuzzed - READS_ITS_OWN.keys() - CHECKED_BEFORE.keys() == set()


def test_the_lists_name_no_file_that_decodes_nothing() -> None:
    fuzzed = {file for parser in PARSERS.values() for file in parser.files}
    listed = READS_ITS_OWN.keys() | CHECKED_BEFORE.keys()
    assert {file for file in fuzzed | listed if not (CHECKOUT / file).is_file()} == set()
    assert listed - decoding() == set()
    assert not fuzzed & listed


def test_json_of_others_is_read_by_the_bounded_reader_alone() -> None:
    own = {
        "operator/mesh_operator/runs/confined/fork_server.py",  # what the operator wrote
        "operator/mesh_operator/runs/confined/playbook_job.py",  # what the client wrote
        "operator/mesh_operator/runs/confined/process.py",  # what the fork server wrote
        "operator/mesh_operator/crds.py",  # its own documents, turned into plain values
        "operator/mesh_operator/meshes/records.py",  # what it is about to write
        "operator/mesh_operator/runs/confined/run_inventory.py",  # what the operator wrote
        "plugins/module_utils/mesh/ownership/managed_fields.py",  # what observe/ownership.py wrote
        "plugins/plugin_utils/files.py",  # a plan that the user names
    }
    found = set()
    for file, node in nodes(r"\bjson\s*\.\s*loads?\b"):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in READERS:
            found.add(file)
    assert found == own
