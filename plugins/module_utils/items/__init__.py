# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a mesh carries: global services, connectivity intents, exposed services. Each is an item with a plan and a status of its own."""
