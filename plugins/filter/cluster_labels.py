# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``cluster_labels``: the labels that Clusters of a management plane lack, for the playbook label_clusters."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_labels
short_description: Labels that Clusters of a management plane lack
version_added: 0.1.0
author: Contributors to the edge_portal.cilium_mesh project (@edge-portal)
description:
  - Compares the labels by which the operator finds the Clusters of a workspace with those that the Clusters and their Secrets have.
  - The playbook C(edge_portal.cilium_mesh.label_clusters) writes the result.
positional: _input
options:
  _input:
    description: All Clusters of a namespace of the management plane, each with its metadata and status.
    type: list
    elements: dict
    required: true
  secrets:
    description: All Secrets of that namespace. Their metadata is enough.
    type: list
    elements: dict
    required: true
  owners:
    description:
      - The KubernetesClusters that Clusters stand for. Each entry has the name of a C(cluster) and the logical cluster of its C(workspace).
      - It may also have the C(name) of the KubernetesCluster, where that is not the name of the Cluster, and its C(namespace).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Show which labels are missing
  ansible.builtin.debug:
    msg: "{{ clusters | edge_portal.cilium_mesh.cluster_labels(secrets, owners) }}"
  vars:
    owners:
      - cluster: kcp-7f3a-cluster-ffm-1
        workspace: 1a2b3c4d5e6f7a8b
        name: cluster-ffm-1
"""

RETURN = r"""
_value:
  description:
    - C(patches) are the merge patches that add the missing labels. There are none while there are C(problems), which are sentences.
    - C(waiting) has a sentence for each Secret that does not exist yet.
    - C(missing) are the Clusters that no workspace can use even with the patches, with the workspace of their label or C(LOGICAL_CLUSTER).
  type: dict
  sample:
    patches: []
    problems: []
    waiting: []
    missing:
      - cluster: kcp-7f3a-cluster-ffm-1
        workspace: LOGICAL_CLUSTER
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ..plugin_utils.cluster_labels import label_plan


def cluster_labels(clusters: Sequence[Mapping[str, Any]], secrets: Sequence[Mapping[str, Any]], owners: Any = ()) -> dict[str, list[Any]]:
    """Return the labels that Clusters lack; see DOCUMENTATION."""
    for value, what in ((clusters, "Clusters"), (secrets, "Secrets")):
        objects = value if isinstance(value, (list, tuple)) else [None]
        if not all(isinstance(obj, Mapping) and isinstance(obj.get("metadata"), Mapping) and "name" in obj["metadata"] for obj in objects):
            raise AnsibleFilterError(f"cluster_labels: this is not a list of {what}.")
    plan = label_plan(clusters, secrets, owners)
    return {"patches": [*plan.patches], "problems": [*plan.problems], "waiting": [*plan.waiting], "missing": [*plan.missing]}


class FilterModule:
    """The filter, as Ansible loads it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"cluster_labels": cluster_labels}
