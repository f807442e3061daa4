# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``plan_markdown``: the engine's function of that name, for templates."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plan_markdown
short_description: A mesh plan as Markdown
version_added: 0.1.0
author: Contributors to the edge_portal.cilium_mesh project (@edge-portal)
description:
  - Returns the steps of a plan as a table, with what they disturb and how they are undone, for the comment of a pull request.
  - Texts that come from a cluster cannot become markup in it.
positional: _input
options:
  _input:
    description:
      - RV(edge_portal.cilium_mesh.mesh_plan#module:plan), the content of a file that
        O(edge_portal.cilium_mesh.mesh_plan#module:plan_json) named, or a C(mesh_result).
    type: dict
    required: true
  title:
    description: The heading.
    type: str
    default: Cluster mesh plan
"""

EXAMPLES = r"""
- name: Write the plan of this run as Markdown
  ansible.builtin.copy:
    content: "{{ planned.plan | edge_portal.cilium_mesh.plan_markdown(title='Mesh of the Berlin clusters') }}"
    dest: "{{ playbook_dir }}/plan.md"
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The Markdown text.
  type: str
  sample: |
    ## Cluster mesh plan

    Nothing to do. Hash `3f9a1c0b7d2e`
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils.report.plan import plan_markdown as text_of

NEEDED = {"wave", "cluster", "verb", "object", "why", "disruption", "undo"}


def plan_markdown(plan: Mapping[str, Any], title: str = "Cluster mesh plan") -> str:
    """Return a plan as Markdown; see DOCUMENTATION."""
    if isinstance(plan, Mapping) and isinstance(plan.get("plan"), Mapping):
        plan = plan["plan"]
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    if not isinstance(steps, list) or "hash" not in plan or not all(isinstance(s, Mapping) and s.keys() >= NEEDED for s in steps):
        raise AnsibleFilterError("plan_markdown: the input is not a plan with hash and steps.")
    return text_of(plan, title=str(title))


class FilterModule:
    """The filter, as Ansible loads it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"plan_markdown": plan_markdown}
