# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Command ``mesh-operator kcp-manifests``: manifests for kcp, from operator/deploy. See docs/kcp.md, docs/fleet-kinds.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from string import Template
from typing import Any, Final

import yaml

from .crds import FLEET, MESH, Document, api_resource_schema, crds, load

PARTS: Final = ("export", "rbac", "binding", "workspacetype")
FOLDERS: Final[Mapping[str, str]] = {MESH: "kcp", FLEET: "kcp-fleet"}
EXPORTS: Final[Mapping[str, str]] = {MESH: "edge-portal-networking", FLEET: "edge-portal-fleet"}


def kcp_manifests(
    values: Mapping[str, str], only: Collection[str] = PARTS, *, events: bool = True, global_services: bool = False, profile: str = MESH
) -> list[Document]:
    """Return documents in the order in which they are applied. ``export`` and ``rbac`` belong into the provider's workspace.

    :param values: values of the templates by name: options of the command without dashes, and ``namespace``.
    :param events: whether the operator writes Events. ``global_services``: whether it makes GlobalServices (fleet_answers.py).
    :param profile: whose kinds, and whose export.
    :raises KeyError: when a part of ``only`` needs a value that is not in ``values``.
    """
    schemas = [api_resource_schema(crd) for crd in crds(profile)]
    named = [(schema["spec"]["names"]["plural"], schema["spec"]["group"], schema["metadata"]["name"]) for schema in schemas]
    parts = {part: load(FOLDERS[profile], f"{part}.yaml") for part in PARTS}
    export, own, policy = parts["export"][0]["spec"], parts["binding"][-1]["spec"], parts["rbac"][-2]
    tenants, *limited = policy["rules"]
    read_only = {resource for rule in limited for resource in rule["resources"]}
    claims = export["permissionClaims"] = [claim for claim in export["permissionClaims"] if events or claim["resource"] != "events"]
    export["resources"] = [{"name": name, "group": group, "schema": schema, "storage": {"crd": {}}} for name, group, schema in named]
    own["permissionClaims"] = [claim | {"state": "Accepted", "selector": {"matchAll": True}} for claim in claims]
    tenants["resources"] = [name for name, _group, _schema in named if name not in read_only]
    optional = tuple(f":{name}" for name, wanted in (("events", events), ("global-services", global_services)) if not wanted)
    parts["rbac"] = [document for document in parts["rbac"] if not document["metadata"]["name"].endswith(optional)]
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
    parser.add_argument(
        "--profile", choices=tuple(EXPORTS), default=MESH, help="whose kinds: those of meshes (default), or those of fleets"
    )
    parser.add_argument("--export-name", help=f"default: {EXPORTS[MESH]}, with --profile fleet {EXPORTS[FLEET]}")
    parser.add_argument("--provider-path", help="workspace of the export, for example root:networking")
    parser.add_argument("--fleet-export", default="edge-portal-fleet", help="export that has the KubernetesClusters")
    parser.add_argument("--fleet-path", help="workspace of that export")
    parser.add_argument("--fleet-identity-hash", help="its status.identityHash")
    parser.add_argument("--service-account", metavar="NAMESPACE/NAME", default="mesh-operator/mesh-operator")
    parser.add_argument("--no-events", action="store_true", help="claim no Events in tenants' workspaces")
    more: dict[str, Callable[[str], list[Document]]] = {
        "tenant-roles": lambda profile: load(FOLDERS[profile], "tenant-roles.yaml"),
        "crds": crds,
    }
    text = "let the operator make and remove GlobalServices of FleetWorkloads (--profile all of the operator); kcp knows no narrower right"
    parser.add_argument("--global-services", action="store_true", help=text)
    text = "repeatable; tenant-roles: for tenants' workspaces, or a plain API server; crds: for a plain API server"
    parser.add_argument("--only", action="append", choices=(*PARTS, *more), help=text)
    given = parser.parse_args(arguments)
    namespace, _slash, name = given.service_account.partition("/")
    if not (namespace and name):
        parser.error("--service-account: write NAMESPACE/NAME")
    values = {key: value for key, value in vars(given).items() if isinstance(value, str) and value}
    own = {"namespace": namespace, "service_account": name, "export_name": given.export_name or EXPORTS[given.profile]}
    try:
        parts, rights = given.only or PARTS, {"events": not given.no_events, "global_services": given.global_services}
        documents = kcp_manifests(values | own, parts, profile=given.profile, **rights)
    except KeyError as missing:
        parser.error(f"--{str(missing.args[0]).replace('_', '-')} is missing; give it, or leave out with --only what needs it")
    asked = [document for part, made in more.items() if part in (given.only or ()) for document in made(given.profile)]
    yaml.safe_dump_all([*asked, *documents], sys.stdout, sort_keys=False)
    return 0
