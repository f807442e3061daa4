# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The members' copies of the registry in their clusters, read and written one by one, each write over exactly the version that was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import WriteConflict
from .facts import ClusterFacts, RegistryFacts
from .kube import Cluster
from .lease_protocol import Copy
from .model import Binding, Mesh
from .observe.registry import registry_facts
from .plan_registry import body_of_new, registry_path
from .registry import KEY, NewerRegistry, Registry, RegistryProblem, is_ours, parse_registry


class ClusterCopies:
    """``lease_protocol.Store`` over open connections. ``facts`` tell where Cilium runs."""

    def __init__(self, mesh: Mesh, clusters: Mapping[str, Cluster], facts: Mapping[str, ClusterFacts]) -> None:
        self._binding = mesh.binding
        self._clusters = clusters
        self._namespaces = {host: cluster.namespace for host, cluster in facts.items()}
        self.written: list[str] = []  # inventory names, one for each write that was made

    def read(self, host: str) -> Copy | None:
        """The copy; one that is spoiled counts as empty, one that is not ours or newer than we are as none. Raises ClusterError."""
        return copy_of(registry_facts(self._clusters[host].get(self._path(host))), self._binding)

    def write(self, host: str, text: str, version: str) -> bool:
        """True when it was written, False when the version is another by now. Raises ClusterError."""
        cluster, path = self._clusters[host], self._path(host)
        try:
            if not version:
                version = self._created(host)
            body = {"metadata": {"resourceVersion": version}, "data": {KEY: text}}
            cluster.merge_patch(path, body, manager=self._binding.manager)
        except WriteConflict:
            return False
        self.written.append(host)
        return True

    def _created(self, host: str) -> str:
        """The version of the ConfigMap, made without content by a field manager of its own: two may make it at once, and neither takes
        content away from whoever was faster. Its right to create can be limited to one name, as a POST's cannot.
        """
        body = body_of_new(self._binding, self._namespaces[host], None)
        made: Any = self._clusters[host].apply(self._path(host), body, manager=f"{self._binding.manager}/new")
        found = registry_facts(made)
        if found.text:
            raise WriteConflict("The registry of leases was created by somebody else meanwhile.", cluster=host)
        return found.resource_version

    def _path(self, host: str) -> str:
        return registry_path(self._binding, self._namespaces[host])


def copy_of(facts: RegistryFacts, binding: Binding) -> Copy | None:
    """What was read, as the protocol sees it."""
    empty = Registry(mesh=binding.owner)
    if not facts.present:
        return Copy(registry=empty)
    if not is_ours(facts, binding):
        return None
    try:
        found = parse_registry(facts.text) if facts.text else empty
    except NewerRegistry:
        return None
    except RegistryProblem:
        found = empty
    return Copy(registry=found if found.mesh == binding.owner else empty, text=facts.text, version=facts.resource_version)
