# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where an API server is, as a kubeconfig describes it. Nothing of it is secret."""

from __future__ import annotations

from typing import NamedTuple


class Endpoint(NamedTuple):
    """API server as a kubeconfig describes it. ``authority``: the CA in PEM, "" where there is none or nothing is verified."""

    url: str
    host: str  # of the URL, an address without brackets
    authority: str
    server_name: str  # name in the server's certificate where it is not that of the URL, else ""
