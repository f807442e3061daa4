# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What Helm does to the objects it owns, replayed: the installation and the upgrade.

As the cilium CLI does it with the Helm that it embeds (field manager ``cilium``, operation Update): a three-way merge of the former
manifest, the new one and the object. Keys and host aliases of others stay, unless Helm's values name no peer: then the chart renders
``data:`` without a value, and both Secrets are emptied. ``users.yaml`` is one text and becomes the chart's. An upgrade to
``clustermesh.config.enabled=false`` deletes the three objects, unless they carry ``helm.sh/resource-policy: keep``: then they stay, with
their content, and later upgrades leave them alone. ``force_replace`` replaces objects whole, as ``--force-replace`` of Helm and
``Replace=true`` of Argo CD do. tests/integration/test_helm_upgrades.py compares all of that with a real Helm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from ..api import change_object, path_of
from .build import build
from .objects import RESOURCE_POLICY, owned_by_helm
from .options import RELEASE, CaPair, Manifest, ProfileOptions
from .secrets import ca_of
from .values import with_values

HELM = "cilium"  # the name of the program that embeds Helm
CERTGEN = "cilium-certgen"
OPERATOR = "kubectl-create"  # an administrator at a keyboard


class Api(Protocol):
    """What Helm needs of one API server (``tests.lab.api.LabApi``). Every failure but 404 on ``get`` is an exception."""

    def get(self, path: str) -> dict[str, Any] | None: ...
    def create(self, obj: dict[str, Any], *, field_manager: str = "") -> dict[str, Any]: ...
    def replace(self, path: str, obj: dict[str, Any], *, field_manager: str = "") -> dict[str, Any]: ...
    def delete(self, path: str) -> None: ...


class HelmRefused(Exception):
    """Helm stopped before it wrote anything."""


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """What an upgrade came to: the options now in force, and objects as "Kind name"."""

    options: ProfileOptions
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def install(api: Api, options: ProfileOptions) -> list[Manifest]:
    """Creates everything of ``build(options)``, each object by the manager that makes it in a real cluster. Returns the manifests."""
    manifests = build(options)
    for manifest in manifests:
        api.create(manifest, field_manager=manager_of(options, manifest))
    return manifests


def manager_of(options: ProfileOptions, manifest: Mapping[str, Any]) -> str:
    """The field manager that creates this object in a real cluster."""
    if owned_by_helm(manifest):
        return HELM
    return CERTGEN if options.tls_method == "cronJob" and manifest["kind"] == "Secret" else OPERATOR


def helm_upgrade(
    api: Api, options: ProfileOptions, *, values: Mapping[str, Any] | None = None, version: str | None = None, force_replace: bool = False
) -> Upgrade:
    """One ``helm upgrade --reuse-values`` of the release that ``options`` describes.

    ``values`` are the chart's (see ``with_values``), ``version`` another chart. As charts do, leaves of method "helm" are signed anew from
    the CA that the cluster holds. HelmRefused: an object that Helm would have to create exists and has another owner.
    """
    wanted = with_values(replace(options, version=version or options.version), values or {})
    # Only the names of the old release matter: EC keys are made a thousand times faster.
    old = _release(replace(options, key_type="ec"))
    new = _release(replace(wanted, ca=_live_ca(api, wanted) or wanted.ca))
    live = {name: api.get(path_of(manifest)) for name, manifest in (old | new).items()}
    _refuse_foreign(name for name, found in live.items() if name in new.keys() - old.keys() and found and not owned_by_helm(found))
    done: dict[str, list[str]] = {"created": [], "updated": [], "deleted": [], "kept": []}
    for name, manifest in new.items():
        found = live[name]
        if found is None:
            api.create(manifest, field_manager=HELM)
        else:
            update = (
                partial(replaced, manifest) if force_replace else partial(merged, as_rendered(old.get(name, {})), as_rendered(manifest))
            )
            change_object(api, path_of(manifest), update, field_manager=HELM)
        done["created" if found is None else "updated"].append(name)
    for name in old.keys() - new.keys():
        found = live[name]
        if found is None:
            continue
        keep = found["metadata"].get("annotations", {}).get(RESOURCE_POLICY) == "keep"
        if not keep:
            api.delete(path_of(found))
        done["kept" if keep else "deleted"].append(name)
    return Upgrade(options=wanted, **{verb: tuple(sorted(names)) for verb, names in done.items()})


def _release(options: ProfileOptions) -> dict[str, Manifest]:
    """The objects of the release, by "Kind name", in the order of creation."""
    return {f"{manifest['kind']} {manifest['metadata']['name']}": manifest for manifest in build(options) if owned_by_helm(manifest)}


def _live_ca(api: Api, options: ProfileOptions) -> CaPair | None:
    secret = api.get(f"/api/v1/namespaces/{options.namespace}/secrets/cilium-ca")
    return ca_of(secret) if secret else None


def _refuse_foreign(names: Iterable[str]) -> None:
    foreign = sorted(names)
    if foreign:
        raise HelmRefused(
            f'{", ".join(foreign)} exists and cannot be imported into the current release "{RELEASE}": invalid ownership metadata; '
            'label validation error: missing key "app.kubernetes.io/managed-by": must be set to "Helm"'
        )


_MERGE_KEYS = {
    "hostAliases": "ip",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
}
"""Lists that are merged by a key of their entries (``patchMergeKey`` of the API's types); others are replaced."""


def as_rendered(manifest: Mapping[str, Any]) -> Manifest:
    """The manifest as the chart's template renders it: ``data:`` without a value where there is no peer."""
    if manifest.get("kind") == "Secret" and not manifest.get("data"):
        return {**manifest, "data": None}
    return dict(manifest)


def merged(old: Manifest, new: Manifest, live: Mapping[str, Any]) -> Manifest:
    """Helm's three-way merge: what left the manifest goes, what the manifest says is set, and everything else of the object stays."""
    found: Manifest = _merge(old, new, live)
    return {**found, **({"data": {}} if new.get("kind") == "Secret" and not found.get("data") else {})}


def _merge(old: Any, new: Any, live: Any, name: str = "") -> Any:
    if isinstance(new, Mapping) and isinstance(live, Mapping):
        before = old if isinstance(old, Mapping) else {}
        gone = {key for key in before if new.get(key) is None} | {key for key, value in new.items() if value is None}
        kept = {key: value for key, value in live.items() if key not in gone}
        return {**kept, **{k: _merge(before.get(k), v, live.get(k), k) for k, v in new.items() if v is not None}}
    key = _MERGE_KEYS.get(name)
    if key is None or not isinstance(live, list):
        return new
    before = {entry[key]: entry for entry in old or ()}
    wanted = {entry[key]: entry for entry in new}
    present = {entry[key]: entry for entry in live}
    found = {mark: _merge(before.get(mark), entry, present.get(mark, {})) for mark, entry in wanted.items()}
    return [*found.values(), *(entry for mark, entry in present.items() if mark not in found and mark not in before)]


def replaced(manifest: Manifest, live: Mapping[str, Any]) -> Manifest:
    """A whole update: data and spec become the chart's; foreign labels and annotations of the object itself stay."""
    old = live["metadata"]
    metadata = {key: old[key] for key in ("uid", "resourceVersion", "finalizers", "ownerReferences") if key in old}
    for marks in ("labels", "annotations"):
        metadata[marks] = {**old.get(marks, {}), **manifest["metadata"].get(marks, {})}
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}
