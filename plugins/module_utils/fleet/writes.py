# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The writes to Karmada for one tenant, as steps: of its namespace, of a workload, and of what is no longer wanted. Pure.

Writes of one workload stand in this order, and a run that is ended after any of them is continued by the next: the tenant's namespace, the
new revision, the PropagationPolicy with the state of the rollout, the templates, then deletions. A template is deleted before its policy,
since Karmada leaves what a policy without a template brought.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ..base.json_fields import annotations_of, labels_of, mapping, text
from ..mesh.binding.fleet_kinds import FleetKind
from ..plan.steps import ApiWrite, Step
from .contents import CONTENT_ANNOTATION, KINDS, WORKLOAD_KINDS, TenantObject, is_part, objects_of, with_digest
from .facts import TenantFacts
from .models import EVERYWHERE, Fleet, FleetRequest, FleetWorkload, PlacementPolicy
from .names import OPERATOR_ANNOTATION, karmada_namespace
from .placement import Candidates, candidates, placement_of
from .revisions import COLLECTION, Revision, revision_body, revision_name
from .rollout import Turn
from .rollout_state import COMPLETE, STATE_ANNOTATION, RolloutState

POLICY_API: Final = "/apis/policy.karmada.io/v1alpha1"
NO_AUTO_PROPAGATION: Final = {"namespace.karmada.io/skip-auto-propagation": "true"}
POD_SECURITY: Final = {"pod-security.kubernetes.io/enforce": "baseline"}

NAMESPACE_WAVE, REVISION_WAVE, POLICY_WAVE, TEMPLATE_WAVE, REMOVAL_WAVE, POLICY_REMOVAL_WAVE, LAST_WAVE = range(1, 8)


def item_of(workload: str) -> str:
    """Return how plans and findings name a workload."""
    return f"{FleetKind.WORKLOAD.referred}/{workload}"


@dataclass(frozen=True)
class Target:
    """What a workload was decided to be: where it may go, and the transition of this run. ``homes``: members that hold it."""

    workload: FleetWorkload
    fleet: Fleet
    policy: PlacementPolicy
    found: Candidates
    turn: Turn
    homes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Writer:
    """Writer of steps for one tenant."""

    request: FleetRequest
    facts: TenantFacts
    karmada: str

    @property
    def name(self) -> str:
        """Name of the tenant's namespace."""
        return karmada_namespace(self.request.tenant)

    def namespace(self) -> list[Step]:
        """Return the steps that make the tenant's namespace, and bring it to the tenant's members."""
        labels = {**self.request.tenant.labels, **NO_AUTO_PROPAGATION, **POD_SECURITY}
        made_by = {"annotations": {OPERATOR_ANNOTATION: self.request.operator}} if self.request.operator else {}
        namespace = with_digest({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": labels, **made_by}})
        selected = {"resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": self.name}]}
        placement = {"placement": {"clusterAffinity": {"labelSelector": {"matchLabels": dict(self.request.tenant.labels)}}}}
        policy = with_digest(
            {
                "apiVersion": "policy.karmada.io/v1alpha1",
                "kind": "ClusterPropagationPolicy",
                "metadata": {"name": self.name, "labels": dict(self.request.tenant.labels)},
                # Overwrite: a member that comes back has the namespace without Karmada's labels, and it holds nothing of others' kinds.
                "spec": {**selected, **placement, "preserveResourcesOnDeletion": True, "conflictResolution": "Overwrite"},
            }
        )
        pairs = (
            ("Namespace", f"/api/v1/namespaces/{self.name}", namespace, self.facts.namespace),
            ("ClusterPropagationPolicy", f"{POLICY_API}/clusterpropagationpolicies/{self.name}", policy, self.facts.namespace_policy),
        )
        return [
            self._apply(NAMESPACE_WAVE, f"{kind} {self.name}", path, body, live, "the workloads of the workspace live in it")
            for kind, path, body, live in pairs
            if not is_as(body, live)
        ]

    def namespace_removal(self) -> list[Step]:
        """Return the steps that remove the tenant's namespace from Karmada, when no workload is left."""
        if any(not binding.deleting or binding.placed for binding in self.facts.bindings.values()):
            return []
        live = (
            ("Namespace", f"/api/v1/namespaces/{self.name}", self.facts.namespace),
            ("ClusterPropagationPolicy", f"{POLICY_API}/clusterpropagationpolicies/{self.name}", self.facts.namespace_policy),
        )
        return [
            self._delete(POLICY_REMOVAL_WAVE + place, f"{kind} {self.name}", path, found, "the workspace has no workload any more")
            for place, (kind, path, found) in enumerate(live)
            if found is not None and not is_leaving(found) and is_tenants(found, self.request)
        ]

    def workload(self, target: Target, before: RolloutState | None) -> list[Step]:
        """Return the steps of one workload.

        :param before: state that the PropagationPolicy has.
        """
        turn, workload = target.turn, target.workload
        item = item_of(workload.name)
        steps: list[Step] = []
        if turn.mint is not None:
            steps.append(self._revision(workload.name, turn.mint))
        bodies = objects_of(self.request.tenant, workload, turn.write.content, turn.write.number) if turn.write is not None else {}
        mine = set(self.facts.owned(workload.name).objects)
        complete = turn.phase == COMPLETE and bool(bodies)
        keys = set(bodies) | (set() if complete else mine)
        everywhere = {TenantObject("Service", workload.name)} & keys if is_global(workload) else set()
        after = {key for key in keys - everywhere if key.kind not in WORKLOAD_KINDS} if target.policy.is_chosen_by_karmada else set()
        steps += self._policy(target, before, keys - everywhere - after)
        steps += self._service_policy(target, everywhere)
        steps += self._beside_policy(target, after)
        why = f"FleetWorkload {workload.name}, revision {turn.write.number}" if turn.write is not None else ""
        # The workload last: while it is of the revision before, all else may be written again (rollout.py).
        for key, body in sorted(bodies.items(), key=lambda entry: entry[0].kind in WORKLOAD_KINDS):
            live = self.facts.objects.get(key)
            if not is_as(body, live):
                steps.append(self._apply(TEMPLATE_WAVE, self._shown(key), key.path(self.name), body, live, why, item))
        for key in sorted(key for key in mine - set(bodies) if not is_leaving(self.facts.objects[key])) if complete else ():
            gone = f"FleetWorkload {workload.name} has it no more"
            steps.append(self._delete(REMOVAL_WAVE, self._shown(key), key.path(self.name), self.facts.objects[key], gone, item))
        for number in turn.drop:
            name = revision_name(workload.name, number)
            path = f"{COLLECTION.format(self.name)}/{name}"
            shown, why_gone = f"ControllerRevision {self.name}/{name}", f"more than {workload.history_limit} old revisions"
            steps.append(self._delete(LAST_WAVE, shown, path, self.facts.revisions[name], why_gone, item))
        return steps

    def removal(self, workload: str) -> list[Step]:
        """Return the steps that remove a workload: its templates, its policy, and its revisions."""
        item, why, mine = item_of(workload), f"FleetWorkload {workload} is deleted", self.facts.owned(workload)
        steps = [
            self._delete(REMOVAL_WAVE, self._shown(key), key.path(self.name), found, why, item)
            for key, found in sorted(mine.objects.items())
            if self._is_to_delete(found, workload)
        ]
        kinds = (
            ("PropagationPolicy", POLICY_REMOVAL_WAVE, f"{POLICY_API}/namespaces/{self.name}/propagationpolicies", mine.policies),
            ("ControllerRevision", LAST_WAVE, COLLECTION.format(self.name), mine.revisions),
        )
        for kind, wave, collection, live in kinds:
            for name, found in sorted(live.items()):
                if self._is_to_delete(found, workload):
                    steps.append(self._delete(wave, f"{kind} {self.name}/{name}", f"{collection}/{name}", found, why, item))
        return steps

    def _is_to_delete(self, found: Mapping[str, Any], workload: str) -> bool:
        return self.facts.owner(found) == workload and is_tenants(found, self.request) and not is_leaving(found)

    def _policy(self, target: Target, before: RolloutState | None, keys: set[TenantObject]) -> list[Step]:
        if not keys:
            return []
        name, state = target.workload.name, target.turn.state
        live = self.facts.policies.get(name)
        body = policy_body(self.request, target, keys, name=name, evicted=tuple(state.evicted))
        noted = state.to_text()
        if before == state and live is not None:
            noted = annotations_of(live).get(STATE_ANNOTATION, noted)
        body["metadata"]["annotations"] = {**body["metadata"]["annotations"], STATE_ANNOTATION: noted}
        if is_as(body, live) and mapping(live, "spec", "suspension") == mapping(body, "spec", "suspension"):
            return []
        path = f"{POLICY_API}/namespaces/{self.name}/propagationpolicies/{name}"
        why = f"FleetWorkload {name}: {target.turn.message}"
        return [self._apply(POLICY_WAVE, f"PropagationPolicy {self.name}/{name}", path, body, live, why, item_of(name))]

    def _service_policy(self, target: Target, keys: set[TenantObject]) -> list[Step]:
        """Return the write of the policy that brings a global Service to every cluster of the fleet, or its deletion.

        Clients in a cluster reach a global service by the cluster's own Service, also where none of its backends runs. And a workload that
        moves to a cluster would not replace a Service that was made there for clients: Karmada overwrites no object that it did not make.
        """
        name, everywhere = service_policy_name(target.workload.name), candidates(self.request, target.fleet, EVERYWHERE)
        because = "a global Service is in every cluster of the fleet"
        return self._further_policy(target, name, keys, everywhere, because, gone="its Service is not global")

    def _beside_policy(self, target: Target, keys: set[TenantObject]) -> list[Step]:
        """Return the write of the policy that brings what is beside a workload to where Karmada's scheduler put the workload.

        The scheduler chooses for each object alone: a Deployment goes where there is room for its pods, and a ConfigMap, which needs none,
        where it goes by the order of names (Karmada: pkg/scheduler/core/spreadconstraint/select_clusters_by_cluster.go).
        """
        name = beside_policy_name(target.workload.name)
        homes = tuple(cluster for cluster in target.found.clusters if cluster.member in target.homes)
        if keys and not homes:
            return []  # it is not known yet, or not at present
        because = "what is beside it goes where it is"
        found = replace(target.found, clusters=homes, by_name=True)
        return self._further_policy(target, name, keys, found, because, gone="its clusters are known without the scheduler")

    def _further_policy(
        self, target: Target, name: str, keys: set[TenantObject], found: Candidates, because: str, *, gone: str
    ) -> list[Step]:
        """Return the write of a policy beside the one of the workload, or its deletion if it has nothing to bring."""
        workload, item = target.workload.name, item_of(target.workload.name)
        live, path = self.facts.policies.get(name), f"{POLICY_API}/namespaces/{self.name}/propagationpolicies/{name}"
        shown = f"PropagationPolicy {self.name}/{name}"
        if not keys:
            if live is None or not self._is_to_delete(live, workload):
                return []
            return [self._delete(POLICY_REMOVAL_WAVE, shown, path, live, f"FleetWorkload {workload}: {gone}", item)]
        body = policy_body(self.request, replace(target, policy=EVERYWHERE, found=found), keys, name=name, evicted=())
        if is_as(body, live) and mapping(live, "spec", "suspension") == mapping(body, "spec", "suspension"):
            return []
        return [self._apply(POLICY_WAVE, shown, path, body, live, f"FleetWorkload {workload}: {because}", item)]

    def _revision(self, workload: str, revision: Revision) -> Step:
        name = revision_name(workload, revision.number)
        return Step(
            wave=REVISION_WAVE,
            cluster=self.karmada,
            verb="create",
            object=f"ControllerRevision {self.name}/{name}",
            why=f"FleetWorkload {workload} has a new content, which can be returned to",
            item=item_of(workload),
            action=ApiWrite(
                method="create", path=COLLECTION.format(self.name), body=revision_body(self.request.tenant, workload, revision)
            ),
        )

    def _apply(
        self, wave: int, shown: str, path: str, body: Mapping[str, Any], live: Mapping[str, Any] | None, why: str, item: str = ""
    ) -> Step:
        metadata = dict(body["metadata"])
        if live is not None:  # refused if another run wrote in between
            metadata["resourceVersion"] = text(live, "metadata", "resourceVersion")
            metadata["uid"] = text(live, "metadata", "uid")
        verb = "create" if live is None else "patch"
        action = ApiWrite(method="apply", path=path, body={**body, "metadata": metadata})
        return Step(wave=wave, cluster=self.karmada, verb=verb, object=shown, why=why, item=item, action=action)

    def _delete(self, wave: int, shown: str, path: str, live: Mapping[str, Any], why: str, item: str = "") -> Step:
        action = ApiWrite(method="delete", path=path, body={"metadata": {"uid": text(live, "metadata", "uid")}})
        return Step(wave=wave, cluster=self.karmada, verb="delete", object=shown, why=why, item=item, action=action)

    def _shown(self, key: TenantObject) -> str:
        return f"{key.kind} {self.name}/{key.name}"


def is_global(workload: FleetWorkload) -> bool:
    """Return whether the Service of a workload is to be one Service in all clusters of a mesh."""
    return bool(workload.service and workload.service.get("global"))


def service_name(workload: str) -> str:
    """Return the name of the GlobalService that a workload asks for. No two workloads have one, and a tenant may have one of that name."""
    return f"fleet-{workload}"


def service_policy_name(workload: str) -> str:
    """Return the name of the policy of a global Service. No workload has a dot in its name, so it is no other workload's policy."""
    return f"{workload}.service"


def beside_policy_name(workload: str) -> str:
    """Return the name of the policy of what is beside a workload whose clusters Karmada's scheduler chooses."""
    return f"{workload}.beside"


def policies_of(workload: FleetWorkload, policy: PlacementPolicy) -> tuple[str, ...]:
    """Return the names of the PropagationPolicies that a workload has."""
    service = (service_policy_name(workload.name),) if is_global(workload) else ()
    return workload.name, *service, *((beside_policy_name(workload.name),) if policy.is_chosen_by_karmada else ())


def policy_body(
    request: FleetRequest, target: Target, keys: Collection[TenantObject], *, name: str, evicted: Collection[str]
) -> dict[str, Any]:
    """Return a PropagationPolicy of a workload, without the annotation of its state.

    :param keys: objects that it brings. Each is named: a selector without a name takes every object of the kind in the namespace.
    :param evicted: members that they have left.
    """
    namespace, state, workload = karmada_namespace(request.tenant), target.turn.state, target.workload
    spec: dict[str, Any] = {
        "resourceSelectors": [
            {"apiVersion": KINDS[key.kind].api_version, "kind": key.kind, "namespace": namespace, "name": key.name} for key in sorted(keys)
        ],
        "placement": placement_of(request, workload, target.fleet, target.policy, target.found, evicted),
        "conflictResolution": "Abort",
    }
    if state.suspended:
        spec["suspension"] = {"dispatchingOnClusters": {"clusterNames": list(state.suspended)}}
    metadata = {"name": name, "namespace": namespace, "labels": request.tenant.labels_of(workload.name)}
    return with_digest({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": metadata, "spec": spec})


def is_tenants(found: Mapping[str, Any], request: FleetRequest) -> bool:
    """Return whether an object was made for the tenant."""
    return request.tenant.labels.items() <= labels_of(found).items()


def is_leaving(found: Mapping[str, Any]) -> bool:
    """Return whether an object is being deleted."""
    return bool(text(found, "metadata", "deletionTimestamp"))


def is_as(body: Mapping[str, Any], live: Mapping[str, Any] | None) -> bool:
    """Return whether the live object has every field of the body, and was last written with no field more."""
    if live is None:
        return False
    digest = annotations_of(body).get(CONTENT_ANNOTATION)
    fields = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}  # elements of lists come without them
    return annotations_of(live).get(CONTENT_ANNOTATION) == digest and is_part(fields, live)
