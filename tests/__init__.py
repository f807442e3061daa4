# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Everything for tests. Its modules import the checkout as the collection, also those that are run as programs (``python -m tests.…``)."""

from .collection_path import link

link()
