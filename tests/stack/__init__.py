# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Everything that a tenant needs to try the operator by hand, until it is ended: clusters, a source of custom resources, and the operator.

``make stack-up`` starts it, ``make stack-down`` ends it.
"""

import sys

from tests.collection_path import CHECKOUT, link

link()
sys.path.insert(0, str(CHECKOUT / "operator"))
