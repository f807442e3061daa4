# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Writes that a stolen credential, or a defect of this project, could send to Karmada's API, each with the hazard that it tries.

Rules of admission there refuse them (operator/deploy/karmada/deployer.yaml), whatever rights the user has. Bodies are right ones but
for what they try, so that nothing else refuses them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, karmada_namespace

POLICIES: Final = "/apis/policy.karmada.io/v1alpha1"
REFUSALS: Final = ("ValidatingAdmissionPolicy 'fleet-deployer-", "disallowed by cluster policy")
"""Words by which a refusal is known as that of a rule, or of the API server itself, which takes privileged pods by a flag alone."""

Body = dict[str, Any]


@dataclass(frozen=True)
class Attempt:
    """One write: a POST of ``body`` to ``path``, or with ``changes`` a merge patch of the object at ``path``.

    ``name`` says what it tries. ``by_right``: that Karmada's RBAC alone stands against it. No rule of admission sees a request that goes on
    to the API server of Clusters, and Kubernetes exempts the rules themselves.
    """

    name: str
    path: str
    body: Body
    changes: bool = False
    by_right: bool = False
    is_join: bool = False  # which the operator has the right to do


def attempts(tenant: Tenant, other: Tenant) -> Iterator[Attempt]:
    """Yield all attempts in the namespace of a tenant, which exists, some of them at another tenant's clusters."""
    yield from _places(tenant)
    yield from _kinds(tenant)
    yield from _keys(tenant)
    yield from _pods(tenant)
    yield from _claims(tenant)
    yield from _objects_that_take(tenant)
    yield from _policies(tenant, other)
    yield from _namespaces(tenant, other)


def right_objects(tenant: Tenant) -> Iterator[tuple[str, Body]]:
    """Yield the same objects without what is tried: path of the collection and body. They are taken, so the rules refuse nothing else."""
    for kind in ("configmaps", "services", "persistentvolumeclaims", "deployments", "propagationpolicies"):
        yield _collection(tenant, kind), _body(tenant, kind)


def _collection(tenant: Tenant, kind: str) -> str:
    groups = {"deployments": "/apis/apps/v1", "statefulsets": "/apis/apps/v1", "propagationpolicies": POLICIES}
    return f"{groups.get(kind, '/api/v1')}/namespaces/{karmada_namespace(tenant)}/{kind}"


def _body(tenant: Tenant, kind: str, **metadata: Any) -> Body:
    head = {"metadata": {"name": "attempt", "labels": dict(tenant.labels), **metadata}}
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    affinity = {"labelSelector": {"matchLabels": dict(tenant.labels)}}
    selected = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "attempt"}]
    room = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    bodies: dict[str, Body] = {
        "configmaps": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
        "services": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}},
        "persistentvolumeclaims": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": room},
        "deployments": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": pod},
        },
        "propagationpolicies": {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "spec": {"resourceSelectors": selected, "placement": {"clusterAffinity": affinity}},
        },
    }
    return {**copy.deepcopy(bodies[kind]), **copy.deepcopy(head)}


def _places(tenant: Tenant) -> Iterator[Attempt]:
    for namespace in ("default", "kube-system", "karmada-system", "edge-connect-system"):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "attempt", "labels": dict(tenant.labels)}}
        yield Attempt(f"an object in namespace {namespace}", f"/api/v1/namespaces/{namespace}/configmaps", body)


def _kinds(tenant: Tenant) -> Iterator[Attempt]:
    namespace, rbac = karmada_namespace(tenant), "rbac.authorization.k8s.io/v1"
    admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "User", "name": "attacker", "apiGroup": "rbac.authorization.k8s.io"}
    head = {"metadata": {"name": "attempt", "labels": dict(tenant.labels)}}
    plaintext = [{"path": "/metadata/namespace", "operator": "replace", "value": "kube-system"}]
    rules = {"overrideRules": [{"overriders": {"plaintext": plaintext}}]}
    own: Sequence[tuple[str, str, str, Body]] = (
        ("v1", "Secret", "secrets", {}),
        ("v1", "Pod", "pods", {"spec": {"containers": [{"name": "x", "image": "x"}]}}),
        (rbac, "Role", "roles", {"rules": []}),
        (rbac, "RoleBinding", "rolebindings", {"roleRef": admin, "subjects": [subject]}),
        (
            "batch/v1",
            "CronJob",
            "cronjobs",
            {
                "spec": {
                    "schedule": "* * * * *",
                    "jobTemplate": {
                        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x"}]}}}
                    },
                }
            },
        ),
        ("policy.karmada.io/v1alpha1", "OverridePolicy", "overridepolicies", {"spec": rules}),
        ("policy.karmada.io/v1alpha1", "FederatedResourceQuota", "federatedresourcequotas", {"spec": {"overall": {"cpu": "1"}}}),
        ("networking.karmada.io/v1alpha1", "MultiClusterService", "multiclusterservices", {"spec": {"types": ["CrossCluster"]}}),
    )
    for version, kind, plural, more in own:
        path = f"/api/v1/namespaces/{namespace}/{plural}" if version == "v1" else f"/apis/{version}/namespaces/{namespace}/{plural}"
        yield Attempt(f"a {kind}", path, {"apiVersion": version, "kind": kind, **copy.deepcopy(head), **more})
    webhook: Body = {"webhooks": []}
    wide: Sequence[tuple[str, str, str, Body]] = (
        (rbac, "ClusterRole", "clusterroles", {"rules": []}),
        (rbac, "ClusterRoleBinding", "clusterrolebindings", {"roleRef": admin, "subjects": [subject]}),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", webhook),
        ("policy.karmada.io/v1alpha1", "ClusterOverridePolicy", "clusteroverridepolicies", {"spec": rules}),
        (
            "policy.karmada.io/v1alpha1",
            "ClusterTaintPolicy",
            "clustertaintpolicies",
            {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}},
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", {"value": 1}),
    )
    for version, kind, plural, more in wide:
        yield Attempt(f"a {kind}", f"/apis/{version}/{plural}", {"apiVersion": version, "kind": kind, **copy.deepcopy(head), **more})
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    account = "/api/v1/namespaces/edge-connect-system/serviceaccounts/fleet-deployer/token"
    yield Attempt("a token of an account", account, token)
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/fleet-deployer-keys"
    yield Attempt("a change of these rules", path, {"metadata": {"labels": {"a": "b"}}}, changes=True, by_right=True)
    cluster = {"syncMode": "Push", "apiEndpoint": "https://192.0.2.1", "insecureSkipTLSVerification": True}
    body = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "attempt"}, "spec": cluster}
    yield Attempt("a Cluster at a foreign address", "/apis/cluster.karmada.io/v1alpha1/clusters", body, by_right=True, is_join=True)


KEYS: Final[Sequence[tuple[str, str, str]]] = (
    ("annotations", "work.karmada.io/conflict-resolution", "overwrite"),
    ("labels", "resourcetemplate.karmada.io/deletion-protected", "Always"),
    ("labels", "propagation.karmada.io/instruction", "suppressed"),
    ("annotations", "resourcetemplate.karmada.io/managed-annotations", "x"),
    ("annotations", "policy.karmada.io/applied-overrides", "x"),
    ("labels", "propagationpolicy.karmada.io/permanent-id", "of-another-policy"),
    ("labels", "clusterpropagationpolicy.karmada.io/permanent-id", "of-another-policy"),
    ("labels", "karmada.io/managed", "true"),
)


def _keys(tenant: Tenant) -> Iterator[Attempt]:
    for part, key, value in KEYS:
        labels = {**tenant.labels, key: value} if part == "labels" else dict(tenant.labels)
        more: Mapping[str, Any] = {"labels": labels, **({"annotations": {key: value}} if part == "annotations" else {})}
        yield Attempt(f"the {part[:-1]} {key}", _collection(tenant, "configmaps"), _body(tenant, "configmaps", **more))
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "0f0e0d0c-0b0a-4908-8706-050403020100"}
    yield Attempt("an owner", _collection(tenant, "configmaps"), _body(tenant, "configmaps", ownerReferences=[owner]))
    yield Attempt("a finalizer", _collection(tenant, "configmaps"), _body(tenant, "configmaps", finalizers=["example.com/forever"]))
    yield Attempt("labels of no tenant", _collection(tenant, "configmaps"), _body(tenant, "configmaps", labels={}))


def _pods(tenant: Tenant) -> Iterator[Attempt]:
    container = {"name": "x", "image": "x"}
    probe = {"httpGet": {"port": 80, "host": "169.254.169.254"}}
    token = {"sources": [{"serviceAccountToken": {"path": "t"}}]}
    fields: Mapping[str, Body] = {
        "hostNetwork": {"hostNetwork": True},
        "hostPID": {"hostPID": True},
        "hostIPC": {"hostIPC": True},
        "a node": {"nodeName": "n"},
        "a priority of the cluster": {"priorityClassName": "system-node-critical"},
        "hostPath": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        "a token": {"volumes": [{"name": "v", "projected": token}]},
        "a CSI volume": {"volumes": [{"name": "v", "csi": {"driver": "example.com"}}]},
        "sysctls": {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        "privileged": {"containers": [{**container, "securityContext": {"privileged": True}}]},
        "privileged init": {"initContainers": [{"name": "i", "image": "x", "securityContext": {"privileged": True}}]},
        "escalation": {"containers": [{**container, "securityContext": {"allowPrivilegeEscalation": True}}]},
        "a capability": {"containers": [{**container, "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
        "no seccomp": {"containers": [{**container, "securityContext": {"seccompProfile": {"type": "Unconfined"}}}]},
        "hostPort": {"containers": [{**container, "ports": [{"containerPort": 80, "hostPort": 80}]}]},
        "a probe of another address": {"containers": [{**container, "livenessProbe": probe}]},
    }
    for name, spec in fields.items():
        body = _body(tenant, "deployments")
        body["spec"]["template"]["spec"] |= spec
        yield Attempt(f"a pod with {name}", _collection(tenant, "deployments"), body)


def _claims(tenant: Tenant) -> Iterator[Attempt]:
    body = _body(tenant, "deployments") | {"kind": "StatefulSet"}
    claim = {"metadata": {"name": "v"}, "spec": {**_body(tenant, "persistentvolumeclaims")["spec"], "volumeName": "of-the-bank"}}
    body["spec"] |= {"serviceName": "x", "volumeClaimTemplates": [claim]}
    yield Attempt("a StatefulSet with a volume of others", _collection(tenant, "statefulsets"), body)


def _objects_that_take(tenant: Tenant) -> Iterator[Attempt]:
    fields: Sequence[tuple[str, str, Body]] = (
        ("services", "an address of others", {"externalIPs": ["192.0.2.1"]}),
        ("services", "a name of others", {"type": "ExternalName", "externalName": "example.com"}),
        ("persistentvolumeclaims", "a volume of others", {"volumeName": "of-the-bank"}),
        ("persistentvolumeclaims", "data of others", {"dataSource": {"kind": "PersistentVolumeClaim", "name": "of-the-bank"}}),
    )
    for kind, name, spec in fields:
        body = _body(tenant, kind)
        body["spec"] |= spec
        yield Attempt(f"{kind} with {name}", _collection(tenant, kind), body)


def _policies(tenant: Tenant, other: Tenant) -> Iterator[Attempt]:
    path, strange = _collection(tenant, "propagationpolicies"), {"labelSelector": {"matchLabels": dict(other.labels)}}
    own = {"labelSelector": {"matchLabels": dict(tenant.labels)}}
    for name, placement in (
        ("clusters by name alone", {"clusterAffinity": {"clusterNames": ["other"]}}),
        ("a selector without the workspace", {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "edge"}}}}),
        ("all clusters", {}),
        ("clusters of another tenant", {"clusterAffinity": strange}),
        ("a second affinity", {"clusterAffinities": [{"affinityName": "a", **own}, {"affinityName": "b", **strange}]}),
    ):
        body = _body(tenant, "propagationpolicies")
        body["spec"]["placement"] = placement
        yield Attempt(f"a policy for {name}", path, body)
    whole = _body(tenant, "propagationpolicies")
    whole["spec"]["resourceSelectors"] = [{"apiVersion": "v1", "kind": "ConfigMap"}]
    yield Attempt("a policy that selects without a name", path, whole)
    stolen = _body(tenant, "propagationpolicies", labels=dict(other.labels))
    stolen["spec"]["placement"]["clusterAffinity"] = strange
    yield Attempt("a policy with the labels of another tenant", path, stolen)
    for kind, name in (("Namespace", "kube-system"), ("ClusterRole", "cluster-admin")):
        selected = [{"apiVersion": "v1" if kind == "Namespace" else "rbac.authorization.k8s.io/v1", "kind": kind, "name": name}]
        body = _body(tenant, "propagationpolicies") | {"kind": "ClusterPropagationPolicy"}
        body["spec"]["resourceSelectors"] = selected
        yield Attempt(f"a ClusterPropagationPolicy for {kind} {name}", f"{POLICIES}/clusterpropagationpolicies", body)


def _namespaces(tenant: Tenant, other: Tenant) -> Iterator[Attempt]:
    skip, secure = {"namespace.karmada.io/skip-auto-propagation": "true"}, {"pod-security.kubernetes.io/enforce": "baseline"}
    unused = "kcp-0123456789abcdef"
    for name, namespace, labels in (
        ("of another name", "attempt", {**skip, **secure}),
        ("that comes to all members", unused, secure),
        ("without a Pod Security level", unused, skip),
        ("with a privileged Pod Security level", unused, {**skip, "pod-security.kubernetes.io/enforce": "privileged"}),
        ("that nothing can delete", unused, {**skip, **secure, "resourcetemplate.karmada.io/deletion-protected": "Always"}),
    ):
        metadata = {"name": namespace, "labels": {**tenant.labels, **labels}}
        yield Attempt(f"a namespace {name}", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    own = f"/api/v1/namespaces/{karmada_namespace(tenant)}"
    yield Attempt("a namespace given to another tenant", own, {"metadata": {"labels": dict(other.labels)}}, changes=True)
    yield Attempt("a namespace without its Pod Security level", own, {"metadata": {"labels": dict.fromkeys(secure)}}, changes=True)
