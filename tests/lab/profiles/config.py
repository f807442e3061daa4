# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""ConfigMaps ``cilium-config`` and ``clustermesh-remote-users``."""

from __future__ import annotations

from .charts import COMMON_CONFIG
from .objects import PART_OF, helm_object, plain_object
from .options import Manifest, ProfileOptions
from .texts import users_yaml

REMOTE_USERS = "clustermesh-remote-users"


def cilium_config(options: ProfileOptions) -> dict[str, str]:
    """The data of ``cilium-config``, sorted by key."""
    data: dict[str, str | None] = {
        **COMMON_CONFIG,
        **options.chart.config,
        "cluster-name": options.cluster_name,
        "cluster-id": str(options.cluster_id),
        "cluster-pool-ipv4-cidr": options.pod_cidr_pool,
        "cluster-pool-ipv4-mask-size": str(options.pod_cidr_mask),
        "kube-proxy-replacement": "true" if options.kube_proxy_replacement else "false",
        "max-connected-clusters": str(options.max_connected_clusters),
        **options.extra_config,
    }
    return {key: value for key, value in sorted(data.items()) if value is not None}


def config_maps(options: ProfileOptions) -> list[Manifest]:
    """``cilium-config``, and the remote users where a tool made them."""
    config = {**helm_object(options, "v1", "ConfigMap", "cilium-config"), "data": cilium_config(options)}
    users = remote_users(options)
    return [config, users] if users else [config]


def remote_users(options: ProfileOptions) -> Manifest | None:
    """The ConfigMap that Helm renders, else the empty one of an operator who knows that the pod waits for it, else None."""
    if options.helm_renders_users:
        manifest = helm_object(options, "v1", "ConfigMap", REMOTE_USERS, labels=PART_OF)
        return {**manifest, "data": {"users.yaml": users_yaml(options)}}
    if options.mode == "legacy" or options.remote_users is False:
        return None
    return {**plain_object(options, "v1", "ConfigMap", REMOTE_USERS), "data": {"users.yaml": "users: []\n"}}
