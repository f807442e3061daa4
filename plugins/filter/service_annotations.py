# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter ``service_annotations``: the engine's annotations of a GlobalService, for templates."""

from __future__ import annotations

DOCUMENTATION = r"""
name: service_annotations
short_description: Annotations that a GlobalService puts on a Service
version_added: 0.1.0
author: Contributors to the edge_portal.cilium_mesh project (@edge-portal)
description:
  - Returns the annotations that make a Service global in a Cilium Cluster Mesh, as a merge patch takes them. A null removes an annotation.
  - They are those that the role P(edge_portal.cilium_mesh.global_service#role) writes, without its record of earlier values. Use the filter
    where something else writes the Services, such as a GitOps repository.
  - An older key C(io.cilium/*) is removed where the newer one that replaces it is set. Annotations that the specification does not speak of
    are not in the result.
  - A cluster is not asked anything, so a C(failover) contract is not carried out, and C(globalAnnotations) that a cluster has to permit are
    refused.
positional: _input
options:
  _input:
    description: A GlobalService, an entry of C(globalServices) in the variable C(cilium_mesh), with or without its C(name).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Make a Service global
  kubernetes.core.k8s:
    state: patched
    kind: Service
    name: "{{ item.selector.name }}"
    namespace: "{{ item.selector.namespace }}"
    merge_type: merge
    definition:
      metadata:
        annotations: "{{ item | edge_portal.cilium_mesh.service_annotations }}"
  loop:
    - selector:
        namespace: production
        name: nginx
      affinity: Local
"""

RETURN = r"""
_value:
  description: Annotation as the key, its value or null as the value.
  type: dict
  sample:
    service.cilium.io/global: "true"
    io.cilium/global-service:
    service.cilium.io/affinity: local
    io.cilium/service-affinity:
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.annotations import ALIASES, wanted_annotations
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.parse import parse_global_service

from ..module_utils.base.input_problems import Problems


def service_annotations(spec: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the annotations of a GlobalService; see DOCUMENTATION."""
    if not isinstance(spec, Mapping):
        raise AnsibleFilterError("service_annotations: the input is not a GlobalService, a mapping with a selector.")
    rest = {str(key): value for key, value in spec.items() if key not in ("name", "meshRef")}
    targets = rest.get("targetClusters")
    named = tuple(str(host) for host in targets) if isinstance(targets, (list, tuple)) else ()
    problems = Problems()
    service = parse_global_service(problems, "filter", rest, named)  # who is a member is not known here, and does not matter
    if service is None:
        raise AnsibleFilterError(f"service_annotations: {'; '.join(problems.found)}.")
    if service.further:
        raise AnsibleFilterError(f"service_annotations: {', '.join(service.further)}: a cluster has to permit it, and none is asked here.")
    if service.backend == "MCS":
        raise AnsibleFilterError("service_annotations: backend MCS writes a ServiceExport and no annotations.")
    found: dict[str, str | None] = {}
    for key, value in wanted_annotations(service).items():
        found[key] = value
        if key in ALIASES:
            found[ALIASES[key]] = None
    return found


class FilterModule:
    """The filter, as Ansible loads it."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"service_annotations": service_annotations}
