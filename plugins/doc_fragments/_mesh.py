# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several actions share. The twin of plugin_utils/spec.py: change both."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  mesh:
    description:
      - The mesh, in the shape of the variable C(cilium_mesh). Its key C(binding) holds C(name), C(clusterRefs) and C(meshConfig), as in the
        custom resource ClusterMeshBinding.
      - Each entry of C(clusterRefs) names a host of the inventory, and each of these takes part in the play.
      - Without C(clusterRefs) every host of the play is a member.
    type: dict
requirements:
  - cryptography >= 42.0.0 on the controller
  - kubernetes >= 36.0.0 on the controller
  - PyYAML >= 6.0 on the controller
  - urllib3 >= 2.0.0 on the controller
  - websocket-client >= 1.6.0 on the controller
notes:
  - Every host of the play is a cluster. It is reached by its variables C(cilium_mesh_kubeconfig) (a path, or the kubeconfig as a mapping),
    C(cilium_mesh_context), C(cilium_mesh_namespace) (default V(kube-system)) and C(cilium_mesh_endpoint_override).
  - No result, message or warning holds a value of a Secret or of a kubeconfig.
seealso:
  - plugin: edge_portal.cilium_mesh.clusters
    plugin_type: inventory
"""

    JUDGEMENT = r"""
options:
  accept:
    description:
      - Codes of blocking findings that are known and taken on. Only those whose documentation allows it can be named.
    type: list
    elements: str
    default: []
  trust:
    description:
      - How a cluster and its peer come to trust each other.
      - V(auto) takes the first that works for each ordered pair, in the order of the others here.
      - V(same_ca) relies on both having the same CA, and writes nothing.
      - V(minted) issues a client certificate with the peer's Cilium CA.
      - V(copied) copies the client certificate that the peer keeps for this purpose. It ends when the peer renews it.
    type: str
    choices: [auto, same_ca, minted, copied]
    default: auto
  node_addresses:
    description:
      - Which addresses of a peer's nodes are dialled, where its Service is of type NodePort.
    type: str
    choices: [InternalIP, ExternalIP]
    default: InternalIP
"""

    REPORT = r"""
options:
  report:
    description:
      - Print findings, plan and status as tables while the task runs.
    type: bool
    default: true
"""
