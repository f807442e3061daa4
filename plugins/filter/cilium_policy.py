# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``cilium_policy``: the engine's policies of a ConnectivityIntent, for templates."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cilium_policy
short_description: Cilium policies that a ConnectivityIntent becomes
version_added: 0.1.0
author: Contributors to the edge_portal.cilium_mesh project (@edge-portal)
description:
  - Returns the CiliumNetworkPolicy or CiliumClusterwideNetworkPolicy that belongs into each destination cluster of an intent.
  - They are the objects that the role P(edge_portal.cilium_mesh.network_policy#role) writes, without the labels and annotations of their
    owner. Use the filter where something else writes them, such as a GitOps repository, or to read what an intent means.
  - A cluster is not asked anything, so nothing is said of what the policies would isolate.
positional: _input
options:
  _input:
    description: The intent, an entry of C(connectivityIntents) in the variable C(cilium_mesh), with its C(name).
    type: dict
    required: true
  clusters:
    description:
      - Every member of the mesh. Inventory name as the key, C(cluster-name) of its ConfigMap C(cilium-config) as the value.
      - A side of the intent that names no clusters means all of them.
    type: dict
    required: true
  version:
    description: Version of Cilium in the destination clusters, such as V(1.20.1) or V(v1.18.11). It is a string, not a number.
    type: str
    required: true
  cluster:
    description: Inventory name of one destination cluster, whose policies alone are returned.
    type: str
  binding:
    description: Name of the binding. It is part of the names of the policies.
    type: str
    default: cilium-mesh
"""

EXAMPLES = r"""
- name: Write the policies of an intent for one cluster
  ansible.builtin.copy:
    content: >-
      {{ intent | edge_portal.cilium_mesh.cilium_policy(clusters=names, version='1.20.1', cluster='cluster-ber-2') | to_nice_yaml }}
    dest: "{{ playbook_dir }}/cluster-ber-2/frontend-to-backend.yaml"
    mode: "0644"
  vars:
    names:
      cluster-ffm-1: ffm-1
      cluster-ber-2: ber-2
    intent:
      name: frontend-to-backend
      action: Allow
      source:
        namespace: production
        name: frontend
        clusters: [cluster-ffm-1]
      destination:
        namespace: production
        name: backend
        clusters: [cluster-ber-2]
      ports:
        - protocol: TCP
          port: 8080
"""

RETURN = r"""
_value:
  description: The objects, in the order of O(clusters).
  type: list
  elements: dict
  sample:
    - apiVersion: cilium.io/v2
      kind: CiliumNetworkPolicy
      metadata:
        name: frontend-to-backend-9c8b739a7b
        namespace: production
      spec:
        endpointSelector:
          matchLabels:
            k8s:app: backend
            k8s:io.cilium.k8s.policy.cluster: ber-2
        ingress:
          - fromEndpoints:
              - matchLabels:
                  k8s:app: frontend
                  k8s:io.cilium.k8s.policy.cluster: ffm-1
                  k8s:io.kubernetes.pod.namespace: production
            toPorts:
              - ports:
                  - port: "8080"
                    protocol: TCP
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.desired import Desired
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.compile import CannotExpress, compile_intent

from ..module_utils.base.errors import InvalidInput
from ..module_utils.items.models import ConnectivityIntent
from ..module_utils.mesh.binding.item_kinds import ItemKind
from ..module_utils.mesh.binding.model import Binding, Mesh
from ..module_utils.mesh.binding.parse import DEFAULT_NAME
from ..module_utils.mesh.endpoints.etcd_config import valid_cluster_name
from ..module_utils.mesh.versions.minors import CiliumVersion
from ..module_utils.reconcile.parse import desired_of


def cilium_policy(
    intent: Mapping[str, Any],
    clusters: Mapping[str, str],
    version: str,
    cluster: str | None = None,
    binding: str = DEFAULT_NAME,
) -> list[dict[str, Any]]:
    """Return the policies of an intent; see DOCUMENTATION."""
    if not isinstance(intent, Mapping):
        raise AnsibleFilterError("cilium_policy: the input is not an intent, a mapping with name, action and destination.")
    names = _names(clusters)
    if cluster is not None and cluster not in names:
        raise AnsibleFilterError(f"cilium_policy: cluster {cluster!r} is not one of clusters.")
    cilium = CiliumVersion.from_tag(version) if isinstance(version, str) else None  # the number 1.20 would be read as 1.2
    if cilium is None:
        raise AnsibleFilterError(f"cilium_policy: version is {version!r}. Write it as a string like 1.20.1.")
    mesh = Mesh(binding=Binding(name=str(binding), cluster_refs=tuple(names)))
    desired = _desired(intent, mesh)
    try:
        policies = compile_intent(
            desired.each(ConnectivityIntent)[0], names=names, members=tuple(names), version=cilium.release, binding=mesh.binding
        )
    except CannotExpress as error:
        raise AnsibleFilterError(f"cilium_policy: {error}") from None
    return [body for host, bodies in policies.items() if cluster in (None, host) for body in bodies]


def _names(clusters: Any) -> dict[str, str]:
    """Return inventory name -> cluster name.

    :raises AnsibleFilterError: the value is not a mapping of valid names.
    """
    if not isinstance(clusters, Mapping) or not clusters:
        raise AnsibleFilterError("cilium_policy: clusters is not a mapping of inventory names to cluster names.")
    names = {str(host): str(name) for host, name in clusters.items()}
    wrong = next((name for name in names.values() if not valid_cluster_name(name)), None)
    if wrong is not None:
        raise AnsibleFilterError(f"cilium_policy: {wrong!r} in clusters is not a cluster name.")
    return names


def _desired(intent: Mapping[str, Any], mesh: Mesh) -> Desired:
    """Return the one intent, parsed as the roles parse it.

    :raises AnsibleFilterError: the intent is not valid.
    """
    try:
        desired = desired_of({ItemKind.INTENT.value: [intent]}, mesh, kinds=[ItemKind.INTENT])
    except InvalidInput as error:
        raise AnsibleFilterError(f"cilium_policy: {error}") from None
    if desired.refused:
        raise AnsibleFilterError(f"cilium_policy: {'; '.join(desired.refused[0].problems)}")
    return desired


class FilterModule:
    """The filter, as Ansible loads it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"cilium_policy": cilium_policy}
