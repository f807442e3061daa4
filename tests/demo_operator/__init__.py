# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``make demo-operator``: two tenants of a kcp, and the operator that keeps a mesh for each of them."""

import sys

from tests.collection_path import CHECKOUT, link

link()
sys.path.insert(0, str(CHECKOUT / "operator"))
