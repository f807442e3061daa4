# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Secrets: the CA, the leaves of Cluster Mesh and Hubble, and the two that name peers."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .objects import NON_IDEMPOTENT, encoded, helm_object, plain_object
from .options import CaPair, Manifest, ProfileOptions
from .pki import BOTH, Issued, Usage, issue, make_ca
from .texts import agent_config, peer_config

SERVER_CERT = "clustermesh-apiserver-server-cert"
ADMIN_CERT = "clustermesh-apiserver-admin-cert"
REMOTE_CERT = "clustermesh-apiserver-remote-cert"
LOCAL_CERT = "clustermesh-apiserver-local-cert"
HUBBLE_CERT = "hubble-server-certs"
SERVER_NAME = "clustermesh-apiserver.cilium.io"
SERVER_IPS = ("127.0.0.1", "::1")
HUBBLE_DAYS = 365


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """What one TLS Secret holds."""

    secret: str
    cn: str
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    usage: Usage = "clientAuth"  # what it is for; Helm's leaves carry both usages all the same
    days: int = 1095


def mesh_leaves(options: ProfileOptions) -> list[Leaf]:
    """The leaves of Cluster Mesh: without kvstoremesh there is no local one."""
    name, days = options.cluster_name, options.leaf_days
    names = (SERVER_NAME, "*.mesh.cilium.io", f"clustermesh-apiserver.{options.namespace}.svc")
    leaves = [
        Leaf(secret=SERVER_CERT, cn=SERVER_NAME, dns=names, ips=SERVER_IPS, usage="serverAuth", days=days),
        Leaf(secret=ADMIN_CERT, cn=f"admin-{name}", days=days),
        Leaf(secret=REMOTE_CERT, cn=f"remote-{name}" if options.mode == "cluster" else "remote", days=days),
    ]
    if options.kvstoremesh:
        leaves.append(Leaf(secret=LOCAL_CERT, cn=f"local-{name}", days=days))
    return leaves


def hubble_leaf(options: ProfileOptions) -> Leaf:
    host = f"*.{options.cluster_name.replace('.', '-')}.hubble-grpc.cilium.io"
    return Leaf(secret=HUBBLE_CERT, cn=host, dns=(host,), usage="serverAuth", days=HUBBLE_DAYS)


def tls_secrets(options: ProfileOptions, ca: CaPair) -> list[Manifest]:
    """Secret ``cilium-ca`` and every leaf. Keys are made side by side: RSA takes its time and releases the interpreter meanwhile."""
    signer = make_ca("User CA", key_type=options.key_type) if options.tls_method == "provided" else ca
    with ThreadPoolExecutor(max_workers=4) as pool:
        leaves = list(pool.map(lambda leaf: leaf_secret(options, leaf, signer), mesh_leaves(options)))
    # Hubble's own method stays "helm" when only clustermesh.apiserver.tls.auto.method is changed, so Helm makes cilium-ca in every case.
    return [ca_secret(options, ca), *leaves, _helm_tls(options, hubble_leaf(options), ca)]


def leaf_secret(
    options: ProfileOptions, leaf: Leaf, ca: CaPair, *, not_before: datetime | None = None, not_after: datetime | None = None
) -> Manifest:
    """One TLS Secret of Cluster Mesh, made by the tool that makes it under ``options.tls_method``."""
    if options.tls_method != "cronJob":
        return _helm_tls(options, leaf, ca, not_before=not_before, not_after=not_after)
    made = _issue(leaf, ca, usages=(leaf.usage,), key_type="ec", certgen=True, not_before=not_before, not_after=not_after)
    return _tls(plain_object(options, "v1", "Secret", leaf.secret), made, ca)


def ca_secret(options: ProfileOptions, ca: CaPair) -> Manifest:
    secret = helm_object(options, "v1", "Secret", "cilium-ca", labels=_non_idempotent(options), chart_label=False)
    return {**secret, "type": "Opaque", "data": encoded({"ca.crt": ca.cert_pem, "ca.key": ca.key_pem})}


def ca_of(secret: Mapping[str, Any]) -> CaPair:
    """The CA in Secret ``cilium-ca``, as a chart's ``lookup`` reads it."""
    data = secret["data"]
    return CaPair(b64decode(data["ca.crt"]).decode(), b64decode(data["ca.key"]).decode())


def peer_secrets(options: ProfileOptions) -> list[Manifest]:
    """``cilium-clustermesh`` and, with kvstoremesh, ``cilium-kvstoremesh``; nothing without clustermesh.config.enabled."""
    if not options.config_enabled:
        return []
    texts = {"cilium-clustermesh": {peer.name: agent_config(options, peer) for peer in options.ordered_peers}}
    if options.kvstoremesh:
        texts["cilium-kvstoremesh"] = {peer.name: peer_config(options, peer) for peer in options.ordered_peers}
    return [{**helm_object(options, "v1", "Secret", name), "type": "Opaque", "data": encoded(values)} for name, values in texts.items()]


def _helm_tls(
    options: ProfileOptions, leaf: Leaf, ca: CaPair, *, not_before: datetime | None = None, not_after: datetime | None = None
) -> Manifest:
    made = _issue(leaf, ca, usages=BOTH, key_type=options.key_type, certgen=False, not_before=not_before, not_after=not_after)
    if options.tls_method == "provided" and leaf.secret != HUBBLE_CERT:
        return _tls(plain_object(options, "v1", "Secret", leaf.secret), made, ca)
    return _tls(helm_object(options, "v1", "Secret", leaf.secret, labels=_non_idempotent(options), chart_label=False), made, ca)


def _issue(leaf: Leaf, ca: CaPair, *, usages: tuple[Usage, ...], certgen: bool, **rest: Any) -> Issued:
    return issue(ca, leaf.cn, dns=leaf.dns, ips=leaf.ips, eku=usages, days=leaf.days, subject_key_id=certgen, **rest)


def _tls(manifest: Manifest, made: Issued, ca: CaPair) -> Manifest:
    data = {"ca.crt": ca.cert_pem, "tls.crt": made.cert_pem, "tls.key": made.key_pem}
    return {**manifest, "type": "kubernetes.io/tls", "data": encoded(data)}


def _non_idempotent(options: ProfileOptions) -> dict[str, str]:
    return {NON_IDEMPOTENT: "true"} if options.chart.non_idempotent_label else {}
