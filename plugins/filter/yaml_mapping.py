# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``yaml_mapping``: a variable that may be a mapping or a text of YAML, for conditions of playbooks."""

from __future__ import annotations

DOCUMENTATION = r"""
name: yaml_mapping
short_description: Mapping that a variable is, or says as a text of YAML
version_added: 0.1.0
author: Contributors to the edge_portal.cilium_mesh project (@edge-portal)
description:
  - Returns a mapping as it is, and a text of YAML as the mapping that it says, such as an answer in a survey of AWX.
  - Anything else is an empty mapping. The modules of this collection refuse it, and say what is wrong with it and where.
positional: _input
options:
  _input:
    description: The value of a variable such as C(cilium_mesh).
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show the name of the mesh
  ansible.builtin.debug:
    msg: "{{ (cilium_mesh | edge_portal.cilium_mesh.yaml_mapping).binding.name }}"
  vars:
    cilium_mesh: |
      binding: {name: edge-mesh-eu, clusterRefs: [cluster-ffm-1, cluster-ber-2]}
"""

RETURN = r"""
_value:
  description: The mapping.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ..plugin_utils.structured_text import mapping_of


class FilterModule:
    """The filter, as Ansible loads it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"yaml_mapping": mapping_of}
