# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Does an intent hold? Looked for in the flows that Hubble saw, else tried by one short-lived Job. Proven, refuted or unknown."""
