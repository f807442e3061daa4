# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Store of the members' copies of the registry in their clusters, written one by one, each over exactly the version that was read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..base.errors import WriteConflict
from ..kube.client import Cluster
from ..leases.plan import body_of_new, registry_path
from ..leases.quorum import Copy
from ..leases.registry import KEY, NewerRegistry, Registry, RegistryProblem, is_ours, parse_registry
from ..mesh.binding.model import Binding, Mesh
from ..mesh.facts.cluster import ClusterFacts, RegistryFacts
from ..observe.registry import registry_facts


class ClusterCopies:
    """``leases.quorum.Store`` over open connections. ``facts`` have the namespace of Cilium; ``allow``: as ``apply_plan`` has it."""

    def __init__(
        self, mesh: Mesh, clusters: Mapping[str, Cluster], facts: Mapping[str, ClusterFacts], *, allow: Callable[[str], None]
    ) -> None:
        self._allow = allow
        self._binding = mesh.binding
        self._clusters = clusters
        self._namespaces = {host: cluster.namespace for host, cluster in facts.items()}
        self.written: list[str] = []  # inventory names, one for each write that was made

    def read(self, host: str) -> Copy | None:
        """Return the copy of a member; None if it is not this binding's or a later release wrote it.

        A text that is not valid counts as empty.

        :raises ClusterError: when it cannot be read.
        """
        return copy_of(registry_facts(self._clusters[host].get(self._path(host))), self._binding)

    def write(self, host: str, text: str, version: str) -> bool:
        """Write a copy and return True; return False if the version is another by now.

        :raises ClusterError: when it cannot be written.
        """
        cluster, path = self._clusters[host], self._path(host)
        self._allow(host)
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
        """Create the ConfigMap without content, by a field manager of its own, and return its version.

        Two controllers may create it at once, and neither removes content of the one that was faster. The right to this apply can be
        limited to one name, as a POST's cannot.
        """
        body = body_of_new(self._binding, self._namespaces[host], None)
        made: Any = self._clusters[host].apply(self._path(host), body, manager=f"{self._binding.manager}/new")
        found = registry_facts(made)
        if found.text:
            raise WriteConflict("Another writer created the lease registry meanwhile.", cluster=host)
        return found.resource_version

    def _path(self, host: str) -> str:
        return registry_path(self._binding, self._namespaces[host])


def copy_of(facts: RegistryFacts, binding: Binding) -> Copy | None:
    """Return the observed ConfigMap as the protocol's copy; None if it may not be written."""
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
