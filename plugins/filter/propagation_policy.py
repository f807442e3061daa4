# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``propagation_policy``: the engine's translation of placements for Karmada, for templates."""

from __future__ import annotations

DOCUMENTATION = r"""
name: propagation_policy
short_description: PropagationPolicies of Karmada that workloads become
version_added: 0.1.0
author: Contributors to the edge_portal.cilium_mesh project (@edge-portal)
description:
  - Returns the PropagationPolicies by which Karmada brings the workloads of the variable C(fleet) to their clusters, as
    M(edge_portal.cilium_mesh.fleet_workload) writes them first, without the annotations in which it keeps the state of a rollout.
  - Use the filter where something else writes them, such as a GitOps repository, or to read what a placement means.
  - No API server is asked anything, so nothing is said of clusters that are lost, and no wave is suspended.
positional: _input
options:
  _input:
    description: The variable C(fleet). C(karmada) may be left out.
    type: dict
    required: true
  workload:
    description: Name of one workload, whose policies alone are returned. A workload with a global Service has two.
    type: str
"""

EXAMPLES = r"""
- name: Write the policies of a workload
  ansible.builtin.copy:
    content: "{{ fleet | edge_portal.cilium_mesh.propagation_policy(workload='web') | to_nice_yaml }}"
    dest: "{{ playbook_dir }}/web.yaml"
    mode: "0644"
  vars:
    fleet:
      workspace: shop
      clusters:
        - name: cluster-ffm-1
          region: eu-de
        - name: cluster-ber-2
          region: eu-de
      fleets:
        - name: europe
          selector:
            matchLabels:
              tier: edge
        - name: both
          clusterRefs:
            - name: cluster-ffm-1
            - name: cluster-ber-2
      placementPolicies:
        - name: mostly-ffm
          strategy: Weighted
          weights:
            - cluster: cluster-ffm-1
              weight: 3
            - cluster: cluster-ber-2
              weight: 1
      workloads:
        - name: web
          fleetRef:
            name: both
          placementRef:
            name: mostly-ffm
          replicas: 4
          template:
            spec:
              containers:
                - name: web
                  image: registry.example/web:1
"""

RETURN = r"""
_value:
  description: The objects, in the order of the names of the workloads.
  type: list
  elements: dict
  sample:
    - apiVersion: policy.karmada.io/v1alpha1
      kind: PropagationPolicy
      metadata:
        labels:
          edge-connect.eu/source-name: web
          edge-connect.eu/source-namespace: default
          edge-connect.eu/source-workspace: shop
        name: web
        namespace: kcp-ddb805893818467b
      spec:
        conflictResolution: Abort
        placement:
          clusterAffinity:
            clusterNames:
              - 4b739eba6a-cluster-ber-2
              - ec89a873e0-cluster-ffm-1
            labelSelector:
              matchLabels:
                edge-connect.eu/source-namespace: default
                edge-connect.eu/source-workspace: shop
          replicaScheduling:
            replicaDivisionPreference: Weighted
            replicaSchedulingType: Divided
            weightPreference:
              staticWeightList:
                - targetCluster:
                    clusterNames:
                      - 4b739eba6a-cluster-ber-2
                  weight: 1
                - targetCluster:
                    clusterNames:
                      - ec89a873e0-cluster-ffm-1
                  weight: 3
        resourceSelectors:
          - apiVersion: apps/v1
            kind: Deployment
            name: web
            namespace: kcp-ddb805893818467b
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ansible.errors import AnsibleFilterError

from ..module_utils.base.clocks import real_clocks
from ..module_utils.base.errors import InvalidInput
from ..module_utils.fleet.parse import parse_fleet
from ..module_utils.fleet.policies import propagation_policies

_KARMADA: Final = "karmada"


def propagation_policy(fleet: Mapping[str, Any], workload: str | None = None) -> list[dict[str, Any]]:
    """Return the policies of workloads; see DOCUMENTATION."""
    if not isinstance(fleet, Mapping):
        raise AnsibleFilterError("propagation_policy: the input is not the variable fleet, a mapping with workspace, fleets and workloads.")
    try:
        request = parse_fleet({**fleet, "karmada": _KARMADA}, (_KARMADA,)).request
    except InvalidInput as error:
        raise AnsibleFilterError(f"propagation_policy: {error}") from None
    found = propagation_policies(request, real_clocks().now())
    names = [*(request.workloads or {}), *found.without]
    if workload is not None and workload not in names:
        raise AnsibleFilterError(f"propagation_policy: workload {workload!r} is not one of fleet.workloads.")
    for name, why in found.without.items():
        if workload in (None, name):
            raise AnsibleFilterError(f"propagation_policy: FleetWorkload {name}: {why}")
    return [body for body in found.policies if workload in (None, body["metadata"]["labels"]["edge-connect.eu/source-name"])]


class FilterModule:
    """The filter, as Ansible loads it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"propagation_policy": propagation_policy}
