# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""CRDs of operator/deploy, the one source of the kinds, and the APIResourceSchemas that kcp wants in their place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

import yaml

Document = dict[str, Any]

MESH: Final = "mesh"
FLEET: Final = "fleet"
FOLDERS: Final[Mapping[str, str]] = {MESH: "crds", FLEET: "fleet-crds"}
"""Sets of kinds, each of one export, and where their CRDs are."""

_NAMES: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_VERSION: Final = ("name", "served", "storage", "deprecated", "deprecationWarning", "subresources", "additionalPrinterColumns")


def deploy_folder() -> Traversable:
    """Return operator/deploy: within the package if that is installed, beside it in a checkout."""
    package = files(__package__)
    return next(folder for folder in (package / "deploy", package / ".." / "deploy") if (folder / "crds").is_dir())


def load(folder: str, name: str = "") -> list[Document]:
    """Load the documents of one file, or of all, of a folder of ``deploy``, in the order of file names.

    Aliases are resolved to separate values, so that a document can be changed and printed by itself.
    """
    return [json.loads(document) for document in _documents(folder, name)]


@cache
def _documents(folder: str, name: str) -> tuple[str, ...]:
    """Return the same as JSON, which is read in a twentieth of the time."""
    found = sorted((entry for entry in (deploy_folder() / folder).iterdir() if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    texts = [entry.read_text(encoding="utf-8") for entry in found if name in ("", entry.name)]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML was built with libyaml
    return tuple(json.dumps(document) for text in texts for document in yaml.load_all(text, loader) if document)


def crds(profile: str = MESH) -> list[Document]:
    """Return every CustomResourceDefinition of a set of kinds."""
    return load(FOLDERS[profile])


def api_resource_schema(crd: Mapping[str, Any]) -> Document:
    """Return the CRD as an ``APIResourceSchema`` (kcp: CRDToAPIResourceSchema): the schema stands without a level openAPIV3Schema.

    Its name begins with a hash of its spec, which kcp never lets change: another spec is another object, and the same one is found again.
    It has to begin with a letter (kcp: pkg/admission/apiresourceschema/validation.go).
    """
    given = crd["spec"]
    versions = [
        {**{key: version[key] for key in _VERSION if key in version}, "schema": version["schema"]["openAPIV3Schema"]}
        for version in given["versions"]
    ]
    names = {key: given["names"][key] for key in _NAMES if key in given["names"]}
    spec = {"group": given["group"], "names": names, "scope": given["scope"], "versions": versions}
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    name = f"v{digest}.{names['plural']}.{given['group']}"
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": name}, "spec": spec}
