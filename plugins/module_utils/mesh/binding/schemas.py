# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The structure of the specs, made of the CRDs by ``python -m tests.testing.kind_schemas --write``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_REASON: Final = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z0-9À-ɏ][-A-Za-z0-9À-ɏ .,:;()/#_@+=?]*$"}
_UNTIL: Final = {
    "type": "string",
    "maxLength": 64,
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$",
}
_REPAIR: Final = {
    "type": "object",
    "properties": {"reason": _REASON, "until": _UNTIL},
}
_NAMESPACE: Final = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"}
_ADDITIONAL_PROPERTIES: Final = {"type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"}
_SELECTOR: Final = {"type": "object", "additionalProperties": _ADDITIONAL_PROPERTIES}
_OPERATOR: Final = {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]}
_VALUES: Final = {"type": "array", "items": _ADDITIONAL_PROPERTIES}
_ITEMS: Final = {
    "type": "object",
    "required": ["key", "operator"],
    "properties": {"key": {"type": "string", "maxLength": 321}, "operator": _OPERATOR, "values": _VALUES},
}
_EXPRESSIONS: Final = {"type": "array", "items": _ITEMS}
_SOURCE: Final = {
    "type": "object",
    "properties": {
        "namespace": _NAMESPACE,
        "name": _NAME,
        "selector": _SELECTOR,
        "expressions": _EXPRESSIONS,
        "allPods": {"type": "boolean"},
        "allNamespaces": {"type": "boolean"},
        "clusters": {"type": "array", "items": {"type": "string"}},
    },
}
_GATEWAY_CLASS_NAME: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$",
}
SPECS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ClusterMeshBinding": {
        "type": "object",
        "properties": {
            "clusterRefs": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}},
                },
            },
            "topology": {
                "type": "object",
                "properties": {
                    "mode": {"type": "string", "enum": ["FullMesh", "HubAndSpoke", "Pairs"], "default": "FullMesh"},
                    "hubs": {"type": "array", "items": {"type": "string"}},
                    "pairs": {
                        "type": "array",
                        "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "string"}},
                    },
                },
            },
            "meshConfig": {
                "type": "object",
                "properties": {
                    "serviceType": {"type": "string", "enum": ["LoadBalancer", "NodePort"]},
                    "enableKvStoreMesh": {"type": "boolean"},
                    "hubble": {
                        "type": "object",
                        "properties": {"enabled": {"type": "boolean"}, "ui": {"type": "boolean"}},
                    },
                },
            },
            "trust": {"type": "string", "enum": ["SameCA", "Minted", "Copied"]},
            "nodeAddresses": {"type": "string", "enum": ["InternalIP", "ExternalIP"]},
            "accept": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["code", "reason", "until"],
                    "properties": {
                        "code": {"type": "string", "maxLength": 32, "pattern": "^CM-[A-Z]+-[0-9]{2}$"},
                        "reason": _REASON,
                        "until": _UNTIL,
                    },
                },
            },
            "takeBack": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["cluster", "reason", "until"],
                    "properties": {"cluster": {"type": "string"}, "reason": _REASON, "until": _UNTIL},
                },
            },
            "repair": _REPAIR,
            "adopt": _REPAIR,
        },
        "required": [],
    },
    "ConnectivityIntent": {
        "type": "object",
        "required": ["action", "destination"],
        "properties": {
            "action": {"type": "string", "enum": ["Allow", "Deny", "Isolate"]},
            "policyMode": {"type": "string", "enum": ["Namespaced", "Clusterwide"], "default": "Namespaced"},
            "source": _SOURCE,
            "destination": _SOURCE,
            "ports": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "protocol": {"type": "string", "enum": ["TCP", "UDP", "SCTP", "ANY", "ICMP", "ICMPv6"], "default": "TCP"},
                        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                        "endPort": {"type": "integer", "minimum": 1, "maximum": 65535},
                        "type": {"type": "integer", "minimum": 1, "maximum": 255},
                    },
                },
            },
            "probe": {
                "type": "object",
                "properties": {
                    "enabled": {"type": "boolean", "default": False},
                    "intervalSeconds": {"type": "integer", "default": 60, "minimum": 10, "maximum": 86400},
                    "method": {"type": "string", "enum": ["auto", "hubble", "job"], "default": "auto"},
                    "image": {"type": "string", "maxLength": 512},
                    "command": {"type": "array", "maxItems": 64, "items": {"type": "string", "minLength": 1, "maxLength": 512}},
                },
            },
        },
    },
    "ExposedService": {
        "type": "object",
        "required": ["service", "port", "class"],
        "properties": {
            "service": {
                "type": "object",
                "required": ["namespace", "name"],
                "properties": {"namespace": _NAMESPACE, "name": _NAMESPACE},
            },
            "port": {
                "type": "object",
                "properties": {
                    "number": {"type": "integer", "minimum": 1, "maximum": 65535},
                    "name": _NAMESPACE,
                    "protocol": {"type": "string", "enum": ["TCP", "UDP"]},
                },
            },
            "class": {"type": "string", "enum": ["LoadBalancer", "NodePort", "Gateway"]},
            "sourceRanges": {"type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 49}},
            "clusters": {
                "type": "object",
                "properties": {
                    "names": {"type": "array", "items": {"type": "string"}},
                    "primary": {"type": "string"},
                    "standby": {"type": "array", "items": {"type": "string"}},
                },
            },
            "hostname": {
                "type": "string",
                "maxLength": 253,
                "pattern": r"^(\*\.)?[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)+\.?$",
            },
            "tlsRef": {
                "type": "object",
                "properties": {"name": _GATEWAY_CLASS_NAME},
            },
            "gatewayClassName": _GATEWAY_CLASS_NAME,
            "allocateLoadBalancerNodePorts": {"type": "boolean"},
        },
    },
    "GlobalService": {
        "type": "object",
        "required": ["selector"],
        "properties": {
            "selector": {
                "type": "object",
                "required": ["namespace"],
                "properties": {"namespace": _NAMESPACE, "name": _NAMESPACE, "labelSelector": _SELECTOR},
            },
            "targetClusters": {"type": "array", "items": {"type": "string"}},
            "globalAnnotations": {
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 1024, "pattern": "^([A-Za-z0-9][-A-Za-z0-9._:/@=,+]*)?$"},
            },
            "shared": {"type": "boolean"},
            "affinity": {"type": "string", "enum": ["Local", "Remote", "None"]},
            "backend": {"type": "string", "enum": ["Annotations", "MCS"], "default": "Annotations"},
            "createMissingServices": {"type": "boolean", "default": False},
            "failover": {
                "type": "object",
                "properties": {
                    "detectWithin": {
                        "x-kubernetes-int-or-string": True,
                        "default": 60,
                        "minimum": 1,
                        "maximum": 86400,
                        "maxLength": 18,
                        "pattern": "^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$",
                        "type": "integer",
                    },
                    "minLocalReady": {"type": "integer", "default": 1, "minimum": 1, "maximum": 1000000},
                    "hysteresis": {"type": "integer", "default": 0, "minimum": 0, "maximum": 1000000},
                },
            },
        },
    },
}
