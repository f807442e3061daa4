# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``peer_config``: the engine's function of that name, for templates."""

from __future__ import annotations

DOCUMENTATION = r"""
name: peer_config
short_description: etcd client configuration with which Cilium reaches a cluster mesh peer
version_added: 0.1.0
author: Contributors to the edge_portal.cilium_mesh project (@edge-portal)
description:
  - Returns the YAML text that stands under the peer's name in Secret C(cilium-kvstoremesh), or in C(cilium-clustermesh) where Cilium runs
    without kvstoremesh.
  - It is the text that M(edge_portal.cilium_mesh.mesh_connect) writes. Use the filter where something else writes the Secrets, such as a
    GitOps repository.
extends_documentation_fragment:
  - edge_portal.cilium_mesh._mesh.trust_mode
positional: _input
options:
  _input:
    description: Cluster name of the peer, C(cluster-name) in its ConfigMap C(cilium-config).
    type: str
    required: true
  ips:
    description:
      - Addresses of the peer's mesh etcd. They are dialled as C(<peer>.mesh.cilium.io), which the peer's server certificate covers.
      - From Cilium 1.20 they stand in the text. Before, the name has to be given to the pods by C(hostAliases).
      - Without addresses, O(hostname) is left to DNS.
    type: list
    elements: str
    default: []
  hostname:
    description:
      - Name to dial. The peer's server certificate has to cover it.
      - By default C(<peer>.mesh.cilium.io).
    type: str
  port:
    description: Port of the peer's mesh etcd.
    type: int
    default: 2379
  version:
    description: Version of Cilium in the cluster that reads the text, such as V(1.20.1) or V(v1.18.11). It is a string, not a number.
    type: str
    required: true
  trust_sha256:
    description:
      - 64 hexadecimal digits for the comment C(# trust-sha256), for instance the SHA-256 of the peer's CA.
      - Cilium connects anew only when the text changes, so a change of the CA needs a change of the text.
    type: str
"""

EXAMPLES = r"""
- name: Write the configuration of a peer that is reached by address and has the same CA
  ansible.builtin.copy:
    content: "{{ 'ber-2' | edge_portal.cilium_mesh.peer_config(version='1.20.1', ips=['192.0.2.12']) }}"
    dest: "{{ playbook_dir }}/ber-2.yaml"
    mode: "0600"

- name: Show the configuration of a peer that has a DNS name and a CA of its own
  ansible.builtin.debug:
    msg: >-
      {{ 'ber-2' | edge_portal.cilium_mesh.peer_config(version='1.18.11', hostname='mesh.ber-2.example.com', port=32379, trust='minted',
         trust_sha256=(lookup('ansible.builtin.file', 'ber-2-ca.crt', rstrip=false) | hash('sha256'))) }}
"""

RETURN = r"""
_value:
  description: The YAML text.
  type: str
  sample: |
    endpoints:
    - https://ber-2.mesh.cilium.io:2379
    trusted-ca-file: /var/lib/cilium/clustermesh/common-etcd-client-ca.crt
    key-file: /var/lib/cilium/clustermesh/common-etcd-client.key
    cert-file: /var/lib/cilium/clustermesh/common-etcd-client.crt
    cilium-host-aliases:
    - hostname: ber-2.mesh.cilium.io
      ips:
        - 192.0.2.12
"""

from collections.abc import Callable, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils.base.errors import InvalidInput
from ..module_utils.mesh.binding.trust_mode import MODES, TrustMode, one_of_modes
from ..module_utils.mesh.endpoints.addresses import canonical_ip, is_ip
from ..module_utils.mesh.endpoints.endpoint import MeshEndpoint
from ..module_utils.mesh.endpoints.etcd_config import peer_config as text_of
from ..module_utils.mesh.endpoints.names import MESH_DOMAIN
from ..module_utils.mesh.versions.minors import CiliumVersion


def peer_config(
    name: str,
    version: str,
    ips: Sequence[str] = (),
    hostname: str | None = None,
    port: int = 2379,
    trust: str = "same_ca",
    trust_sha256: str | None = None,
) -> str:
    """Return the etcd configuration of a peer; see DOCUMENTATION."""
    if not isinstance(name, str):
        raise AnsibleFilterError("peer_config: the input is not the name of a cluster.")
    if isinstance(ips, str) or not all(isinstance(ip, str) and is_ip(ip) for ip in ips):
        raise AnsibleFilterError("peer_config: ips is not a list of IP addresses.")
    if trust not in MODES:
        raise AnsibleFilterError(f"peer_config: trust is {trust!r}. Use {one_of_modes()}.")
    cilium = CiliumVersion.from_tag(version) if isinstance(version, str) else None  # the number 1.20 would be read as 1.2
    if cilium is None:
        raise AnsibleFilterError(f"peer_config: version is {version!r}. Write it as a string like 1.20.1.")
    try:
        endpoint = MeshEndpoint(hostname=hostname or f"{name}.{MESH_DOMAIN}", port=int(port), ips=tuple(canonical_ip(ip) for ip in ips))
        return text_of(name, endpoint, version=cilium, mode=TrustMode(trust), trust_digest=trust_sha256 or "")
    except ValueError:
        raise AnsibleFilterError(f"peer_config: port is {port!r}. Use a number.") from None
    except InvalidInput as error:
        raise AnsibleFilterError(f"peer_config: {error}") from None


class FilterModule:
    """The filter, as Ansible loads it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"peer_config": peer_config}
