# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Bad certificates on purpose: Secrets to put in place of those that ``build`` made."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from .objects import encoded
from .options import CaPair, Manifest, ProfileOptions
from .pki import make_ca
from .secrets import SERVER_CERT, Leaf, ca_secret, leaf_secret, mesh_leaves


def reissue_server_cert(
    options: ProfileOptions,
    ca: CaPair,
    *,
    dns_names: Sequence[str] | None = None,
    ip_addresses: Sequence[str] | None = None,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
) -> Manifest:
    """Secret ``clustermesh-apiserver-server-cert`` signed by ``ca``; None keeps the chart's names, addresses and days. Times: aware UTC."""
    leaf = leaf_named(options, SERVER_CERT)
    dns = leaf.dns if dns_names is None else tuple(dns_names)
    ips = leaf.ips if ip_addresses is None else tuple(ip_addresses)
    return leaf_secret(options, replace(leaf, dns=dns, ips=ips), ca, not_before=not_before, not_after=not_after)


def reissue(
    options: ProfileOptions, secret: str, ca: CaPair, *, not_before: datetime | None = None, not_after: datetime | None = None
) -> Manifest:
    """Any leaf of Cluster Mesh anew, e.g. ``clustermesh-apiserver-remote-cert``, signed by ``ca``."""
    return leaf_secret(options, leaf_named(options, secret), ca, not_before=not_before, not_after=not_after)


def expired(options: ProfileOptions, secret: str, ca: CaPair, *, ago: timedelta = timedelta(days=1)) -> Manifest:
    """A leaf that ran out ``ago``."""
    end = datetime.now(UTC) - ago
    return reissue(options, secret, ca, not_before=end - timedelta(days=options.leaf_days), not_after=end)


def without_mesh_name(options: ProfileOptions, ca: CaPair) -> Manifest:
    """A server certificate without ``*.mesh.cilium.io``, as user-provided ones often are."""
    dns = [name for name in leaf_named(options, SERVER_CERT).dns if not name.startswith("*.")]
    return reissue_server_cert(options, ca, dns_names=dns)


def without_san(options: ProfileOptions, ca: CaPair) -> Manifest:
    """A server certificate with a common name only."""
    return reissue_server_cert(options, ca, dns_names=(), ip_addresses=())


def of_other_ca(options: ProfileOptions, secret: str, ca: CaPair) -> Manifest:
    """A leaf that another CA signed while ``ca.crt`` still says ``ca``: the chain is broken."""
    other = make_ca(key_type=options.key_type)
    return with_key(reissue(options, secret, other), "ca.crt", ca.cert_pem)


def other_ca_secret(options: ProfileOptions, ca: CaPair | None = None) -> Manifest:
    """Secret ``cilium-ca`` replaced after the leaves were made, the trap of a CA shared too late."""
    return ca_secret(options, ca or make_ca(key_type=options.key_type))


def with_key(secret: Mapping[str, Any], key: str, value: str | None) -> Manifest:
    """The Secret with one key set to ``value``, or without it where that is None."""
    data = {name: b64decode(text).decode() for name, text in secret["data"].items()}
    if value is None:
        data.pop(key, None)
    else:
        data[key] = value
    return {**secret, "data": encoded(data)}


def leaf_named(options: ProfileOptions, secret: str) -> Leaf:
    """The description of one leaf; ValueError where this installation has none of that name."""
    for leaf in mesh_leaves(options):
        if leaf.secret == secret:
            return leaf
    raise ValueError(f"this installation has no Secret {secret!r}; it has {', '.join(leaf.secret for leaf in mesh_leaves(options))}")
