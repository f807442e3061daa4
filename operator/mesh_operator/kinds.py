# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Everything that differs between the kinds, one row each. A new kind is a new row, and its CRD in operator/deploy/crds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import jmespath

GROUP: Final = "networking.edge-portal.eu"
VERSION: Final = "v1alpha1"
FLEET_GROUP: Final = "platform.edge-portal.eu"

BINDING: Final = "ClusterMeshBinding"
SERVICE: Final = "GlobalService"
INTENT: Final = "ConnectivityIntent"
EXPOSURE: Final = "ExposedService"
FABRIC: Final = "Fabric"
CLUSTER: Final = "KubernetesCluster"


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """One kind. ``bindings`` and ``status`` are JMESPath expressions: over the object, which bindings of its namespace it belongs to; over
    a ``mesh_result``, where its status lies (a list: the row with its name)."""

    kind: str
    plural: str
    bindings: str = ""
    status: str = ""
    listed: str = ""  # its list in the variable cilium_mesh; "" for what is no item
    playbook: str = ""  # "" for what is made of others' statuses, in process
    group: str = GROUP

    @property
    def finalizer(self) -> str:
        """Of what is carried out, and so leaves something behind."""
        return f"{GROUP}/{self.kind.lower()}-cleanup"

    def collection(self, workspace: str, namespace: str = "") -> str:
        """API path below the URL of a virtual workspace; ``*`` is all workspaces, and only for lists and watches."""
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"/clusters/{workspace}/apis/{self.group}/{VERSION}{place}/{self.plural}"

    def names_of_bindings(self, obj: dict[str, Any]) -> tuple[str, ...]:
        """Bindings in the namespace of ``obj`` that it belongs to."""
        found = jmespath.search(self.bindings, obj) if self.bindings else None
        names = found if isinstance(found, list) else [found]
        return tuple(name for name in names if isinstance(name, str) and name)


def _item(kind: str, plural: str, listed: str) -> KindRow:
    return KindRow(kind=kind, plural=plural, bindings="spec.meshRef.name", status=f"status.{listed}", listed=listed, playbook="mesh")


ROWS: Final = (
    KindRow(kind=BINDING, plural="clustermeshbindings", bindings="metadata.name", status="status.binding", playbook="mesh"),
    _item(SERVICE, "globalservices", "globalServices"),
    _item(INTENT, "connectivityintents", "connectivityIntents"),
    _item(EXPOSURE, "exposedservices", "exposedServices"),
    KindRow(kind=FABRIC, plural="fabrics", bindings="spec.meshRefs[].name"),
    KindRow(kind=CLUSTER, plural="kubernetesclusters", group=FLEET_GROUP),
)
BY_KIND: Final = {row.kind: row for row in ROWS}
ITEMS: Final = tuple(row for row in ROWS if row.listed)
