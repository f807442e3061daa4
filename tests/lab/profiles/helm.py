# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What Helm does to the objects it owns, replayed: the installation and the upgrade.

Measured with Helm 4 as the cilium CLI embeds it (field manager ``cilium``, operation Update): an upgrade with
``clustermesh.config.enabled=true`` drops every key that it does not know from ``cilium-clustermesh``, ``cilium-kvstoremesh`` and
``users.yaml``; an upgrade to ``clustermesh.config.enabled=false`` deletes the three, unless they carry ``helm.sh/resource-policy: keep``:
then they stay, with their content, and later upgrades leave them alone.
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
OPERATOR = "kubectl-create"  # somebody at a keyboard


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


def helm_upgrade(api: Api, options: ProfileOptions, *, values: Mapping[str, Any] | None = None, version: str | None = None) -> Upgrade:
    """One ``helm upgrade --reuse-values`` of the release that ``options`` describes.

    ``values`` are the chart's (see ``with_values``), ``version`` another chart. As charts do, leaves of method "helm" are signed anew from
    the CA that the cluster holds. HelmRefused: an object that Helm would have to create exists and belongs to somebody else.
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
            change_object(api, path_of(manifest), partial(_update, manifest), field_manager=HELM)
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


def _update(manifest: Manifest, live: Mapping[str, Any]) -> Manifest:
    """A whole update: data and spec become the chart's; foreign labels and annotations of the object itself stay, as in Helm's merge."""
    old = live["metadata"]
    metadata = {key: old[key] for key in ("uid", "resourceVersion", "finalizers", "ownerReferences") if key in old}
    for marks in ("labels", "annotations"):
        metadata[marks] = {**old.get(marks, {}), **manifest["metadata"].get(marks, {})}
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}
