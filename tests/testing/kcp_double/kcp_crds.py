# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""kcp's own kinds on the real API server: the parts of their schemas that refuse something (kcp config/crds, admission)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.lab.api import ApiError, LabApi, change_object
from tests.lab.patience import Budget
from tests.testing.kcp_double.translate import Resource, Scope

Object = dict[str, Any]
APIS: Final = "apis.kcp.io"
TENANCY: Final = "tenancy.kcp.io"
CORE: Final = "core.kcp.io"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ESTABLISHED: Final = 20.0  # seconds; it takes a second or two
_PATH: Final = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}
_OPEN: Final[Object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Final[Object] = {"type": "string"}
_TEXTS: Final[Object] = {"type": "array", "items": _TEXT}


def _object(required: Iterable[str] = (), rules: Mapping[str, str] | None = None, **properties: Object) -> Object:
    schema: Object = {"type": "object", "properties": properties, "x-kubernetes-preserve-unknown-fields": True}
    if required := list(required):
        schema["required"] = required
    if rules:
        schema["x-kubernetes-validations"] = [{"message": message, "rule": rule} for message, rule in rules.items()]
    return schema


def _list(item: Object, *, keys: Iterable[str] = (), most: int = 0) -> Object:
    schema: Object = {"type": "array", "items": item}
    if keys := list(keys):
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
    return schema | ({"maxItems": most} if most else {})


_EXPORT_REFERENCE: Final = _object(["name"], name=_TEXT, path=_PATH)
_REFERENCE: Final = _object(["export"], {"APIExport reference must not be changed": "self == oldSelf"}, export=_EXPORT_REFERENCE)
_CLAIM: Final[Object] = {
    "group": {"type": "string", "default": ""},
    "resource": {"type": "string", "pattern": "^[a-z][-a-z0-9]*[a-z0-9]$"},
    "identityHash": _TEXT,
}
_VERBS: Final[Object] = {**_TEXTS, "minItems": 1, "x-kubernetes-list-type": "set"}
_CLAIM_KEYS: Final = ("group", "resource", "identityHash")
_CLAIM_DEFAULTED: Final = {**_CLAIM, "identityHash": {**_TEXT, "default": ""}}  # keys of a list map need a default


def _claims(required: Iterable[str], **more: Object) -> Object:
    return _list(_object(["resource", *required], **_CLAIM_DEFAULTED, **more), keys=_CLAIM_KEYS)


_BINDING: Final = _object(["reference"], reference=_REFERENCE, permissionClaims=_claims(
    ["verbs", "state", "selector"],
    verbs=_VERBS,
    state={"type": "string", "enum": ["Accepted", "Rejected"]},
    selector=_object((), {"Permission claim selector is immutable": "self == oldSelf"}),
))  # fmt: skip
_BINDING_1: Final = _object(["reference"], reference=_REFERENCE, permissionClaims={"type": "array", "items": _OPEN})
_EXPORT: Final = _object(
    resources=_list(_object(["group", "name", "schema"], group=_TEXT, name=_TEXT, schema=_TEXT), keys=("name", "group")),
    permissionClaims=_claims(["verbs"], verbs=_VERBS),
    maximalPermissionPolicy=_object(local=_OPEN),
)
_SCHEMA_VERSION: Final = _object(["name", "schema", "served", "storage"], name=_TEXT, schema=_OPEN, served={"type": "boolean"})
_SCHEMA: Final = _object(
    ["group", "names", "scope", "versions"],
    {"is immutable": "self == oldSelf"},
    group=_TEXT,
    names=_object(["plural", "kind"], plural=_TEXT, kind=_TEXT),
    scope={"type": "string", "enum": ["Cluster", "Namespaced"]},
    versions=_list(_SCHEMA_VERSION, keys=["name"], most=10),
)
_SLICE: Final = _object(["export"], export=_EXPORT_REFERENCE, partition=_TEXT)
_WORKSPACE: Final = _object(type=_object(["name"], name=_TEXT, path=_PATH), cluster=_TEXT, URL=_TEXT, location=_OPEN)
_SCHEMA_NAME: Final = {
    "metadata.name must be <prefix>.<plural>.<group>, and the prefix start with a letter": (
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?[.]') && self.metadata.name.endsWith("
        "'.' + self.spec.names.plural + '.' + (self.spec.group == '' ? 'core' : self.spec.group))"
    )
}
# kind, group, versions with the schema of their spec (the last is stored), rules of the whole object
_KINDS: Final[tuple[tuple[str, str, dict[str, Object], dict[str, str]], ...]] = (
    ("APIBinding", APIS, {"v1alpha1": _BINDING_1, "v1alpha2": _BINDING}, {}),
    ("APIExport", APIS, {"v1alpha2": _EXPORT}, {}),
    ("APIExportEndpointSlice", APIS, {"v1alpha1": _SLICE}, {}),
    ("APIResourceSchema", APIS, {"v1alpha1": _SCHEMA}, _SCHEMA_NAME),
    ("Workspace", TENANCY, {"v1alpha1": _WORKSPACE}, {}),
    ("WorkspaceType", TENANCY, {"v1alpha1": _OPEN}, {}),
    ("LogicalCluster", CORE, {"v1alpha1": _OPEN}, {}),
)
OWN: Final = tuple(Resource(group, f"{kind.lower()}s", Scope.ROOTED) for kind, group, _, _ in _KINDS)


def own_definitions() -> list[Object]:
    """The CRDs. Namespaced here, although cluster-scoped in kcp: the namespace tells whose an object is."""
    return [_definition(kind, group, versions, rules) for kind, group, versions, rules in _KINDS]


def definition_of(schema: Mapping[str, Any]) -> Object:
    """An APIResourceSchema as the CRD that serves it here. Its scope is namespaced in any case, see ``own_definitions``."""
    spec = schema["spec"]
    versions = [{**version, "schema": {"openAPIV3Schema": version["schema"]}} for version in spec["versions"]]
    name = f"{spec['names']['plural']}.{spec['group']}"
    return _crd(name, {"group": spec["group"], "names": spec["names"], "scope": "Namespaced", "versions": versions})


def install(api: LabApi, definition: Object) -> None:
    """Create or change a CRD, and wait until it is served."""
    path = f"{_DEFINITIONS}/{definition['metadata']['name']}"
    if api.get(path) is None:
        api.create(definition)
    else:
        change_object(api, path, lambda known: {**definition, "metadata": {**definition["metadata"], **_version(known)}})


def _version(known: Object) -> Object:
    return {"resourceVersion": known["metadata"]["resourceVersion"]}


def wait_served(api: LabApi, definition: Object) -> None:
    """Raises ApiError when it does not come to be."""
    spec = definition["spec"]
    budget = Budget(_ESTABLISHED)
    for version in (one["name"] for one in spec["versions"] if one["served"]):
        while True:
            try:
                api.get_text(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}?limit=1")
                break
            except ApiError as error:
                if error.status != 404 or budget.is_spent():
                    raise
            time.sleep(0.05)


def refusal(api: LabApi, definition: Object) -> ApiError | None:
    """Why the real server would not take this CRD; None when it would. It validates before it looks whether there is one already."""
    try:
        api._call("POST", _DEFINITIONS, definition, query={"dryRun": "All"})
    except ApiError as error:
        return None if error.status == 409 else error
    return None


def _definition(kind: str, group: str, versions: Mapping[str, Object], rules: Mapping[str, str]) -> Object:
    names = {"kind": kind, "listKind": f"{kind}List", "plural": f"{kind.lower()}s", "singular": kind.lower(), "categories": ["kcp"]}
    last = list(versions)[-1]
    served = [
        {
            "name": version,
            "served": True,
            "storage": version == last,
            "schema": {"openAPIV3Schema": _whole(spec, rules)},
            "subresources": {} if kind == "APIResourceSchema" else {"status": {}},
        }
        for version, spec in versions.items()
    ]
    return _crd(f"{names['plural']}.{group}", {"group": group, "names": names, "scope": "Namespaced", "versions": served})


def _whole(spec: Object, rules: Mapping[str, str]) -> Object:
    metadata = {"type": "object", "properties": {"name": _TEXT}}
    schema = _object((), rules, spec=spec, status=_OPEN, metadata=metadata)
    return schema | {"properties": {**schema["properties"], "apiVersion": _TEXT, "kind": _TEXT}}


def _crd(name: str, spec: Object) -> Object:
    # kcp.io is no protected group; *.k8s.io would want an approval.
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": spec}
