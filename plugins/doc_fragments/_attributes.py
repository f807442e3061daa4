# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every action of this collection can and cannot do."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  action:
    description: Indicates this has a corresponding action plugin so some parts of the options can be executed on the controller.
    support: full
  async:
    description: Supports being used with the C(async) keyword.
    support: none
    details:
      - The action is one step on the controller.
  bypass_host_loop:
    description:
      - Forces a global task that does not execute per host, this bypasses per host templating and serial, throttle and other loop
        considerations.
      - It runs once for the whole mesh, shown under the first host, and reads the variables of every host of the play.
    support: full
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
    support: N/A
    details:
      - This action does not modify state.
"""

    ACTION_GROUP = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/edge_portal.cilium_mesh.cilium_mesh) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - edge_portal.cilium_mesh.cilium_mesh
"""
