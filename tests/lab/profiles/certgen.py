# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""CronJob ``clustermesh-apiserver-generate-certs``, with which certgen renews the leaves (``tls.auto.method=cronJob``).

Only the CronJob: the Job of the installation is gone or done by the time anybody looks.
"""

from __future__ import annotations

from typing import Any

import yaml

from .objects import PART_OF, helm_object
from .options import Manifest, ProfileOptions
from .secrets import Leaf, mesh_leaves

NAME = "clustermesh-apiserver-generate-certs"
_SELECTOR = {"k8s-app": NAME}
SCHEDULE = "0 0 1 */4 *"


def cron_job(options: ProfileOptions) -> Manifest:
    chart = options.chart
    pod: dict[str, Any] = {
        "containers": [_certgen(options)],
        "serviceAccountName": NAME,
        "restartPolicy": "OnFailure",
        "hostNetwork": chart.certgen_host_network,
    }
    job: dict[str, Any] = {"template": {"metadata": {"labels": _SELECTOR}, "spec": pod}}
    if chart.certgen_ttl is not None:
        job["ttlSecondsAfterFinished"] = chart.certgen_ttl
    return {
        **helm_object(options, "batch/v1", "CronJob", NAME, labels={**PART_OF, **_SELECTOR}),
        "spec": {"schedule": SCHEDULE, "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}},
    }


def _certgen(options: ProfileOptions) -> dict[str, Any]:
    args = [
        options.chart.certgen_generate_ca,
        "--ca-reuse-secret",
        f"--ca-secret-namespace={options.namespace}",
        "--ca-secret-name=cilium-ca",
        "--ca-common-name=Cilium CA",
    ]
    certs = {"certs": [_wanted(options, leaf) for leaf in mesh_leaves(options)]}
    return {
        "name": "certgen",
        "image": f"quay.io/cilium/certgen:{options.chart.certgen}",
        "command": ["/usr/bin/cilium-certgen"],
        "args": args,
        "env": [{"name": "CILIUM_CERTGEN_CONFIG", "value": yaml.safe_dump(certs, sort_keys=False)}],
    }


def _wanted(options: ProfileOptions, leaf: Leaf) -> dict[str, Any]:
    """One entry of certgen's configuration."""
    wanted: dict[str, Any] = {"name": leaf.secret, "namespace": options.namespace, "commonName": leaf.cn}
    if leaf.dns:
        wanted["hosts"] = [*leaf.dns, *leaf.ips]
    usage = "server auth" if leaf.usage == "serverAuth" else "client auth"
    return {**wanted, "usage": ["signing", "key encipherment", usage], "validity": f"{leaf.days * 24}h"}
