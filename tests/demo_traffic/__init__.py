# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``make demo-traffic``: what the playbooks wrote decides over requests of pods, between two clusters with real agents."""
