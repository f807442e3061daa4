# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What differs between the minors of Cilium, and the settings of a cluster as its version reads them.

May import: binding, facts.
"""
