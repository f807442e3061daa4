# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects from which the processes of a cluster take the CA that they trust.

This is ``ca.crt`` of Cilium's own Secrets, or the CA bundle of the Helm value tls.caBundle. Source: chart, volumes of clustermesh-apiserver
and cilium-agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..facts.cluster import VolumeSource

KVSTOREMESH: Final = ("apiserver", "kvstoremesh-secrets", "common-etcd-client-ca.crt")
AGENTS: Final = ("agent", "clustermesh-secrets", "common-etcd-client-ca.crt")
"""Workload, volume and path of the CA that verifies the servers of peers, for the two readers that there can be."""

SHOWN: Final = {
    "server_cert": ("apiserver", "etcd-server-secrets", "ca.crt"),  # etcd's client CA
    "admin_cert": ("apiserver", "etcd-admin-client", "ca.crt"),
    "local_cert": ("agent", "clustermesh-secrets", "local-etcd-client-ca.crt"),
}
"""Workload, volume and path of the CA of Cilium's other TLS Secrets, by the name of their facts."""

_OWN: Final = "clustermesh-apiserver-"


@dataclass(frozen=True)
class CaSource:
    """Key of a Secret or ConfigMap that holds a CA."""

    kind: str
    name: str
    key: str

    @property
    def is_bundle(self) -> bool:
        """Whether the object is another one than Cilium's own TLS Secrets."""
        return not self.name.startswith(_OWN)


def ca_source(volumes: Mapping[str, tuple[VolumeSource, ...]], volume: str, path: str) -> CaSource | None:
    """Return the object and key that a volume shows at ``path``; None if no object of the volume names the path.

    :param volumes: volumes of a workload by name (``WorkloadFacts.volumes``).
    """
    for source in volumes.get(volume, ()):
        if path in source.items:
            return CaSource(source.kind, source.name, source.items[path])
    return None
