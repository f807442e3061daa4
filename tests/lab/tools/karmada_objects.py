# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Karmada's CRDs and webhook configurations, read from its Go module at run time like Cilium's CRDs (crds.py): no copy is here."""

from __future__ import annotations

import os
from typing import Any, Final

import yaml

from tests.lab.tools import cache
from tests.lab.tools.catalogue import KARMADA_VERSION
from tests.lab.tools.crds import CrdModule, without_descriptions
from tests.lab.tools.progress import Progress

MODULE: Final = CrdModule(
    title="Karmada",
    path="github.com/karmada-io/karmada",
    folder="charts/karmada/_crds/bases",
    version=KARMADA_VERSION,
    checksum="",
    stored=f"crds-karmada-{KARMADA_VERSION}.json",
)
_WEBHOOKS: Final = "artifacts/deploy/webhook-configuration.yaml"
_SERVICE: Final = "https://karmada-webhook.karmada-system.svc:443"
_CONVERTED: Final = ("resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io")


def karmada_crds(webhook: str, authority: str, *, progress: Progress | None = None) -> list[dict[str, Any]]:
    """Return the CRDs. ``webhook``: https://HOST:PORT; ``authority``: its CA certificate, base64."""
    found = [without_descriptions(item) for item in MODULE.read(progress)]
    for crd in found:
        if crd["metadata"]["name"] in _CONVERTED:  # charts/karmada/_crds/patches, which are templates
            client = {"url": f"{webhook}/convert", "caBundle": authority}
            crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    return found


def karmada_webhooks(webhook: str, authority: str, *, progress: Progress | None = None) -> list[dict[str, Any]]:
    """Return the webhook configurations. The arguments are those of `karmada_crds`."""
    text = _webhooks(progress).replace("{{caBundle}}", authority).replace(_SERVICE, webhook)
    return [item for item in yaml.safe_load_all(text) if item]


def keep_karmada_objects(progress: Progress | None = None) -> None:
    """Have all of it in the cache, so that no lab has to fetch it.

    :raises ToolUnavailable: the module cannot be downloaded.
    """
    MODULE.read(progress)
    _webhooks(progress)


def _webhooks(progress: Progress | None) -> str:
    place = cache.cache_root() / f"webhooks-karmada-{KARMADA_VERSION}.yaml"
    if not place.is_file():
        unfinished = place.with_name(f"{place.name}.{os.getpid()}")
        unfinished.write_text((MODULE.fetch(progress) / _WEBHOOKS).read_text(encoding="utf-8"), encoding="utf-8")
        unfinished.replace(place)
    return place.read_text(encoding="utf-8")
