# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Planning, as its users import it: the two planners and what they return."""

from __future__ import annotations

from .plan_connect import plan_connect
from .plan_disconnect import plan_disconnect
from .steps import LinkPlan, Plan, PlanOptions, Step

__all__ = ["LinkPlan", "Plan", "PlanOptions", "Step", "plan_connect", "plan_disconnect"]
