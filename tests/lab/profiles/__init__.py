# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Cilium's objects as the charts of 1.16 to 1.20 leave them in a cluster, written from facts read off real installs.

``build(ProfileOptions(...))`` gives the manifests, ``install`` creates them, ``helm_upgrade`` replays what Helm does later,
``reissue`` makes bad certificates on purpose.
"""

from __future__ import annotations

from .build import build
from .charts import CHARTS, AuthMode, Chart
from .helm import HelmRefused, Upgrade, helm_upgrade, install, manager_of
from .options import CaPair, HelmPeer, Manifest, ProfileOptions
from .pki import Issued, issue, make_ca
from .secrets import ca_of
from .values import parse_set, with_values

__all__ = [
    "CHARTS",
    "AuthMode",
    "CaPair",
    "Chart",
    "HelmPeer",
    "HelmRefused",
    "Issued",
    "Manifest",
    "ProfileOptions",
    "Upgrade",
    "build",
    "ca_of",
    "helm_upgrade",
    "install",
    "issue",
    "make_ca",
    "manager_of",
    "parse_set",
    "with_values",
]
