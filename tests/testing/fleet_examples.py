# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Objects of the kinds of fleets, right and wrong ones, with what the API server says of a wrong one.

``structure``: the structure alone shows what is wrong (base/structure.py refuses it, too); otherwise a CEL rule does, and ``says`` is a
part of its message.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.testing.crd_examples import GONE
from tests.testing.crd_schema import nodes, schemas
from tests.testing.empty_values import Pair, optional_in, pairs_of

KEEP_EMPTY: Final = frozenset({"emptyDir", "labelSelector", "valueFrom"})
"""Fields of pods where an empty mapping is not the same as none: a volume, a selector of all pods, and a value that comes from nowhere."""


class FleetExample(NamedTuple):
    """One spec. ``says``: part of the server's answer; "" when it takes the object."""

    kind: str
    about: str
    spec: dict[str, Any]
    says: str = ""
    structure: bool = False


_CONTAINER: Final = {"name": "web", "image": "registry.example.com/shop/web:1.2"}
BASES: Final[Mapping[str, dict[str, Any]]] = {
    "KubernetesCluster": {"providerRef": {"name": "kind"}},
    "Fleet": {"clusterRefs": [{"name": "ffm-1"}]},
    "PlacementPolicy": {"strategy": "FixedReplicas"},
    "FleetWorkload": {"fleetRef": {"name": "europe"}, "template": {"spec": {"containers": [_CONTAINER]}}},
    "FleetWorkloadRevision": {"workload": "x", "number": 1, "hash": "0" * 64, "snapshot": {"replicas": 1}},
}
"""The least of each kind. ClusterMetrics have no spec."""


def _pod(container: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A change of the FleetWorkload: fields of its pods, and of its container."""
    return {"template": {"spec": {"containers": [{**_CONTAINER, **(container or {})}], **fields}}}


_CAFE: Final = {"kind": "ConfigMap", "name": "cafe", "data": {"a.txt": "{{ x }}\n$(b)", "empty": ""}}
_PORTS: Final = [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "dns", "port": 80, "targetPort": 5353, "protocol": "UDP"}]
_PROBES: Final = {
    "livenessProbe": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP", "httpHeaders": [{"name": "X-A", "value": "b"}]}},
    "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 5, "failureThreshold": 3},
    "startupProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 0},
    "lifecycle": {"preStop": {"sleep": {"seconds": 5}}, "postStart": {"exec": {"command": ["sh", "-c", "echo {{ x }}"]}}},
}
_FIELD: Final = {"fieldPath": "metadata.name", "apiVersion": "v1"}
_ENV: Final = {
    "env": [
        {"name": "A", "value": "{{ not a template }}"},
        {"name": "EMPTY", "value": ""},
        {"name": "my.name", "valueFrom": {"fieldRef": _FIELD}},
        {"name": "_CPU", "valueFrom": {"resourceFieldRef": {"containerName": "web", "resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "cafe", "key": "a.txt", "optional": True}}},
        {"name": "C", "valueFrom": {"secretKeyRef": {"name": "cafe", "key": "..data"}}},
    ],
    "envFrom": [{"prefix": "X_", "configMapRef": {"name": "cafe"}}, {"secretRef": {"name": "cafe", "optional": False}}],
}
_SECURITY: Final = {
    "securityContext": {
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}
_ITEMS: Final = [{"key": "a", "path": "b/c", "mode": 256}]
_CLAIM: Final = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "fast",
    "volumeMode": "Block",
    "resources": {"requests": {"storage": "1Gi"}},
}
_VOLUMES: Final = [
    {"name": "a", "configMap": {"name": "cafe", "items": _ITEMS, "defaultMode": 420}},
    {"name": "b", "secret": {"secretName": "cafe", "items": _ITEMS, "optional": True}},
    {"name": "c", "emptyDir": {}},
    {"name": "d", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    {"name": "e", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
    {
        "name": "f",
        "projected": {"sources": [{"configMap": {"name": "cafe"}}, {"downwardAPI": {"items": [{"path": "n", "fieldRef": _FIELD}]}}]},
    },
    {"name": "g", "downwardAPI": {"items": [{"path": "n", "fieldRef": _FIELD, "mode": 256}]}},
    {"name": "h", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": _CLAIM}}},
]
_SPREAD: Final = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}

TAKEN: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "KubernetesCluster": [
        {},
        {"region": "eu-central-1", "zone": "ffm", "nodeCount": 5000, "version": "v1.34.2+k3s1", "labels": {"tier": "edge", "a.b/c": ""}},
        {"providerRef": GONE, "importedKubeconfigRef": {"name": "ffm-1", "key": "kubeconfig"}},
        {"importedKubeconfigRef": {"name": "ffm-1", "key": "value"}, "labels": {}},
        {"labels": {"notkarmada.io/x": "1", "karmada.io": "1", "k8s.io.example.com/a": "1"}},
    ],
    "Fleet": [
        {},
        {"clusterRefs": [{"name": "a.b"}, {"name": "c"}], "selector": {}},
        {"clusterRefs": GONE, "selector": {"matchLabels": {"tier": "edge", "example.com/x": ""}}},
        {"clusterRefs": [], "selector": {"matchExpressions": [{"key": "tier", "operator": "Exists", "values": []}]}},
        {"selector": {"matchExpressions": [{"key": "a/b", "operator": "NotIn", "values": ["x", ""]}]}},
    ],
    "PlacementPolicy": [
        {},
        {"strategy": "Weighted"},
        {"strategy": "Weighted", "weights": [{"cluster": "a", "weight": 1}, {"cluster": "b.c", "weight": 1000}]},
        {"strategy": "Spread", "weights": [], "spread": {"by": "region", "min": 2, "max": 2}},
        {"strategy": "Spread", "spread": {"by": "cluster"}},
        {"requirements": [{"key": "region", "operator": "In", "values": ["eu"]}, {"key": "tier", "operator": "DoesNotExist"}]},
        {"requireConnected": {"meshRef": {"name": "edge.mesh"}}, "migration": {}},
        {"migration": {"auto": True, "dwellSeconds": 10, "unhealthySeconds": 86400, "minAvailablePercent": 0, "maxEvictions": 255}},
    ],
    "FleetWorkload": [
        {},
        {"placementRef": {"name": "spread"}, "kind": "StatefulSet", "replicas": 0, "revisionHistoryLimit": 1},
        {"kind": "DaemonSet", "operation": {"type": "Restart", "id": "2026-11-24T10.00"}},
        {"operation": {"type": "Rollback", "id": "a", "toRevision": 3}},
        {"operation": {"type": "Evict", "id": "a", "clusterName": "b.c"}},
        {"rollout": {"waves": [{"clusters": ["a", "b.c"]}, {"clusters": ["d"]}], "pauseSeconds": 60, "paused": True}},
        {"rollout": {"waves": [], "batchSize": 3, "maxUnavailable": "25%", "progressDeadlineSeconds": 10}},
        {"rollout": {"maxUnavailable": 1}},
        {"service": {"ports": [{"port": 80}]}},
        {"service": {"ports": _PORTS, "type": "LoadBalancer", "global": True, "affinity": "Local", "meshRef": {"name": "m"}}},
        {
            "service": {
                "ports": [{"port": 80, "appProtocol": "kubernetes.io/h2c"}],
                "headless": True,
                "annotations": {"example.com/A": "{{ x }}"},
            }
        },
        {"resources": [_CAFE, {"kind": "ServiceAccount", "name": "web", "data": {}, "labels": {"app.kubernetes.io/name": "x"}}]},
        {
            "resources": [
                {"kind": "PersistentVolumeClaim", "name": "cafe", "spec": _CLAIM, "annotations": {"example.com/a": "b"}},
                {"kind": "PodDisruptionBudget", "name": "cafe", "spec": {"minAvailable": "50%", "selector": {"matchLabels": {}}}},
                {"kind": "NetworkPolicy", "name": "cafe", "spec": {"podSelector": {}, "ingress": [{}]}},
                {"kind": "Ingress", "name": "cafe", "spec": {}},
            ]
        },
        {"template": {"labels": {"app": "x"}, "annotations": {"example.com/A": "b\nc"}, "spec": {"containers": [_CONTAINER]}}},
        _pod({**_ENV, "command": ["sh"], "args": ["-c", "echo {{ x }}", ""], "workingDir": "/tmp", "imagePullPolicy": "Always"}),
        _pod({**_PROBES, "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}),
        _pod({"readinessProbe": {"grpc": {"port": 9000, "service": "x"}, "timeoutSeconds": 1, "successThreshold": 1}, "lifecycle": {}}),
        _pod({"startupProbe": {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 1}}),
        _pod({**_SECURITY, "resources": {"requests": {"cpu": 1, "memory": "1.5Gi"}, "limits": {"nvidia.com/gpu": "1"}}}),
        _pod({"securityContext": {"runAsGroup": 0}, "terminationMessagePath": "/m", "terminationMessagePolicy": "File"}),
        _pod(volumes=_VOLUMES),
        _pod({"volumeMounts": [{"name": "c", "mountPath": "/a", "subPath": "b", "readOnly": True}]}, volumes=_VOLUMES),
        _pod(
            initContainers=[
                {"name": "init", "image": "x", **_ENV, **_SECURITY},
                {**_PROBES, "name": "b", "image": "x", "restartPolicy": "Always"},
            ]
        ),
        _pod(
            serviceAccountName="web", automountServiceAccountToken=False, imagePullSecrets=[{"name": "a"}], terminationGracePeriodSeconds=0
        ),
        _pod(
            securityContext={"runAsNonRoot": True, "runAsUser": 1, "runAsGroup": 1, "fsGroup": 1, "fsGroupChangePolicy": "OnRootMismatch"}
        ),
        _pod(securityContext={"supplementalGroups": [1], "seccompProfile": {"type": "RuntimeDefault"}}),
        _pod(affinity={"podAntiAffinity": {"any": [{}]}}, nodeSelector={"kubernetes.io/os": "linux"}, priorityClassName="systems"),
        _pod(tolerations=[{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 0}]),
        _pod(topologySpreadConstraints=[{**_SPREAD, "labelSelector": {}, "matchLabelKeys": ["pod-template-hash"], "minDomains": 1}]),
        _pod(
            topologySpreadConstraints=[
                {
                    **_SPREAD,
                    "nodeAffinityPolicy": "Honor",
                    "nodeTaintsPolicy": "Ignore",
                    "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                }
            ]
        ),
        _pod(enableServiceLinks=False, shareProcessNamespace=True, dnsPolicy="None", hostAliases=[{"ip": "::1", "hostnames": ["a.b"]}]),
        _pod(
            dnsConfig={
                "nameservers": ["192.0.2.1"],
                "searches": ["a.b", "."],
                "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
            }
        ),
        _pod(volumes=[{"name": "x", "projected": {"sources": [{"secret": {"name": "s", "items": _ITEMS}}], "defaultMode": 0}}]),
        _pod(volumes=[{"name": "x", "downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {"resource": "limits.cpu"}}]}}]),
    ],
    "FleetWorkloadRevision": [{}, {"snapshot": {}}, {"snapshot": {"template": {"spec": {"containers": [_CONTAINER]}}}}],
}

_QUALIFIED: Final = "every key is the key of a"
_DOMAINS: Final = "no key has the domain"
REFUSED: Final[Mapping[str, Sequence[tuple[Mapping[str, Any], str]]]] = {
    "KubernetesCluster": [
        ({"providerRef": GONE}, "needs a providerRef, or an importedKubeconfigRef"),
        ({"labels": {"a b": "c"}}, _QUALIFIED),
        *(({"labels": {f"{domain}/a": "c"}}, _DOMAINS) for domain in ("karmada.io", "x.k8s.io", "kubernetes.io", "a.b.edge-portal.eu")),
        ({"labels": {"edge-connect.eu/source-workspace": "c"}}, _DOMAINS),
    ],
    "Fleet": [
        ({"clusterRefs": GONE}, "needs clusterRefs, or a selector that says something"),
        ({"clusterRefs": [], "selector": {"matchLabels": {}, "matchExpressions": []}}, "needs clusterRefs, or a selector"),
        ({"selector": {"matchLabels": {"/": ""}}}, _QUALIFIED),
        ({"selector": {"matchExpressions": [{"key": "-", "operator": "Exists"}]}}, "key is the key of a label"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "In and NotIn need values"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": []}]}}, "In and NotIn need values"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}, "have no values"),
    ],
    "PlacementPolicy": [
        ({"weights": [{"cluster": "a", "weight": 1}]}, "weights are for strategy Weighted"),
        ({"spread": {"by": "zone"}}, "spread is for strategy Spread"),
        ({"strategy": "Spread", "spread": {"by": "zone", "min": 3, "max": 2}}, "max is at least min"),
        *(
            ({"requirements": [{"key": key, "operator": "Exists"}]}, "take the operators In and NotIn only")
            for key in ("provider", "region", "zone")
        ),
        ({"requirements": [{"key": "tier", "operator": "In"}]}, "In and NotIn need values"),
        ({"requirements": [{"key": "tier", "operator": "DoesNotExist", "values": ["a"]}]}, "have no values"),
        ({"requirements": [{"key": "a b", "operator": "Exists"}]}, "or the key of a label"),
    ],
    "FleetWorkload": [
        ({"kind": "DaemonSet", "replicas": 1}, "replicas are not for kind DaemonSet"),
        ({"rollout": {"waves": [{"clusters": ["a"]}], "batchSize": 1}}, "waves and batchSize exclude each other"),
        ({"operation": {"type": "Rollback", "id": "a"}}, "a Rollback needs toRevision"),
        ({"operation": {"type": "Restart", "id": "a", "toRevision": 1}}, "toRevision is for type Rollback"),
        ({"operation": {"type": "Return", "id": "a"}}, "clusterName is for the types Evict and Return"),
        ({"operation": {"type": "Restart", "id": "a", "clusterName": "b"}}, "clusterName is for the types Evict and Return"),
        ({"service": {"ports": [{"port": 80}], "type": "NodePort", "headless": True}}, "headless is for type ClusterIP"),
        ({"service": {"ports": [{"port": 80}], "global": True}}, "global needs a meshRef"),
        ({"service": {"ports": [{"port": 80}, {"port": 81}]}}, "of several ports each has a name"),
        ({"service": {"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}]}}, "of several ports each has a name"),
        ({"service": {"ports": [{"port": 80}], "annotations": {"service.cilium.io/global": "true"}}}, "use global and affinity"),
        ({"service": {"ports": [{"port": 80}], "annotations": {"io.cilium/global-service": "true"}}}, "use global and affinity"),
        ({"service": {"ports": [{"port": 80}], "annotations": {"a b": ""}}}, _QUALIFIED),
        ({"service": {"ports": [{"port": 80}], "annotations": {"x.Karmada.io/a": ""}}}, _DOMAINS),
        ({"resources": [{"kind": "ServiceAccount", "name": "a", "data": {"a": "b"}}]}, "data is for kind ConfigMap"),
        ({"resources": [{**_CAFE, "spec": {}}]}, "spec is not for the kinds ConfigMap and ServiceAccount"),
        ({"resources": [{"kind": "Ingress", "name": "a"}]}, "needs a spec"),
        ({"resources": [{**_CAFE, "labels": {"namespace.karmada.io/skip-auto-propagation": "x"}}]}, _DOMAINS),
        ({"resources": [{**_CAFE, "labels": {"a b": "x"}}]}, _QUALIFIED),
        ({"resources": [{**_CAFE, "annotations": {"edge-connect.eu/source-name": "x"}}]}, _DOMAINS),
        ({"resources": [{**_CAFE, "annotations": {"a b": "x"}}]}, _QUALIFIED),
        ({"template": {"labels": {"karmada.io/a": ""}, "spec": {"containers": [_CONTAINER]}}}, _DOMAINS),
        ({"template": {"annotations": {"a.edge-portal.eu/a": ""}, "spec": {"containers": [_CONTAINER]}}}, _DOMAINS),
        (_pod(initContainers=[_CONTAINER]), "no container has the name of an initContainer"),
        (_pod({"env": [{"name": "A", "value": "b", "valueFrom": {"fieldRef": _FIELD}}]}), "has either a value or valueFrom"),
        (_pod({"env": [{"name": "A", "valueFrom": {}}]}), "needs one of fieldRef"),
        (_pod({"envFrom": [{}]}), "needs one of configMapRef and secretRef"),
        (_pod({"envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]}), "needs one of configMapRef and secretRef"),
        (_pod(volumes=[{"name": "a"}]), "needs one of configMap, secret, emptyDir"),
        (_pod(volumes=[{"name": "a", "emptyDir": {}, "secret": {"secretName": "a"}}]), "needs one of configMap, secret, emptyDir"),
        (_pod(volumes=[{"name": "a", "projected": {"sources": [{}]}}]), "needs one of configMap, secret and downwardAPI"),
        (_pod(volumes=[{"name": "a", "downwardAPI": {"items": [{"path": "a"}]}}]), "needs one of fieldRef and resourceFieldRef"),
        (_pod(priorityClassName="system-node-critical"), "is not one of the classes system-*"),
    ],
    "FleetWorkloadRevision": [
        ({"workload": "y"}, "the name is that of the workload"),
        ({"number": 11}, "the name is that of the workload"),
    ],
}
"""What a CEL rule refuses, and the part of its message."""

_UNKNOWN: Final = "unknown field"
MALFORMED: Final[Mapping[str, Sequence[tuple[Mapping[str, Any], str]]]] = {
    "KubernetesCluster": [
        ({"providerRef": {"name": "A"}}, "should match"),
        ({"providerRef": {"name": "a" * 64}}, "Too long"),
        ({"providerRef": {}}, "Required value"),
        ({"nodeCount": 0}, "greater than or equal to 1"),
        ({"nodeCount": 5001}, "less than or equal to 5000"),
        ({"version": "v" * 33}, "Too long"),
        ({"region": "a b"}, "should match"),
        ({"importedKubeconfigRef": {"name": "a"}}, "Required value"),
        ({"labels": {str(number): "" for number in range(33)}}, "at most 32"),
        ({"kubeconfig": "x"}, _UNKNOWN),
    ],
    "Fleet": [
        ({"clusterRefs": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
        ({"clusterRefs": [{"name": f"c{number}"} for number in range(256)]}, "Too many"),
        ({"clusterRefs": [{"name": "a_b"}]}, "should match"),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}, "Unsupported value"),
    ],
    "PlacementPolicy": [
        ({"strategy": GONE}, "Required value"),
        ({"strategy": "Divided"}, "Unsupported value"),
        ({"strategy": "Weighted", "weights": [{"cluster": "a", "weight": 0}]}, "greater than or equal to 1"),
        ({"strategy": "Weighted", "weights": [{"cluster": "a", "weight": 1}] * 2}, "Duplicate value"),
        ({"strategy": "Spread", "spread": {}}, "Required value"),
        ({"migration": {"dwellSeconds": 9}}, "greater than or equal to 10"),
        ({"requireConnected": {}}, "Required value"),
    ],
    "FleetWorkload": [
        ({"fleetRef": GONE}, "Required value"),
        ({"template": GONE}, "Required value"),
        ({"template": {"spec": {"containers": []}}}, "at least 1 items"),
        ({"kind": "Job"}, "Unsupported value"),
        ({"replicas": 100001}, "less than or equal to 100000"),
        ({"replicas": "3"}, "must be of type integer"),
        ({"revisionHistoryLimit": 51}, "less than or equal to 50"),
        ({"operation": {"type": "Restart", "id": "a b"}}, "should match"),
        ({"rollout": {"batchSize": 0}}, "greater than or equal to 1"),
        ({"rollout": {"maxUnavailable": "101%"}}, "should match"),
        ({"rollout": {"waves": [{"clusters": ["a", "a"]}]}}, "Duplicate value"),
        ({"service": {"ports": []}}, "at least 1 items"),
        ({"service": {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}}, _UNKNOWN),
        ({"service": {"ports": [{"port": 80, "nodePort": 30000}]}}, _UNKNOWN),
        ({"service": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]}}, "Duplicate value"),
        ({"resources": [{"kind": "Secret", "name": "a"}]}, "Unsupported value"),
        ({"resources": [{"kind": "ClusterRoleBinding", "name": "a", "spec": {}}]}, "Unsupported value"),
        ({"resources": [_CAFE, _CAFE]}, "Duplicate value"),
        ({"resources": [{**_CAFE, "name": "a" * 53}]}, "Too long"),
        (_pod(hostNetwork=True), _UNKNOWN),
        (_pod(hostPID=True), _UNKNOWN),
        (_pod(hostIPC=True), _UNKNOWN),
        (_pod(nodeName="n"), _UNKNOWN),
        (_pod(schedulerName="s"), _UNKNOWN),
        (_pod(runtimeClassName="s"), _UNKNOWN),
        (_pod(ephemeralContainers=[]), _UNKNOWN),
        (_pod(securityContext={"sysctls": []}), _UNKNOWN),
        (_pod(securityContext={"seccompProfile": {"type": "Unconfined"}}), "Unsupported value"),
        (_pod(dnsPolicy="ClusterFirstWithHostNet"), "Unsupported value"),
        *(
            (_pod(volumes=[{"name": "a", source: {}, "emptyDir": {}}]), _UNKNOWN)
            for source in ("hostPath", "nfs", "csi", "iscsi", "azureFile", "image", "gitRepo", "rbd")
        ),
        (_pod(volumes=[{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "a"}}]}}]), _UNKNOWN),
        (_pod(volumes=[{"name": "a", "emptyDir": {"sizeLimit": "-1Gi"}}]), "should match"),
        (_pod(volumes=[{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]), "Duplicate value"),
        (_pod(initContainers=[{"name": "a", "image": "b", "restartPolicy": "Never"}]), "Unsupported value"),
        (_pod({"image": GONE}), "Required value"),
        (_pod({"image": "a b"}), "should match"),
        (_pod({"restartPolicy": "Always"}), _UNKNOWN),
        (_pod({"ports": [{"containerPort": 80, "hostPort": 80}]}), _UNKNOWN),
        (_pod({"ports": [{"containerPort": 80, "hostIP": "0.0.0.0"}]}), _UNKNOWN),
        (_pod({"livenessProbe": {"httpGet": {"port": 80, "host": "a"}}}), _UNKNOWN),
        (_pod({"livenessProbe": {"tcpSocket": {"port": 80, "host": "a"}}}), _UNKNOWN),
        (_pod({"lifecycle": {"preStop": {"httpGet": {"port": 80, "host": "169.254.169.254"}}}}), _UNKNOWN),
        (_pod({"securityContext": {"privileged": True}}), _UNKNOWN),
        (_pod({"securityContext": {"procMount": "Unmasked"}}), _UNKNOWN),
        (_pod({"securityContext": {"allowPrivilegeEscalation": True}}), "Unsupported value"),
        (_pod({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}), "Unsupported value"),
        (_pod({"env": [{"name": "A=B"}]}), "should match"),
        (_pod({"env": [{"name": "A"}, {"name": "A"}]}), "Duplicate value"),
        (_pod({"volumeMounts": [{"name": "a", "mountPath": "/a", "mountPropagation": "Bidirectional"}]}), _UNKNOWN),
        (_pod({"volumeDevices": []}), _UNKNOWN),
        (_pod({"resources": {"limits": {"cpu": "much"}}}), "should match"),
        (_pod({"resources": {"limits": {"cpu": 0.5}}}), "must be of type"),
        (_pod({"resources": {"claims": []}}), _UNKNOWN),
    ],
    "FleetWorkloadRevision": [
        ({"number": 0}, "greater than or equal to 1"),
        ({"hash": "A" * 64}, "should match"),
        ({"snapshot": GONE}, "Required value"),
        ({"snapshot": []}, "must be of type object"),
    ],
}
"""What the structure shows to be wrong."""


def fleet_examples() -> Iterator[FleetExample]:
    """All of them, with what they are about."""
    for kind, changes in TAKEN.items():
        for number, change in enumerate(changes):
            yield FleetExample(kind, f"right {number}: {sorted(change)}", changed(kind, change))
    for about, structure, wrong in (("wrong", False, REFUSED), ("malformed", True, MALFORMED)):
        for kind, found in wrong.items():
            for number, (change, says) in enumerate(found):
                yield FleetExample(kind, f"{about} {number}: {says}", changed(kind, change), says, structure)


def empty_pairs(kind: str) -> Iterator[tuple[Pair, bool]]:
    """A pair for every optional list and mapping of a kind, and whether the empty value says something there.

    It does where the mapping needs a field or a list an entry, where any fields are allowed, and where KEEP_EMPTY says so.
    """
    spec = schemas("fleet")[kind]["properties"]["spec"]
    known, fields = dict(nodes(spec)), optional_in(spec)
    seen: set[str] = set()
    for example in fleet_examples():
        if example.kind == kind and not example.says:
            for pair in pairs_of(kind, example.spec, {path: empty for path, empty in fields.items() if path not in seen}):
                seen.add(pair.path)
                node = known[pair.path]
                needs = node.get("required") or node.get("minItems") or "x-kubernetes-preserve-unknown-fields" in node
                yield pair, bool(needs) or pair.path.rpartition(".")[2] in KEEP_EMPTY


def name_of(kind: str) -> str:
    """A name that the kind takes."""
    return "x-r1" if kind == "FleetWorkloadRevision" else "x"


def changed(kind: str, change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the least of a kind with other fields; GONE leaves one out, at any depth."""
    found: dict[str, Any] = _without_gone({**copy.deepcopy(BASES[kind]), **change})
    return found


def _without_gone(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_gone(entry) for key, entry in value.items() if entry is not GONE}
    return [_without_gone(entry) for entry in value] if isinstance(value, list) else value
