# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whose an object is: marks of bindings, of Helm and of GitOps tools, and the peers that a binding recorded.

May import: binding, endpoints, facts.
"""
