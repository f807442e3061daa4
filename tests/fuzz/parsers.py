# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The list of parsers of foreign bytes. ``tests/unit/project/test_foreign_bytes.py`` holds that no file with a decoder is missing in it."""

from __future__ import annotations

from typing import Final

from tests.fuzz import parse_fleet, parse_kube, parse_members, parse_objects, parse_texts
from tests.fuzz.parser import Parser

_MODULES: Final = (parse_texts, parse_members, parse_objects, parse_kube, parse_fleet)
PARSERS: Final = {found.name: found for module in _MODULES for found in vars(module).values() if isinstance(found, Parser)}

READS_ITS_OWN: Final = {
    "operator/mesh_operator/runs/confined/fork_server.py": "the limits that the operator sets; the server reads nothing of a child",
    "operator/mesh_operator/runs/confined/process.py": "what the fork server says of a child that ended",
    "operator/mesh_operator/runs/confined/playbook_job.py": "the command of a run, which the operator wrote and its client passes on",
    "operator/mesh_operator/crds.py": "the collection's own CRDs",
    "operator/mesh_operator/runs/confined/run_inventory.py": "hosts of a run, which the operator wrote",
    "plugins/module_utils/base/json_fields.py": "the fields of decoded objects, which every parser of objects here uses",
    "plugins/module_utils/ca/signing.py": "certificates that its callers have parsed, and the key of the CA",
    "plugins/module_utils/exposure/parse.py": "the user's own items; the CRD and the option specification bound them",
    "plugins/module_utils/kube/authorization.py": "the id-token of the user's own kubeconfig; it handles the reader's errors",
    "plugins/module_utils/kube/credentials.py": "the client certificate of the user, which OpenSSL has taken before",
    "plugins/module_utils/kube/proxies.py": "the proxy of the user; its caller handles the errors",
    "plugins/module_utils/leases/quarantine.py": "a time that the parser of the registry has checked",
    "plugins/plugin_utils/files.py": "a plan that the user names, as JSON of bounded length",
    "plugins/plugin_utils/structured_text.py": "variables of the user, in the bounded reader that the parser yaml fuzzes",
}
"""Files with a decoder that is not given what others write."""
