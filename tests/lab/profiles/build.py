# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""All objects of one installation."""

from __future__ import annotations

from .agent import daemon_set, operator
from .apiserver import deployment
from .certgen import NAME as CERTGEN
from .certgen import cron_job
from .config import config_maps
from .objects import helm_object
from .options import Manifest, ProfileOptions
from .pki import make_ca
from .secrets import peer_secrets, tls_secrets
from .services import services

ACCOUNTS = ("cilium", "cilium-envoy", "cilium-operator", "clustermesh-apiserver")


def build(options: ProfileOptions) -> list[Manifest]:
    """The objects as that version's chart would leave them, in an order in which they can be created.

    Two calls differ in keys, certificates and their times only. A namespace other than kube-system comes first, as the lab must make it.
    """
    ca = options.ca or make_ca(key_type=options.key_type)
    manifests: list[Manifest] = []
    if options.namespace != "kube-system":
        manifests.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace}})
    accounts = (*ACCOUNTS, CERTGEN) if options.tls_method == "cronJob" else ACCOUNTS
    manifests += [helm_object(options, "v1", "ServiceAccount", name) for name in accounts]
    manifests += config_maps(options)
    manifests += tls_secrets(options, ca)
    manifests += peer_secrets(options)
    manifests += services(options)
    if options.tls_method == "cronJob":
        manifests.append(cron_job(options))
    return [*manifests, daemon_set(options), operator(options), deployment(options)]
