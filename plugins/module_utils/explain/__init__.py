# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Why can A not reach B? One verdict per hop, with evidence."""
