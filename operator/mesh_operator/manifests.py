# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Command ``mesh-operator kcp-manifests``: manifests for kcp, from operator/deploy/kcp and the CRDs. See docs/kcp.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from string import Template
from typing import Any, Final

import yaml

from .crds import Document, api_resource_schema, crds, load

PARTS: Final = ("export", "rbac", "binding", "workspacetype")


def kcp_manifests(values: Mapping[str, str], only: Collection[str] = PARTS, *, events: bool = True) -> list[Document]:
    """Return documents in the order in which they are applied. ``export`` and ``rbac`` belong into the provider's workspace.

    :param values: values of the templates by name: options of the command without dashes, and ``namespace``.
    :raises KeyError: when a part of ``only`` needs a value that is not in ``values``.
    """
    schemas = [api_resource_schema(crd) for crd in crds()]
    named = [(schema["spec"]["names"]["plural"], schema["spec"]["group"], schema["metadata"]["name"]) for schema in schemas]
    parts = {part: load("kcp", f"{part}.yaml") for part in PARTS}
    export, own, policy = parts["export"][0]["spec"], parts["binding"][-1]["spec"], parts["rbac"][-2]
    claims = export["permissionClaims"] = [claim for claim in export["permissionClaims"] if events or claim["resource"] != "events"]
    export["resources"] = [{"name": name, "group": group, "schema": schema, "storage": {"crd": {}}} for name, group, schema in named]
    own["permissionClaims"] = [claim | {"state": "Accepted", "selector": {"matchAll": True}} for claim in claims]
    policy["rules"][0]["resources"] = [name for name, _group, _schema in named]
    parts["rbac"] = [document for document in parts["rbac"] if events or not document["metadata"]["name"].endswith(":events")]
    filled = [_filled(document, values) for part in PARTS if part in only for document in parts[part]]
    return [*(schemas if "export" in only else ()), *filled]


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """Fill a template after parsing it: a value is text, and cannot become anything else."""
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return Template(value).substitute(values) if isinstance(value, str) else value


def print_manifests(arguments: Sequence[str]) -> int:
    """Print the manifests as YAML and return 0; exit with status 2 and a sentence when an option is wrong or missing."""
    parser = argparse.ArgumentParser(prog="mesh-operator kcp-manifests", description="Print the manifests that kcp needs.")
    parser.add_argument("--export-name", default="edge-portal-networking")
    parser.add_argument("--provider-path", help="workspace of the export, for example root:networking")
    parser.add_argument("--fleet-export", default="edge-portal-fleet", help="export that has the KubernetesClusters")
    parser.add_argument("--fleet-path", help="workspace of that export")
    parser.add_argument("--fleet-identity-hash", help="its status.identityHash")
    parser.add_argument("--service-account", metavar="NAMESPACE/NAME", default="mesh-operator/mesh-operator")
    parser.add_argument("--no-events", action="store_true", help="claim no Events in tenants' workspaces")
    more: dict[str, Callable[[], list[Document]]] = {"tenant-roles": partial(load, "kcp", "tenant-roles.yaml"), "crds": crds}
    text = "repeatable; tenant-roles: for tenants' workspaces, or a plain API server; crds: for a plain API server"
    parser.add_argument("--only", action="append", choices=(*PARTS, *more), help=text)
    given = parser.parse_args(arguments)
    namespace, _slash, name = given.service_account.partition("/")
    if not (namespace and name):
        parser.error("--service-account: write NAMESPACE/NAME")
    values = {key: value for key, value in vars(given).items() if isinstance(value, str) and value}
    own = {"namespace": namespace, "service_account": name}
    try:
        documents = kcp_manifests(values | own, given.only or PARTS, events=not given.no_events)
    except KeyError as missing:
        parser.error(f"--{str(missing.args[0]).replace('_', '-')} is missing; give it, or leave out with --only what needs it")
    asked = [document for part, made in more.items() if part in (given.only or ()) for document in made()]
    yaml.safe_dump_all([*asked, *documents], sys.stdout, sort_keys=False)
    return 0
