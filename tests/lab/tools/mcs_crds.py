# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The CRDs of MCS-API (ServiceExport, ServiceImport), read from its Go module at run time: no copy of them is kept here.

Cilium's own module has them only in its vendor folder, which modules are without. The version is that of Cilium 1.20.2's go.mod.
"""

from __future__ import annotations

from typing import Any, Final

from tests.lab.tools.crds import CrdModule
from tests.lab.tools.progress import Progress

MCS: Final = CrdModule(
    title="MCS-API",
    path="sigs.k8s.io/mcs-api",
    folder="config/crd",
    version="0.5.2",
    checksum="h1:N+vrRiCIb0WJ0dxbBo7VfNv2WJigOHEo4gsLXpffVs8=",
    stored="crds-mcs-api-0.5.2.json",
)


def mcs_crds(*, progress: Progress | None = None) -> list[dict[str, Any]]:
    """Return the two CRDs, as `CrdModule.read` does."""
    return MCS.read(progress)
