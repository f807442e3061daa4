# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""CA bundle of the Helm value tls.caBundle, which replaces the ``ca.crt`` of Cilium's own Secrets where it is on."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from ..base.json_fields import mapping, secret_values
from ..mesh.facts.cluster import TrustBundleFacts
from ..mesh.trust.ca_sources import AGENTS, KVSTOREMESH, SHOWN, CaSource, ca_source
from ..mesh.x509.certificates import CertificateProblem, describe, load_certificates
from .workloads import volumes_of


def bundle_of(found: Mapping[str, Any]) -> CaSource | None:
    """Return the bundle that a pod template names in place of a Secret's own ca.crt; None if none does."""
    return next((source for _other, source in _replaced_secrets(found)), None)


def with_bundle(found: Mapping[str, Any], bundle: CaSource, value: Any) -> dict[str, Any]:
    """Return the answers with the bundle as ca.crt of those Secrets that it replaces, as the pods see them."""
    content = _content(bundle, value)
    secrets = {secret for secret, used in _replaced_secrets(found) if used == bundle and content}
    return {name: _with_ca(answer, content) if name in secrets else answer for name, answer in found.items()}


def bundle_facts(bundle: CaSource, value: Any) -> TrustBundleFacts:
    """Return the facts of the bundle, present or missing."""
    content = _content(bundle, value)
    problem = f"it has no key {bundle.key}" if value is not None and not content else ""
    try:
        certificates = tuple(describe(c) for c in load_certificates(content)) if content else ()
    except CertificateProblem as error:
        certificates, problem = (), f"{bundle.key} {error}"
    return TrustBundleFacts(
        kind=bundle.kind, name=bundle.name, key=bundle.key, present=value is not None, problem=problem, certificates=certificates
    )


def _replaced_secrets(found: Mapping[str, Any]) -> Iterator[tuple[str, CaSource]]:
    """Yield (answer whose ca.crt is replaced, bundle). kvstoremesh dials the peers where it runs, else the agents do."""
    volumes = {name: volumes_of(found.get(name)) for name in ("apiserver", "agent")}
    dials = KVSTOREMESH if KVSTOREMESH[1] in volumes["apiserver"] else AGENTS
    for secret, (workload, volume, path) in {**SHOWN, "remote_cert": dials}.items():
        source = ca_source(volumes[workload], volume, path)
        if source is not None and source.is_bundle:
            yield secret, source


def _content(bundle: CaSource, value: Any) -> bytes:
    if bundle.kind == "Secret":
        return secret_values(value).get(bundle.key, b"")
    content = mapping(value, "data").get(bundle.key)
    return content.encode() if isinstance(content, str) else b""


def _with_ca(secret: Any, content: bytes) -> Any:
    if secret is None:
        return None
    return {**secret, "data": {**mapping(secret, "data"), "ca.crt": base64.b64encode(content).decode()}}
