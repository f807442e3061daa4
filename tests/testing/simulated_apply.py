# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What applying a plan does to the clusters, played on facts: facts and plan in, facts out.

It keeps field ownership as the API server does (Kubernetes documentation, "Server-Side Apply"): an apply without force is refused where
another manager owns a field with another value; a field that a manager no longer sends goes when no other one owns it; an update takes the
fields that it changes away from all others.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import api_body, host_aliases_body
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import KEY, registry_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    CertificateFacts,
    ClusterFacts,
    HostAlias,
    PeerSecretFacts,
    RegistryFacts,
    RemoteUsersFacts,
    SecretKeyFacts,
    ServiceFacts,
    TlsSecretFacts,
    WorkloadFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import OWNER_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.users import parse_users
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import (
    ApiWrite,
    ApplyHostAliases,
    ApplySecret,
    DeleteObject,
    FromSecret,
    Literal,
    Minted,
    Plan,
    Recipe,
    Step,
    WriteUsers,
)

from .facts_builders import digest

Path = tuple[str, str]
BY_PATCH = "\0Update"  # to the API server who applies and who patches are two managers, also under one name
KINDS = {"configmaps": "ConfigMap", "secrets": "Secret", "services": "Service", "deployments": "Deployment", "daemonsets": "DaemonSet"}
REGISTRIES = "cilium-mesh-"  # how the names of the ConfigMaps with leases begin; the rest is the owner of a binding


@dataclass
class Simulated:
    """One object: path -> value, path -> managers."""

    uid: str
    version: int = 1
    values: dict[Path, Any] = field(default_factory=dict)
    owners: dict[Path, set[str]] = field(default_factory=dict)

    def apply(self, manager: str, wanted: Mapping[Path, Any]) -> None:
        """Server-side apply without force."""
        for path, value in wanted.items():
            others = self.owners.get(path, set()) - {manager}
            if others and self.values[path] != value:
                raise WriteConflict(f"{path} belongs to {sorted(others)}")
        for path, value in wanted.items():
            self.values[path] = value
            self.owners.setdefault(path, set()).add(manager)
        for path in [p for p, by in self.owners.items() if manager in by and p not in wanted]:
            self.owners[path].discard(manager)
            if not self.owners[path]:
                del self.owners[path], self.values[path]
        self.version += 1

    def update(self, manager: str, changes: Mapping[Path, Any]) -> None:
        """A patch; a value of None removes the field."""
        manager += BY_PATCH
        for path, value in changes.items():
            if value is None:
                self.values.pop(path, None)
                self.owners.pop(path, None)
            elif self.values.get(path) != value:
                self.values[path] = value
                self.owners[path] = {manager}
        self.version += 1

    def section(self, name: str) -> dict[str, Any]:
        return {key: value for (part, key), value in self.values.items() if part == name}

    def managers(self) -> tuple[str, ...]:
        return _names(set().union(*self.owners.values()))

    def managers_of(self, path: Path) -> tuple[str, ...]:
        return _names(self.owners.get(path, ()))


class SimulatedClusters:
    """The clusters of ``facts`` with everything that a plan can change; the rest of the facts stays as given."""

    def __init__(self, facts: Mapping[str, ClusterFacts], now: datetime) -> None:
        self._fixed = dict(facts)
        self.now = now
        self._serial = itertools.count(1)
        self._objects: dict[tuple[str, str, str], Simulated] = {}
        for host, cluster in facts.items():
            self._load(host, cluster)

    def _load(self, host: str, cluster: ClusterFacts) -> None:
        for secret in (cluster.clustermesh, cluster.kvstoremesh):
            if secret.present:
                made = self._new(host, "Secret", secret.name)
                for key, facts in secret.keys.items():
                    _set(made, ("data", key), replace(facts, managers=()), facts.managers)
                _load_metadata(made, secret)
        if cluster.users.present:
            made = self._new(host, "ConfigMap", "clustermesh-remote-users")
            _set(made, ("data", "users.yaml"), cluster.users.text, cluster.users.managers)
            _load_metadata(made, cluster.users)
        if cluster.registry.present:
            made = self._new(host, "ConfigMap", f"{REGISTRIES}{cluster.registry.labels.get(OWNER_LABEL, '')}")
            _set(made, ("data", KEY), cluster.registry.text, cluster.registry.managers)
            for key, value in cluster.registry.labels.items():
                _set(made, ("labels", key), value, cluster.registry.managers)
        if cluster.service is not None:
            made = self._new(host, "Service", "clustermesh-apiserver")
            made.uid = cluster.service.uid or made.uid
            for key, value in cluster.service.annotations.items():
                _set(made, ("annotations", key), value, cluster.service.annotation_managers.get(key, ()))
        for workload in (cluster.apiserver, cluster.agent):
            if workload is not None:
                made = self._new(host, workload.kind, workload.name)
                for alias in workload.host_aliases:
                    _set(made, ("alias", alias.ip), alias.hostnames, alias.managers)

    def _new(self, host: str, kind: str, name: str) -> Simulated:
        made = Simulated(uid=f"uid-{next(self._serial)}")
        self._objects[(host, kind, name)] = made
        return made

    def run(self, plan: Plan, *, only: Iterable[str] | None = None, steps: Mapping[str, int] | None = None) -> None:
        """Apply the plan in its order.

        :param only: as if every other cluster had failed.
        :param steps: cluster -> after how many of its steps it fails.
        """
        chosen = None if only is None else set(only)
        done: Counter[str] = Counter()
        for step in plan.steps:
            if (chosen is None or step.cluster in chosen) and done[step.cluster] < (steps or {}).get(step.cluster, len(plan.steps)):
                self._step(plan.manager, step)
                done[step.cluster] += 1

    def change(self, host: str, change: Callable[[ClusterFacts], ClusterFacts]) -> None:
        """Change what no plan writes: certificates, addresses, configuration."""
        self._fixed[host] = change(self._fixed[host])

    def edit(self, host: str, kind: str, name: str, manager: str, changes: Mapping[Path, Any]) -> bool:
        """A patch of an object by another writer; False when there is no such object."""
        made = self._objects.get((host, kind, name))
        if made is not None:
            made.update(manager, changes)
        return made is not None

    def _step(self, manager: str, step: Step) -> None:
        action = step.action
        if isinstance(action, ApplySecret):
            place = (step.cluster, "Secret", action.name)
            made = self._objects.get(place) or self._new(*place)
            made.apply(manager, self._secret_fields(action))
        elif isinstance(action, ApplyHostAliases):
            written = host_aliases_body(action, self.now)["metadata"].get("annotations", {})
            wanted: dict[Path, Any] = {("alias", ip): names for ip, names in action.aliases.items()}
            wanted |= {("annotations", key): value for key, value in written.items()}
            self._objects[(step.cluster, action.kind, action.name)].apply(manager, wanted)
        elif isinstance(action, WriteUsers):
            self._write_users(manager, step, action)
        elif isinstance(action, ApiWrite):
            self._api_write(manager, step.cluster, action)
        else:
            self._delete(step.cluster, action)

    def _api_write(self, manager: str, host: str, action: ApiWrite) -> None:
        body = api_body(action, {}, self.now)
        metadata = body.get("metadata") or {}
        parts = action.path.split("/")
        place = (host, KINDS[parts[-1]], metadata["name"]) if action.method == "create" else (host, KINDS[parts[-2]], parts[-1])
        made = self._objects.get(place)
        for key, value in (("uid", made.uid if made else ""), ("resourceVersion", str(made.version) if made else "")):
            if metadata.get(key, value) != value:
                raise WriteConflict(f"{place} has another {key}")
        if (action.method == "create") == (made is not None) and action.method != "apply":
            raise WriteConflict(f"{action.method} of {place}")
        serial = next(self._serial)
        fields: dict[Path, Any] = {(part, k): v for part in ("labels", "annotations") for k, v in (metadata.get(part) or {}).items()}
        fields.update({("data", k): v for k, v in (body.get("data") or {}).items()})
        fields.update({("data", k): self._value(recipe, serial) for k, recipe in action.secret_data.items()})
        fields.update({("body", k): v for k, v in body.items() if k not in ("apiVersion", "kind", "metadata", "data")})
        if action.method == "delete":
            del self._objects[place]
        elif action.method == "merge":
            self._objects[place].update(manager, fields)
        else:
            (made or self._new(*place)).apply(manager if action.method == "apply" else manager + BY_PATCH, fields)

    def _write_users(self, manager: str, step: Step, action: WriteUsers) -> None:
        place = (step.cluster, "ConfigMap", action.name)
        if (step.verb == "create") == (place in self._objects):
            raise WriteConflict(f"{step.verb} of {place}")
        made = self._objects.get(place) or self._new(*place)
        if step.verb != "create" and action.resource_version != str(made.version):
            raise WriteConflict(f"{place} changed")
        changes: dict[Path, Any] = {("labels", k): v for k, v in action.labels.items()}
        changes |= {("annotations", k): v for k, v in action.marks.items()}
        made.update(
            manager, {("data", "users.yaml"): action.text, ("annotations", action.annotation_key): action.annotation or None, **changes}
        )

    def _delete(self, host: str, action: DeleteObject) -> None:
        place = (host, action.kind, action.name)
        if action.resource_version != str(self._objects[place].version):
            raise WriteConflict(f"{place} changed")
        del self._objects[place]

    def _secret_fields(self, action: ApplySecret) -> dict[Path, Any]:
        serial = next(self._serial)
        fields: dict[Path, Any] = {("labels", k): v for k, v in action.labels.items()}
        fields.update({("annotations", k): v for k, v in action.annotations.items()})
        fields.update({("data", key): self._value(recipe, serial) for key, recipe in action.data.items()})
        return fields

    def _value(self, recipe: Recipe, serial: int) -> SecretKeyFacts:
        if isinstance(recipe, Literal):
            return SecretKeyFacts(digest=digest(recipe.text), config=recipe.text)
        if isinstance(recipe, Minted):
            return self._minted(recipe, serial)
        assert isinstance(recipe, FromSecret), f"not played here: {recipe}"
        return self._copied(recipe)

    def _copied(self, recipe: FromSecret) -> SecretKeyFacts:
        made = self._objects.get((recipe.cluster, "Secret", recipe.secret))
        if made is not None:
            value: SecretKeyFacts = made.values[("data", recipe.key)]
            return value
        cluster = self._fixed[recipe.cluster]
        secrets: dict[str, TlsSecretFacts] = {s.name: s for s in (cluster.server_cert, cluster.remote_cert)}
        tls = secrets[recipe.secret]
        parsed = {"tls.crt": tls.certificate, "ca.crt": tls.ca[0]}.get(recipe.key)
        matches = True if recipe.key == "tls.crt" else None
        return SecretKeyFacts(digest=tls.digests[recipe.key], certificate=parsed, certificate_key_matches=matches)

    def _minted(self, recipe: Minted, serial: int) -> SecretKeyFacts:
        made = digest(f"minted {serial} {recipe.issuer} {recipe.common_name} {recipe.part}")
        if recipe.part == "key":
            return SecretKeyFacts(digest=made)
        ca = self._fixed[recipe.issuer].ca.certificates[0]
        certificate = CertificateFacts(
            common_name=recipe.common_name,
            issuer=f"CN={ca.common_name}",
            fingerprint=made,
            public_key=made,
            subject_key_id=None,
            authority_key_id=ca.subject_key_id,
            not_before=self.now - timedelta(minutes=5),
            not_after=min(self.now + timedelta(days=recipe.days), ca.not_after),
            server_auth=False,
        )
        return SecretKeyFacts(digest=made, certificate=certificate, certificate_key_matches=True)

    def facts(self, mesh: Mesh | None = None) -> dict[str, ClusterFacts]:
        """What an observation would find now. ``mesh`` tells whose registry is read; without it, the first there is."""
        return {host: self._facts_of(host, cluster, mesh) for host, cluster in self._fixed.items()}

    def _facts_of(self, host: str, cluster: ClusterFacts, mesh: Mesh | None) -> ClusterFacts:
        return replace(
            cluster,
            clustermesh=self._peer_secret(host, cluster.clustermesh.name),
            kvstoremesh=self._peer_secret(host, cluster.kvstoremesh.name),
            users=self._users(host),
            registry=self._registry_facts(host, mesh),
            service=self._service(host, cluster.service),
            apiserver=self._workload(host, cluster.apiserver),
            agent=self._workload(host, cluster.agent),
        )

    def _peer_secret(self, host: str, name: str) -> PeerSecretFacts:
        made = self._objects.get((host, "Secret", name))
        if made is None:
            return PeerSecretFacts(name=name)
        keys = {k: replace(v, managers=made.managers_of(("data", k))) for k, v in sorted(made.section("data").items())}
        return PeerSecretFacts(name=name, keys=keys, **_metadata(made))

    def _users(self, host: str) -> RemoteUsersFacts:
        made = self._objects.get((host, "ConfigMap", "clustermesh-remote-users"))
        if made is None:
            return RemoteUsersFacts()
        text = made.values[("data", "users.yaml")]
        users, problem = parse_users(text)
        return RemoteUsersFacts(users=users, problem=problem, text=text, **_metadata(made))

    def _registry_facts(self, host: str, mesh: Mesh | None) -> RegistryFacts:
        names = sorted(name for at, kind, name in self._objects if at == host and kind == "ConfigMap" and name.startswith(REGISTRIES))
        wanted = registry_name(mesh.binding) if mesh else next(iter(names), "")
        made = self._objects.get((host, "ConfigMap", wanted))
        if made is None:
            return RegistryFacts()
        known = _metadata(made)
        del known["annotations"]
        return RegistryFacts(text=made.values.get(("data", KEY), ""), **known)

    def _service(self, host: str, service: ServiceFacts | None) -> ServiceFacts | None:
        if service is None:
            return None
        made = self._objects[(host, "Service", "clustermesh-apiserver")]
        managers = {key: made.managers_of((part, key)) for part, key in made.values if part == "annotations"}
        return replace(service, annotations=made.section("annotations"), annotation_managers=managers)

    def _workload(self, host: str, workload: WorkloadFacts | None) -> WorkloadFacts | None:
        if workload is None:
            return None
        made = self._objects[(host, workload.kind, workload.name)]
        aliases = tuple(
            HostAlias(ip=ip, hostnames=names, managers=made.managers_of(("alias", ip)))
            for ip, names in sorted(made.section("alias").items())
        )
        return replace(workload, host_aliases=aliases, annotations={**workload.annotations, **made.section("annotations")})


def _names(managers: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({manager.removesuffix(BY_PATCH) for manager in managers}))


def _set(made: Simulated, path: Path, value: Any, managers: Iterable[str]) -> None:
    made.values[path] = value
    if owners := set(managers):
        made.owners[path] = owners


def _load_metadata(made: Simulated, facts: PeerSecretFacts | RemoteUsersFacts) -> None:
    for section, values in (("labels", facts.labels), ("annotations", facts.annotations)):
        for key, value in values.items():
            _set(made, (section, key), value, facts.managers)


def _metadata(made: Simulated) -> dict[str, Any]:
    return {
        "present": True,
        "uid": made.uid,
        "resource_version": str(made.version),
        "managers": made.managers(),
        "labels": made.section("labels"),
        "annotations": made.section("annotations"),
    }
