# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_end
version_added: 0.1.0
short_description: End a mesh run, in failure with a message of at most twelve lines
description:
  - Fails if one of the actions before it failed. The message says what failed, on which object, what was read, how to fix it, what
    follows, where the page of the finding is, and how to see more.
  - A task that fails shows its whole result as JSON, which hides why it failed. So the tasks of the roles and playbooks of this collection
    have C(failed_when) set to V(false), and this task behind them. What is in their results does not change.
  - It takes the names of registered variables, as M(edge_portal.cilium_mesh.mesh_publish) does.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._mesh.registered
options:
  published:
    description:
      - Name of the variable in which the result of M(edge_portal.cilium_mesh.mesh_publish) is registered. If that task judged the changes,
        this one fails where there are some.
    type: str
    default: ''
  approvable:
    description:
      - The play has the variable C(cilium_mesh_hash). In check mode it is printed with the hash that O(published) has.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: A playbook of one's own
  hosts: all
  gather_facts: false
  tasks:
    - name: Connect
      edge_portal.cilium_mesh.mesh_connect:
        mesh: "{{ cilium_mesh }}"
      register: connected
      run_once: true
      failed_when: false # mesh_end fails
    - name: End
      edge_portal.cilium_mesh.mesh_end:
        links: [connected]
"""

RETURN = r"""
msg:
  description:
    - Why the run failed. Where it is printed for people it is the code and the cluster alone, as the whole text stands above.
    - In check mode, with O(approvable), the variables with which the plan is carried out.
  returned: when the run failed, or there is a plan to approve
  type: str
"""
