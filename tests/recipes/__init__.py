# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The recipes of docs/contributing/recipes.md, carried out: each module adds one sample of what its recipe adds."""
