# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: mesh_publish
version_added: 0.1.0
short_description: Publish the result of a mesh run as the statistic mesh_result
description:
  - Makes C(mesh_result) of what the actions of a play returned, and publishes it as M(ansible.builtin.set_stats) does. All playbooks of
    this collection end with it.
  - It takes the names of registered variables. Given as values, a result of a thousand items would be searched for templates, for seconds.
  - Changes, steps and findings of O(more) come after those of O(links) and O(items), and are no part of the hash.
  - The results of O(links) and O(items) together are of two plans, and have no hash by which they could be approved.
  - Where no variable has a result, the run ended before its action; C(mesh_result) then has one blocking finding, C(CM-ERR-00), that
    says so.
  - It can leave the result in files on the controller too, also in check mode and after a failure. A place that cannot be written is
    refused by the actions of the play, before they contact a cluster. Should the file fail to be written at the end, this task fails.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - edge_portal.cilium_mesh._attributes
  - edge_portal.cilium_mesh._mesh.registered
options:
  whole:
    description:
      - The result of O(links) is that of M(edge_portal.cilium_mesh.mesh_reconcile), whose status has the items too.
    type: bool
    default: false
  fabric:
    description:
      - The status of O(links) is that of a fabric, and not of one binding.
    type: bool
    default: false
  result_file:
    description:
      - Path of a file on the controller for C(mesh_result) as JSON, with how the run ended. It is replaced in one step, and only its owner
        can read it.
    type: path
  junit_file:
    description:
      - Path of a file on the controller for what the run judged, as JUnit. It has a failure if and only if the run failed. It is written as
        O(result_file) is.
    type: path
  playbook:
    description:
      - The name of the playbook, for the file.
    type: str
    default: ""
  fail_on_changes:
    description:
      - The play fails where there is something to write, so the files say that it failed if it is in check mode and there is. In the JUnit
        report each step of the plan is a failed case then.
    type: bool
    default: false
  check_places:
    description:
      - Only look whether the files can be written, and publish nothing. For playbooks that run no other action of this collection, which
        look for themselves.
    type: bool
    default: false
  tasks:
    description:
      - Names of the variables in which results of modules of other collections are registered, for a playbook whose work they do. Whether
        one of them changed something is published; nothing else of them is.
    type: list
    elements: str
    default: []
  ended:
    description:
      - Whether the tasks of the playbook came to their end. If not, the file says that the run failed.
    type: bool
    default: true
  metrics_file:
    description:
      - Path of a file for the metrics of the run, for the textfile collector of node_exporter. That reads names that end with C(.prom).
      - It is replaced in one step. The file of the run before says which members and links were ready once, so each playbook and mesh has a
        file of its own. A file that this collection did not write is not replaced.
    type: path
  metrics_run:
    description:
      - Name of the playbook, for the label C(run) of the metrics.
    type: str
    default: ''
  metrics_mesh:
    description:
      - Name of the binding, for the label C(mesh) of the metrics.
    type: str
    default: ''
  metrics_state:
    description:
      - What the run does about members that left. With V(measured) it reads alone.
      - With V(present) it withdraws the links of former members, with V(absent) all links.
    type: str
    choices: [measured, present, absent]
    default: measured
  keys:
    description:
      - Keys of the result of O(links) that are published beside those of every C(mesh_result). A key that is missing is published as null.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: A playbook of one's own
  hosts: all
  gather_facts: false
  tasks:
    - name: Connect and publish
      run_once: true
      block:
        - name: Connect
          edge_portal.cilium_mesh.mesh_connect:
            mesh: "{{ cilium_mesh }}"
          register: connected
      always:
        - name: Publish mesh_result
          edge_portal.cilium_mesh.mesh_publish:
            links: [connected]
"""

RETURN = r"""
hash:
  description: The hash by which the plan can be approved; empty when there is none.
  returned: always
  type: str
not_carried_out:
  description: Items of the plan that are refused or wait. An approval by RV(hash) has to name them.
  returned: always
  type: list
  elements: str
changes:
  description: The number of steps of the plan.
  returned: always
  type: int
judged:
  description: The sentence with which the playbook fails because there is something to write; empty where O(fail_on_changes) is not set.
  returned: always
  type: str
"""
