# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Service account of the pod in which this process runs (client-go, rest/config.go, InClusterConfig)."""

from __future__ import annotations

import os
from typing import Final

from .chosen import Chosen

FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def service_account() -> Chosen | None:
    """Return the API server of this pod and its service account; None outside of a pod."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return None
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return Chosen("", {"server": server, "certificate-authority": f"{FOLDER}/ca.crt"}, {"tokenFile": f"{FOLDER}/token"})
