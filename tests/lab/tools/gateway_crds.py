# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The CRDs of the Gateway API, standard channel, read from its Go module at run time like those of Cilium (crds.py): no copy is here."""

from __future__ import annotations

from typing import Any, Final

from tests.lab.tools.crds import CrdModule
from tests.lab.tools.progress import Progress

GATEWAY: Final = CrdModule(
    title="the Gateway API",
    path="sigs.k8s.io/gateway-api",
    folder="config/crd/standard",
    version="1.3.0",  # what Cilium 1.18 asks for (Documentation/network/servicemesh/gateway-api/installation.rst)
    checksum="h1:q6okN+/UKDATola4JY7zXzx40WO4VISk7i9DIfOvr9M=",
    stored="crds-gateway-api-1.3.0.json",
)


def gateway_crds(*, progress: Progress | None = None) -> list[dict[str, Any]]:
    """Return the CRDs, as `CrdModule.read` does."""
    return GATEWAY.read(progress)
