# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Examples of the documentation of the Go provider, letter by letter, and what the operator and the engine make of them.

The files of tests/unit/operator/provider_examples are the examples as its documentation prints them, with every comment. ``CASES`` are the
meshes that they describe, and what their comments offer besides; ``REFUSED`` are those that are refused here, each with the reason.
``python -m tests.testing.provider_examples`` records what the cases compile to, for a reader to compare.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.record import RECORD_PREFIX
from tests.collection_path import CHECKOUT, link
from tests.testing.golden_files import PlainDumper

FOLDER: Final = CHECKOUT / "tests" / "unit" / "operator" / "provider_examples"
RECORDED: Final = FOLDER / "recorded"
WORKSPACE: Final = "2k5m8k3p1q7z"
# REUSE-IgnoreStart
HEADER: Final = (
    "# Copyright: Contributors to the edge_portal.cilium_mesh project\n"
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# `python -m tests.testing.provider_examples` writes this file anew.\n"
)
# REUSE-IgnoreEnd

Spec = dict[str, Any]
BINDING, SERVICE, INTENT = "overview-binding", "overview-global-service", "overview-intent"
_SIDES: Final = ("source", "destination")
_FRONTEND: Final = {"namespace": "production", "name": "frontend"}
_BACKEND: Final = {"namespace": "production", "name": "backend"}
_NGINX: Final = {"namespace": "production", "name": "nginx"}


class Case(NamedTuple):
    """One mesh. ``changes``: file -> fields of its spec that differ from the file; None takes a field away."""

    about: str
    files: tuple[str, ...]
    changes: Mapping[str, Mapping[str, Any]] = {}
    permitted: tuple[str, ...] = ()  # annotations that the platform permits


class Refusal(NamedTuple):
    """One example that is refused although the provider took it. ``by``: the API server, by the schema; or the engine alone."""

    about: str
    file: str
    changes: Mapping[str, Any]
    by: str
    words: str
    reason: str


CASES: Final = {
    "overview": Case("as printed", (BINDING, SERVICE, INTENT)),
    "walk-through": Case(
        "as printed", ("walk-through-clusters", "walk-through-binding", "walk-through-global-service", "walk-through-intent")
    ),
    # What comments of the examples offer
    "node-port": Case("serviceType: LoadBalancer or NodePort", (BINDING,), {BINDING: {"meshConfig": {"serviceType": "NodePort"}}}),
    "service-by-labels": Case(
        "OR use labelSelector",
        (BINDING, SERVICE),
        {SERVICE: {"selector": {"namespace": "production", "labelSelector": {"app": "frontend"}}}},
    ),
    "all-clusters": Case("targetClusters: empty = all", (BINDING, SERVICE), {SERVICE: {"targetClusters": []}}),
    "side-by-labels": Case(
        "OR selector", (BINDING, INTENT), {INTENT: {"source": {"namespace": "production", "selector": {"role": "web"}}}}
    ),
    "deny": Case("action: Allow or Deny", (BINDING, INTENT), {INTENT: {"action": "Deny"}}),
    "clusterwide": Case("policyMode: Namespaced or Clusterwide", (BINDING, INTENT), {INTENT: {"policyMode": "Clusterwide"}}),
    "probe": Case("probe.enabled", (BINDING, INTENT), {INTENT: {"probe": {"enabled": True, "intervalSeconds": 60}}}),
    # What the provider asks for at least, and what forms and clients written in Go send for a field that its user left out
    "namespaces-alone": Case(
        "the provider asks for the namespaces alone", (BINDING, INTENT), {INTENT: {side: {"namespace": "production"} for side in _SIDES}}
    ),
    "empty-values": Case(
        "empty lists and maps",
        (BINDING, SERVICE, INTENT),
        {
            BINDING: {"meshConfig": {}},
            SERVICE: {"selector": {**_NGINX, "labelSelector": {}}, "targetClusters": [], "globalAnnotations": {}},
            INTENT: {"source": {**_FRONTEND, "selector": {}}, "destination": {**_BACKEND, "selector": {}}, "ports": []},
        },
    ),
    "one-port-twice": Case(
        "the same port twice",
        (BINDING, INTENT),
        {INTENT: {"ports": [{"protocol": "TCP", "port": 8080}, {"protocol": "TCP", "port": 8080}]}},
    ),
    "name-and-labels": Case(
        "name and labelSelector", (BINDING, SERVICE), {SERVICE: {"selector": {**_NGINX, "labelSelector": {"app": "nginx"}}}}
    ),
    "keys-with-their-source": Case(
        "label keys as Cilium writes them",
        (BINDING, INTENT),
        {INTENT: {"source": {"namespace": "production", "selector": {"k8s:app": "frontend"}}}},
    ),
    "older-annotation": Case(
        "the annotation that the provider writes",
        (BINDING, SERVICE),
        {SERVICE: {"globalAnnotations": {"io.cilium/global-service": "true"}}},
    ),
    "permitted-annotation": Case(
        "extra annotations, which the platform permits",
        (BINDING, SERVICE),
        {SERVICE: {"globalAnnotations": {"service.cilium.io/shared": "true", "example.com/team": "shop"}}},
        ("example.com/team",),
    ),
    "service-of-the-guide": Case(
        "a Service that was annotated by hand",
        (BINDING, SERVICE),
        {SERVICE: {"selector": {"namespace": "default", "name": "nginx-deployment"}, "targetClusters": None, "globalAnnotations": None}},
    ),
}

REFUSED: Final = (
    Refusal(
        "an annotation that the platform does not permit",
        SERVICE,
        {"globalAnnotations": {"example.com/team": "shop"}},
        "engine",
        "CM-GS-23",
        "an annotation can change how, and for which clients, a Service is served; a tenant must not permit itself that (decision 0052)",
    ),
    Refusal(
        "a GlobalService that says it is not global",
        SERVICE,
        {"globalAnnotations": {"io.cilium/global-service": "false"}},
        "schema",
        "can be true alone",
        "it contradicts the kind; deleting the GlobalService is how a Service stops being global",
    ),
    Refusal(
        "a GlobalService with a namespace alone",
        SERVICE,
        {"selector": {"namespace": "production"}},
        "schema",
        "would match every Service",
        "it would offer every Service of the namespace to all clusters, those that are added later too",
    ),
    Refusal(
        "a side with name and selector",
        INTENT,
        {"source": {**_FRONTEND, "selector": {"role": "web"}}},
        "schema",
        "keep either",
        "the provider documents them as alternatives and not which of two counts; a Deny that selects fewer pods than before protects less",
    ),
    Refusal(
        "a label that Cilium sets itself",
        INTENT,
        {"source": {"namespace": "production", "selector": {"io.kubernetes.pod.namespace": "kube-system"}}},
        "schema",
        "that Cilium sets itself",
        "it would reach into another namespace or cluster than the side names",
    ),
    Refusal(
        "a label of another source",
        INTENT,
        {"source": {"namespace": "production", "selector": {"reserved:host": ""}}},
        "schema",
        "key of a label",
        "no pod has it: it would select nodes, or the world",
    ),
    Refusal(
        "a clusterwide intent without a namespace",
        INTENT,
        {"policyMode": "Clusterwide", "destination": {"name": "backend"}},
        "schema",
        "allNamespaces: true",
        "an omission must not mean every namespace; allNamespaces: true says so",
    ),
    Refusal(
        "a probe more often than every ten seconds",
        INTENT,
        {"probe": {"enabled": True, "intervalSeconds": 5}},
        "schema",
        "10",
        "a probe is real work here: it asks agents, or makes a Job",
    ),
    Refusal(
        "a cluster that is called like a group of an inventory",
        BINDING,
        {"clusterRefs": [{"name": "cluster-ffm-1"}, {"name": "localhost"}]},
        "schema",
        "mean something else in an inventory",
        "the names of clusters are hosts of an Ansible inventory",
    ),
)


def text_of(name: str) -> str:
    """Return one file as it is."""
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def documents(name: str) -> list[Spec]:
    """Return the documents of one file."""
    return [dict(load_yaml(part)) for part in text_of(name).split("\n---\n")]


def changed(name: str, changes: Mapping[str, Any]) -> Spec:
    """Return the one object of a file with other fields in its spec."""
    (found,) = copy.deepcopy(documents(name))
    found["spec"] = {key: value for key, value in {**found["spec"], **changes}.items() if value is not None}
    return found


def objects(case: Case) -> list[Spec]:
    """Return the objects of a case that are kinds of this project."""
    return [changed(name, case.changes.get(name, {})) for name in case.files if not name.endswith("-clusters")]


def request(found: list[Spec], clusters: list[Spec], permitted: tuple[str, ...]) -> Any:
    """Return what the operator asks a play for, from the objects of a workspace and what the platform has of its clusters."""
    from mesh_operator.base.keys import CLUSTER_ANNOTATION, MeshKey, ObjectKey
    from mesh_operator.meshes.request import request_of
    from mesh_operator.source.stored import MeshObjects, Stored

    def stored(obj: Spec) -> Stored:
        metadata = {**obj["metadata"], "annotations": {CLUSTER_ANNOTATION: WORKSPACE}, "generation": 1}
        key = ObjectKey(obj["kind"], WORKSPACE, metadata["namespace"], metadata["name"])
        return Stored(key, {**obj, "metadata": metadata}, "https://kcp/services/x", None)

    binding, *items = [stored(obj) for obj in found]
    by_kind = {kind: tuple(item for item in items if item.key.kind == kind) for kind in ("GlobalService", "ConnectivityIntent")}
    key = MeshKey(WORKSPACE, binding.key.namespace, binding.key.name)
    refs = [ref["name"] for ref in binding.obj["spec"]["clusterRefs"]]
    usable = {name: _usable(name, clusters, permitted) for name in refs}
    return request_of(MeshObjects(key=key, listed=True, binding=binding, items=by_kind), usable, None)


def _usable(name: str, clusters: list[Spec], permitted: tuple[str, ...]) -> Any:
    """Return the cluster as the operator finds it on a management plane whose Cluster has the capability of the example."""
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import WORKSPACE_LABEL
    from mesh_operator.base.keys import CLUSTER_ANNOTATION
    from mesh_operator.credentials.management_plane import (
        SealedKubeconfig,
        SecretRef,
        Usable,
        cluster_of,
        sealed_kubeconfig,
        secret_of,
    )

    (capability,) = documents("cluster-capability")
    status = {
        **capability["status"],
        "conditions": [{"type": "Ready", "status": "True"}],
        "kubeconfigSecretRef": {"name": "k", "key": "kubeconfig"},
    }
    cluster = {"metadata": {"name": name, "labels": {WORKSPACE_LABEL: WORKSPACE}}, "status": status}
    bare: Spec = {"metadata": {"name": name}}
    one = next((entry for entry in clusters if entry["metadata"]["name"] == name), bare)
    annotations = {**(one["metadata"].get("annotations") or {}), CLUSTER_ANNOTATION: WORKSPACE}
    found = cluster_of([cluster], WORKSPACE, "default", name)
    ref = secret_of(found, name) if isinstance(found, Mapping) else found
    assert isinstance(ref, SecretRef), ref
    secret = {"metadata": {"labels": {WORKSPACE_LABEL: WORKSPACE}}, "data": {"kubeconfig": "eA=="}}
    sealed = sealed_kubeconfig(name, {**one, "metadata": {**one["metadata"], "annotations": annotations}}, ref, secret)
    assert isinstance(sealed, SealedKubeconfig), sealed
    more = {"cilium_mesh_allowed_annotations": list(permitted)} if permitted else {}
    return Usable(name=name, kubeconfig={}, variables={**sealed.variables, **more})


class Outcome(NamedTuple):
    """What a mesh comes to. ``refused``: what the parser says against an item, and the findings that stop one."""

    hosts: Mapping[str, Any]
    variable: Mapping[str, Any]
    writes: list[dict[str, Any]]
    refused: list[str]


def outcome(case: Case) -> Outcome:
    """Return what the operator asks for, and what the play then writes for the items into clusters that have the Services."""
    clusters = [document for name in case.files if name.endswith("-clusters") for document in documents(name)]
    return outcome_of(objects(case), clusters, case.permitted)


def outcome_of(found: list[Spec], clusters: list[Spec], permitted: tuple[str, ...]) -> Outcome:
    """Return what comes of a binding, the first of the objects, and its items."""
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.kinds import ROWS
    from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
    from tests.testing.facts_builders import cluster_facts
    from tests.testing.traffic_builders import namespace_facts, scene, service, slice_facts, traffic

    asked = request(found, clusters, permitted)
    hosts = tuple(asked.hosts)
    mesh = parse(asked.cilium_mesh, hosts)
    desired = desired_of(asked.cilium_mesh, mesh)
    (guide,) = documents("two-cluster-guide-service")
    by_hand = guide["metadata"]
    services = [
        *(service(name) for name in ("nginx", "frontend")),
        service("my-service", namespace="default"),
        service(by_hand["name"], namespace="default", annotations=by_hand["annotations"], labels=by_hand["labels"]),
    ]
    spaces = [namespace_facts("default")]
    places = [traffic(host, services=services, namespaces=spaces, slices=(slice_facts(),)) for host in hosts]
    facts = {
        host: cluster_facts(host, allowed_annotations=tuple(given.get("cilium_mesh_allowed_annotations", ())))
        for host, given in asked.hosts.items()
    }
    world = replace(scene(*places, facts=facts), mesh=mesh)
    plans = [plan for kind in desired.kinds for plan in ROWS[kind].plan(desired, world)]
    stopped = [f"{finding.code}: {finding.summary}" for plan in plans for finding in plan.findings if finding.severity is Severity.BLOCKING]
    writes = sorted((_shown(step) for plan in plans for step in plan.steps), key=lambda step: (step["path"], step["cluster"]))
    refused = [text for entry in desired.refused for text in entry.problems]
    return Outcome(asked.hosts, asked.cilium_mesh, writes, [*stopped, *refused])


def _shown(step: Any) -> dict[str, Any]:
    return {"cluster": step.cluster, "method": step.action.method, "path": step.action.path, "body": _plain(step.action.body)}


def _plain(value: Any) -> Any:
    """Without versions of objects, which say nothing to a reader, and with the record of earlier values as data."""
    if isinstance(value, Mapping):
        found = {key: _plain(item) for key, item in value.items() if key not in ("uid", "resourceVersion")}
        return {key: json.loads(item) if key.startswith(RECORD_PREFIX) else item for key, item in found.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def recorded(name: str) -> str:
    """Return the text of the file that holds what the case comes to."""
    case = CASES[name]
    found = outcome(case)
    asked = {key: value for key, value in _plain(found.variable).items() if value != []}  # lists of other kinds
    body = {"about": case.about, "hosts": _plain(found.hosts), "cilium_mesh": asked, "writes": found.writes}
    return HEADER + yaml.dump(body, Dumper=PlainDumper, sort_keys=False, width=140)


if __name__ == "__main__":
    link()
    RECORDED.mkdir(exist_ok=True)
    for case_name in CASES:
        Path(RECORDED / f"{case_name}.yaml").write_text(recorded(case_name), encoding="utf-8")
