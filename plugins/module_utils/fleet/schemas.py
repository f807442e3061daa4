# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The structure of the specs, made of the CRDs by ``python -m tests.testing.kind_schemas --write``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_NAME: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$",
}
_ITEMS: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": _NAME},
}
_ADDITIONAL_PROPERTIES: Final = {"type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"}
_MATCH_LABELS: Final = {"type": "object", "maxProperties": 32, "additionalProperties": _ADDITIONAL_PROPERTIES}
_OPERATOR: Final = {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]}
_VALUES: Final = {"type": "array", "maxItems": 64, "items": _ADDITIONAL_PROPERTIES}
_ITEMS_2: Final = {
    "type": "object",
    "required": ["key", "operator"],
    "properties": {"key": {"type": "string", "minLength": 1, "maxLength": 317}, "operator": _OPERATOR, "values": _VALUES},
}
_MATCH_EXPRESSIONS: Final = {"type": "array", "maxItems": 16, "items": _ITEMS_2}
_NAME_2: Final = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
_FLEET_REF: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": _NAME_2},
}
_ANNOTATIONS: Final = {"type": "object", "maxProperties": 32, "additionalProperties": {"type": "string", "maxLength": 4096}}
_AFFINITY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_IMAGE: Final = {"type": "string", "minLength": 1, "maxLength": 512, "pattern": "^[A-Za-z0-9[][][A-Za-z0-9._:/@-]*$"}
_IMAGE_PULL_POLICY: Final = {"type": "string", "enum": ["Always", "IfNotPresent", "Never"]}
_COMMAND: Final = {"type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 32768}}
_NAME_3: Final = {"type": "string", "minLength": 1, "maxLength": 15, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_PROTOCOL: Final = {"type": "string", "enum": ["TCP", "UDP", "SCTP"], "default": "TCP"}
_ITEMS_3: Final = {
    "type": "object",
    "required": ["containerPort"],
    "properties": {"name": _NAME_3, "containerPort": {"type": "integer", "minimum": 1, "maximum": 65535}, "protocol": _PROTOCOL},
}
_PORTS: Final = {
    "type": "array",
    "maxItems": 64,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
    "items": _ITEMS_3,
}
_NAME_4: Final = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[-._A-Za-z][-._A-Za-z0-9]*$"}
_FIELD_REF: Final = {
    "type": "object",
    "required": ["fieldPath"],
    "properties": {"apiVersion": {"type": "string", "enum": ["v1"]}, "fieldPath": {"type": "string", "minLength": 1, "maxLength": 512}},
}
_DIVISOR: Final = {
    "x-kubernetes-int-or-string": True,
    "minimum": 0,
    "maximum": 1000000000000000,
    "maxLength": 32,
    "pattern": r"^[0-9]+(\.[0-9]*)?([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$",
    "type": "integer",
}
_RESOURCE_FIELD_REF: Final = {
    "type": "object",
    "required": ["resource"],
    "properties": {"containerName": _NAME_2, "resource": {"type": "string", "minLength": 1, "maxLength": 317}, "divisor": _DIVISOR},
}
_KEY: Final = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[-._A-Za-z0-9]+$"}
_CONFIG_MAP_KEY_REF: Final = {
    "type": "object",
    "required": ["name", "key"],
    "properties": {"name": _NAME, "key": _KEY, "optional": {"type": "boolean"}},
}
_VALUE_FROM: Final = {
    "type": "object",
    "keepEmpty": True,
    "properties": {
        "fieldRef": _FIELD_REF,
        "resourceFieldRef": _RESOURCE_FIELD_REF,
        "configMapKeyRef": _CONFIG_MAP_KEY_REF,
        "secretKeyRef": _CONFIG_MAP_KEY_REF,
    },
}
_ITEMS_4: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": _NAME_4, "value": {"type": "string", "maxLength": 32768}, "valueFrom": _VALUE_FROM},
}
_ENV: Final = {
    "type": "array",
    "maxItems": 256,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": _ITEMS_4,
}
_PREFIX: Final = {"type": "string", "maxLength": 253, "pattern": "^([-._A-Za-z][-._A-Za-z0-9]*)?$"}
_CONFIG_MAP_REF: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": _NAME, "optional": {"type": "boolean"}},
}
_ITEMS_5: Final = {
    "type": "object",
    "properties": {"prefix": _PREFIX, "configMapRef": _CONFIG_MAP_REF, "secretRef": _CONFIG_MAP_REF},
}
_ENV_FROM: Final = {"type": "array", "maxItems": 64, "items": _ITEMS_5}
_REQUESTS: Final = {"type": "object", "maxProperties": 16, "additionalProperties": _DIVISOR}
_RESOURCES: Final = {
    "type": "object",
    "properties": {"requests": _REQUESTS, "limits": _REQUESTS},
}
_ITEMS_6: Final = {
    "type": "object",
    "required": ["name", "mountPath"],
    "properties": {
        "name": _NAME_2,
        "mountPath": {"type": "string", "minLength": 1, "maxLength": 4096},
        "subPath": {"type": "string", "maxLength": 4096},
        "readOnly": {"type": "boolean"},
    },
}
_VOLUME_MOUNTS: Final = {
    "type": "array",
    "maxItems": 64,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["mountPath"],
    "items": _ITEMS_6,
}
_PORT: Final = {
    "x-kubernetes-int-or-string": True,
    "minimum": 1,
    "maximum": 65535,
    "maxLength": 15,
    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "type": "integer",
}
_NAME_5: Final = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[-A-Za-z0-9_]+$"}
_ITEMS_7: Final = {
    "type": "object",
    "required": ["name", "value"],
    "properties": {"name": _NAME_5, "value": {"type": "string", "maxLength": 4096}},
}
_HTTP_HEADERS: Final = {"type": "array", "maxItems": 32, "items": _ITEMS_7}
_HTTP_GET: Final = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "path": {"type": "string", "maxLength": 4096},
        "port": _PORT,
        "scheme": {"type": "string", "enum": ["HTTP", "HTTPS"]},
        "httpHeaders": _HTTP_HEADERS,
    },
}
_TCP_SOCKET: Final = {
    "type": "object",
    "required": ["port"],
    "properties": {"port": _PORT},
}
_EXEC: Final = {
    "type": "object",
    "required": ["command"],
    "properties": {"command": _COMMAND},
}
_GRPC: Final = {
    "type": "object",
    "required": ["port"],
    "properties": {"port": {"type": "integer", "minimum": 1, "maximum": 65535}, "service": {"type": "string", "maxLength": 253}},
}
_LIVENESS_PROBE: Final = {
    "type": "object",
    "properties": {
        "httpGet": _HTTP_GET,
        "tcpSocket": _TCP_SOCKET,
        "exec": _EXEC,
        "grpc": _GRPC,
        "initialDelaySeconds": {"type": "integer", "minimum": 0, "maximum": 86400},
        "timeoutSeconds": {"type": "integer", "minimum": 1, "maximum": 86400},
        "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 86400},
        "successThreshold": {"type": "integer", "minimum": 1, "maximum": 10000},
        "failureThreshold": {"type": "integer", "minimum": 1, "maximum": 10000},
        "terminationGracePeriodSeconds": {"type": "integer", "minimum": 1, "maximum": 86400},
    },
}
_SLEEP: Final = {
    "type": "object",
    "required": ["seconds"],
    "properties": {"seconds": {"type": "integer", "minimum": 0, "maximum": 86400}},
}
_PRE_STOP: Final = {
    "type": "object",
    "properties": {"exec": _EXEC, "sleep": _SLEEP},
}
_POST_START: Final = {
    "type": "object",
    "properties": {"exec": _EXEC},
}
_LIFECYCLE: Final = {
    "type": "object",
    "properties": {"preStop": _PRE_STOP, "postStart": _POST_START},
}
_ITEMS_8: Final = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Z_]+$"}
_DROP: Final = {"type": "array", "maxItems": 64, "items": _ITEMS_8}
_ADD: Final = {"type": "array", "maxItems": 1, "items": {"type": "string", "enum": ["NET_BIND_SERVICE"]}}
_CAPABILITIES: Final = {
    "type": "object",
    "properties": {"drop": _DROP, "add": _ADD},
}
_SECCOMP_PROFILE: Final = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string", "enum": ["RuntimeDefault"]}},
}
_SECURITY_CONTEXT: Final = {
    "type": "object",
    "properties": {
        "runAsUser": {"type": "integer", "minimum": 0, "maximum": 2147483647},
        "runAsGroup": {"type": "integer", "minimum": 0, "maximum": 2147483647},
        "runAsNonRoot": {"type": "boolean"},
        "readOnlyRootFilesystem": {"type": "boolean"},
        "allowPrivilegeEscalation": {"type": "boolean", "enum": [False]},
        "capabilities": _CAPABILITIES,
        "seccompProfile": _SECCOMP_PROFILE,
    },
}
_TERMINATION_MESSAGE_POLICY: Final = {"type": "string", "enum": ["File", "FallbackToLogsOnError"]}
_ITEMS_10: Final = {
    "type": "object",
    "required": ["key", "path"],
    "properties": {
        "key": _KEY,
        "path": {"type": "string", "minLength": 1, "maxLength": 4096},
        "mode": {"type": "integer", "minimum": 0, "maximum": 511},
    },
}
_ITEMS_9: Final = {"type": "array", "maxItems": 256, "items": _ITEMS_10}
_CONFIG_MAP: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": _NAME, "items": _ITEMS_9, "optional": {"type": "boolean"}},
}
_ITEMS_12: Final = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 4096},
        "fieldRef": _FIELD_REF,
        "resourceFieldRef": _RESOURCE_FIELD_REF,
        "mode": {"type": "integer", "minimum": 0, "maximum": 511},
    },
}
_ITEMS_11: Final = {"type": "array", "minItems": 1, "maxItems": 64, "items": _ITEMS_12}
_ITEMS_13: Final = {"type": "string", "minLength": 1, "maxLength": 45, "pattern": "^[0-9A-Fa-f.:]+$"}
_NAME_6: Final = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[A-Za-z0-9][-A-Za-z0-9_.+]*$"}
_REGION: Final = {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"}
_MIN: Final = {"type": "integer", "default": 1, "minimum": 1, "maximum": 255}
_DWELL_SECONDS: Final = {"type": "integer", "default": 300, "minimum": 10, "maximum": 86400}
SPECS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Fleet": {
        "type": "object",
        "properties": {
            "clusterRefs": {
                "type": "array",
                "maxItems": 255,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": _ITEMS,
            },
            "selector": {
                "type": "object",
                "properties": {"matchLabels": _MATCH_LABELS, "matchExpressions": _MATCH_EXPRESSIONS},
            },
        },
    },
    "FleetWorkload": {
        "type": "object",
        "required": ["fleetRef", "template"],
        "properties": {
            "fleetRef": _FLEET_REF,
            "placementRef": _FLEET_REF,
            "kind": {"type": "string", "enum": ["Deployment", "StatefulSet", "DaemonSet"], "default": "Deployment"},
            "replicas": {"type": "integer", "minimum": 0, "maximum": 100000},
            "template": {
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "labels": _MATCH_LABELS,
                    "annotations": _ANNOTATIONS,
                    "spec": {
                        "type": "object",
                        "required": ["containers"],
                        "properties": {
                            "containers": {
                                "type": "array",
                                "minItems": 1,
                                "maxItems": 32,
                                "x-kubernetes-list-type": "map",
                                "x-kubernetes-list-map-keys": ["name"],
                                "items": {
                                    "type": "object",
                                    "required": ["name", "image"],
                                    "properties": {
                                        "name": _NAME_2,
                                        "image": _IMAGE,
                                        "imagePullPolicy": _IMAGE_PULL_POLICY,
                                        "command": _COMMAND,
                                        "args": _COMMAND,
                                        "workingDir": {"type": "string", "maxLength": 4096},
                                        "ports": _PORTS,
                                        "env": _ENV,
                                        "envFrom": _ENV_FROM,
                                        "resources": _RESOURCES,
                                        "volumeMounts": _VOLUME_MOUNTS,
                                        "livenessProbe": _LIVENESS_PROBE,
                                        "readinessProbe": _LIVENESS_PROBE,
                                        "startupProbe": _LIVENESS_PROBE,
                                        "lifecycle": _LIFECYCLE,
                                        "securityContext": _SECURITY_CONTEXT,
                                        "terminationMessagePath": {"type": "string", "maxLength": 4096},
                                        "terminationMessagePolicy": _TERMINATION_MESSAGE_POLICY,
                                    },
                                },
                            },
                            "initContainers": {
                                "type": "array",
                                "maxItems": 32,
                                "x-kubernetes-list-type": "map",
                                "x-kubernetes-list-map-keys": ["name"],
                                "items": {
                                    "type": "object",
                                    "required": ["name", "image"],
                                    "properties": {
                                        "name": _NAME_2,
                                        "image": _IMAGE,
                                        "imagePullPolicy": _IMAGE_PULL_POLICY,
                                        "command": _COMMAND,
                                        "args": _COMMAND,
                                        "workingDir": {"type": "string", "maxLength": 4096},
                                        "ports": _PORTS,
                                        "env": _ENV,
                                        "envFrom": _ENV_FROM,
                                        "resources": _RESOURCES,
                                        "volumeMounts": _VOLUME_MOUNTS,
                                        "livenessProbe": _LIVENESS_PROBE,
                                        "readinessProbe": _LIVENESS_PROBE,
                                        "startupProbe": _LIVENESS_PROBE,
                                        "lifecycle": _LIFECYCLE,
                                        "securityContext": _SECURITY_CONTEXT,
                                        "restartPolicy": {"type": "string", "enum": ["Always"]},
                                        "terminationMessagePath": {"type": "string", "maxLength": 4096},
                                        "terminationMessagePolicy": _TERMINATION_MESSAGE_POLICY,
                                    },
                                },
                            },
                            "volumes": {
                                "type": "array",
                                "maxItems": 64,
                                "x-kubernetes-list-type": "map",
                                "x-kubernetes-list-map-keys": ["name"],
                                "items": {
                                    "type": "object",
                                    "required": ["name"],
                                    "properties": {
                                        "name": _NAME_2,
                                        "configMap": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": _NAME,
                                                "items": _ITEMS_9,
                                                "defaultMode": {"type": "integer", "minimum": 0, "maximum": 511},
                                                "optional": {"type": "boolean"},
                                            },
                                        },
                                        "secret": {
                                            "type": "object",
                                            "required": ["secretName"],
                                            "properties": {
                                                "secretName": _NAME,
                                                "items": _ITEMS_9,
                                                "defaultMode": {"type": "integer", "minimum": 0, "maximum": 511},
                                                "optional": {"type": "boolean"},
                                            },
                                        },
                                        "emptyDir": {
                                            "type": "object",
                                            "keepEmpty": True,
                                            "properties": {"medium": {"type": "string", "enum": ["", "Memory"]}, "sizeLimit": _DIVISOR},
                                        },
                                        "persistentVolumeClaim": {
                                            "type": "object",
                                            "required": ["claimName"],
                                            "properties": {"claimName": _NAME, "readOnly": {"type": "boolean"}},
                                        },
                                        "projected": {
                                            "type": "object",
                                            "required": ["sources"],
                                            "properties": {
                                                "sources": {
                                                    "type": "array",
                                                    "minItems": 1,
                                                    "maxItems": 32,
                                                    "items": {
                                                        "type": "object",
                                                        "properties": {
                                                            "configMap": _CONFIG_MAP,
                                                            "secret": _CONFIG_MAP,
                                                            "downwardAPI": {
                                                                "type": "object",
                                                                "required": ["items"],
                                                                "properties": {"items": _ITEMS_11},
                                                            },
                                                        },
                                                    },
                                                },
                                                "defaultMode": {"type": "integer", "minimum": 0, "maximum": 511},
                                            },
                                        },
                                        "downwardAPI": {
                                            "type": "object",
                                            "required": ["items"],
                                            "properties": {
                                                "items": _ITEMS_11,
                                                "defaultMode": {"type": "integer", "minimum": 0, "maximum": 511},
                                            },
                                        },
                                        "ephemeral": {
                                            "type": "object",
                                            "required": ["volumeClaimTemplate"],
                                            "properties": {
                                                "volumeClaimTemplate": {
                                                    "type": "object",
                                                    "required": ["spec"],
                                                    "properties": {
                                                        "metadata": {
                                                            "type": "object",
                                                            "properties": {"labels": _MATCH_LABELS},
                                                        },
                                                        "spec": {
                                                            "type": "object",
                                                            "required": ["accessModes", "resources"],
                                                            "properties": {
                                                                "accessModes": {
                                                                    "type": "array",
                                                                    "minItems": 1,
                                                                    "maxItems": 4,
                                                                    "items": {
                                                                        "type": "string",
                                                                        "enum": [
                                                                            "ReadWriteOnce",
                                                                            "ReadOnlyMany",
                                                                            "ReadWriteMany",
                                                                            "ReadWriteOncePod",
                                                                        ],
                                                                    },
                                                                },
                                                                "storageClassName": _NAME,
                                                                "volumeMode": {"type": "string", "enum": ["Filesystem", "Block"]},
                                                                "resources": _RESOURCES,
                                                            },
                                                        },
                                                    },
                                                },
                                            },
                                        },
                                    },
                                },
                            },
                            "serviceAccountName": _NAME,
                            "automountServiceAccountToken": {"type": "boolean"},
                            "imagePullSecrets": {
                                "type": "array",
                                "maxItems": 16,
                                "x-kubernetes-list-type": "map",
                                "x-kubernetes-list-map-keys": ["name"],
                                "items": _ITEMS,
                            },
                            "terminationGracePeriodSeconds": {"type": "integer", "minimum": 0, "maximum": 86400},
                            "securityContext": {
                                "type": "object",
                                "properties": {
                                    "runAsUser": {"type": "integer", "minimum": 0, "maximum": 2147483647},
                                    "runAsGroup": {"type": "integer", "minimum": 0, "maximum": 2147483647},
                                    "runAsNonRoot": {"type": "boolean"},
                                    "fsGroup": {"type": "integer", "minimum": 0, "maximum": 2147483647},
                                    "fsGroupChangePolicy": {"type": "string", "enum": ["OnRootMismatch", "Always"]},
                                    "supplementalGroups": {
                                        "type": "array",
                                        "maxItems": 32,
                                        "items": {"type": "integer", "minimum": 0, "maximum": 2147483647},
                                    },
                                    "seccompProfile": _SECCOMP_PROFILE,
                                },
                            },
                            "affinity": _AFFINITY,
                            "tolerations": {
                                "type": "array",
                                "maxItems": 32,
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "key": {"type": "string", "maxLength": 317},
                                        "operator": {"type": "string", "enum": ["Exists", "Equal"]},
                                        "value": _ADDITIONAL_PROPERTIES,
                                        "effect": {"type": "string", "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
                                        "tolerationSeconds": {"type": "integer", "minimum": 0, "maximum": 31536000},
                                    },
                                },
                            },
                            "topologySpreadConstraints": {
                                "type": "array",
                                "maxItems": 16,
                                "items": {
                                    "type": "object",
                                    "required": ["maxSkew", "topologyKey", "whenUnsatisfiable"],
                                    "properties": {
                                        "maxSkew": {"type": "integer", "minimum": 1, "maximum": 10000},
                                        "minDomains": {"type": "integer", "minimum": 1, "maximum": 10000},
                                        "topologyKey": {"type": "string", "minLength": 1, "maxLength": 317},
                                        "whenUnsatisfiable": {"type": "string", "enum": ["DoNotSchedule", "ScheduleAnyway"]},
                                        "nodeAffinityPolicy": {"type": "string", "enum": ["Honor", "Ignore"]},
                                        "nodeTaintsPolicy": {"type": "string", "enum": ["Honor", "Ignore"]},
                                        "matchLabelKeys": {"type": "array", "maxItems": 16, "items": {"type": "string", "maxLength": 317}},
                                        "labelSelector": {
                                            "type": "object",
                                            "keepEmpty": True,
                                            "properties": {
                                                "matchLabels": _MATCH_LABELS,
                                                "matchExpressions": {
                                                    "type": "array",
                                                    "maxItems": 16,
                                                    "items": {
                                                        "type": "object",
                                                        "required": ["key", "operator"],
                                                        "properties": {
                                                            "key": {"type": "string", "maxLength": 317},
                                                            "operator": _OPERATOR,
                                                            "values": _VALUES,
                                                        },
                                                    },
                                                },
                                            },
                                        },
                                    },
                                },
                            },
                            "nodeSelector": _MATCH_LABELS,
                            "priorityClassName": {
                                "type": "string",
                                "maxLength": 253,
                                "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$",
                            },
                            "enableServiceLinks": {"type": "boolean"},
                            "shareProcessNamespace": {"type": "boolean"},
                            "dnsPolicy": {"type": "string", "enum": ["ClusterFirst", "Default", "None"]},
                            "dnsConfig": {
                                "type": "object",
                                "properties": {
                                    "nameservers": {"type": "array", "maxItems": 3, "items": _ITEMS_13},
                                    "searches": {
                                        "type": "array",
                                        "maxItems": 32,
                                        "items": {
                                            "type": "string",
                                            "minLength": 1,
                                            "maxLength": 253,
                                            "pattern": "^[A-Za-z0-9_.]([-A-Za-z0-9_.]*[A-Za-z0-9_.])?$",
                                        },
                                    },
                                    "options": {
                                        "type": "array",
                                        "maxItems": 16,
                                        "items": {
                                            "type": "object",
                                            "properties": {"name": _NAME_6, "value": _NAME_6},
                                        },
                                    },
                                },
                            },
                            "hostAliases": {
                                "type": "array",
                                "maxItems": 64,
                                "x-kubernetes-list-type": "map",
                                "x-kubernetes-list-map-keys": ["ip"],
                                "items": {
                                    "type": "object",
                                    "required": ["ip"],
                                    "properties": {
                                        "ip": _ITEMS_13,
                                        "hostnames": {"type": "array", "maxItems": 64, "items": _NAME},
                                    },
                                },
                            },
                        },
                    },
                },
            },
            "service": {
                "type": "object",
                "required": ["ports"],
                "properties": {
                    "ports": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": 64,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "required": ["port"],
                            "properties": {
                                "name": _NAME_2,
                                "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                                "targetPort": _PORT,
                                "protocol": _PROTOCOL,
                                "appProtocol": {
                                    "type": "string",
                                    "minLength": 1,
                                    "maxLength": 317,
                                    "pattern": "^[A-Za-z0-9][-A-Za-z0-9_./]*$",
                                },
                            },
                        },
                    },
                    "type": {"type": "string", "enum": ["ClusterIP", "NodePort", "LoadBalancer"], "default": "ClusterIP"},
                    "headless": {"type": "boolean"},
                    "global": {"type": "boolean"},
                    "affinity": {"type": "string", "enum": ["Local", "Remote", "None"]},
                    "meshRef": _ITEMS,
                    "annotations": _ANNOTATIONS,
                },
            },
            "resources": {
                "type": "array",
                "maxItems": 32,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["kind", "name"],
                "items": {
                    "type": "object",
                    "required": ["kind", "name"],
                    "properties": {
                        "kind": {
                            "type": "string",
                            "enum": [
                                "ConfigMap",
                                "ServiceAccount",
                                "PersistentVolumeClaim",
                                "PodDisruptionBudget",
                                "NetworkPolicy",
                                "Ingress",
                            ],
                        },
                        "name": {"type": "string", "minLength": 1, "maxLength": 52, "pattern": "^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$"},
                        "labels": _MATCH_LABELS,
                        "annotations": _ANNOTATIONS,
                        "data": {"type": "object", "maxProperties": 256, "additionalProperties": {"type": "string", "maxLength": 262144}},
                        "spec": _AFFINITY,
                    },
                },
            },
            "rollout": {
                "type": "object",
                "properties": {
                    "waves": {
                        "type": "array",
                        "maxItems": 64,
                        "items": {
                            "type": "object",
                            "required": ["clusters"],
                            "properties": {
                                "clusters": {
                                    "type": "array",
                                    "minItems": 1,
                                    "maxItems": 255,
                                    "x-kubernetes-list-type": "set",
                                    "items": _NAME,
                                },
                            },
                        },
                    },
                    "batchSize": {"type": "integer", "minimum": 1, "maximum": 255},
                    "maxUnavailable": {
                        "x-kubernetes-int-or-string": True,
                        "minimum": 0,
                        "maximum": 100000,
                        "maxLength": 4,
                        "pattern": "^(100|[1-9]?[0-9])%$",
                        "type": "integer",
                    },
                    "pauseSeconds": {"type": "integer", "default": 0, "minimum": 0, "maximum": 86400},
                    "progressDeadlineSeconds": {"type": "integer", "default": 600, "minimum": 10, "maximum": 86400},
                    "paused": {"type": "boolean"},
                },
            },
            "revisionHistoryLimit": {"type": "integer", "default": 10, "minimum": 1, "maximum": 50},
            "operation": {
                "type": "object",
                "required": ["type", "id"],
                "properties": {
                    "type": {"type": "string", "enum": ["Restart", "Rollback", "Evict", "Return"]},
                    "id": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[A-Za-z0-9._-]+$"},
                    "toRevision": {"type": "integer", "minimum": 1, "maximum": 999999999},
                    "clusterName": _NAME,
                },
            },
        },
    },
    "KubernetesCluster": {
        "type": "object",
        "properties": {
            "providerRef": _FLEET_REF,
            "region": _REGION,
            "zone": _REGION,
            "nodeCount": {"type": "integer", "minimum": 1, "maximum": 5000},
            "version": {"type": "string", "minLength": 1, "maxLength": 32, "pattern": "^[A-Za-z0-9][-A-Za-z0-9_.+]*$"},
            "importedKubeconfigRef": {
                "type": "object",
                "required": ["name", "key"],
                "properties": {"name": _NAME, "key": _KEY},
            },
            "labels": _MATCH_LABELS,
        },
    },
    "PlacementPolicy": {
        "type": "object",
        "required": ["strategy"],
        "properties": {
            "requirements": _MATCH_EXPRESSIONS,
            "strategy": {"type": "string", "enum": ["Weighted", "Spread", "FixedReplicas"]},
            "weights": {
                "type": "array",
                "maxItems": 255,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["cluster"],
                "items": {
                    "type": "object",
                    "required": ["cluster", "weight"],
                    "properties": {"cluster": _NAME, "weight": {"type": "integer", "minimum": 1, "maximum": 1000}},
                },
            },
            "spread": {
                "type": "object",
                "required": ["by"],
                "properties": {
                    "by": {"type": "string", "enum": ["cluster", "region", "zone", "provider"]},
                    "min": _MIN,
                    "max": {"type": "integer", "minimum": 1, "maximum": 255},
                },
            },
            "requireConnected": {
                "type": "object",
                "required": ["meshRef"],
                "properties": {"meshRef": _ITEMS},
            },
            "migration": {
                "type": "object",
                "properties": {
                    "auto": {"type": "boolean", "default": False},
                    "dwellSeconds": _DWELL_SECONDS,
                    "unhealthySeconds": _DWELL_SECONDS,
                    "minAvailablePercent": {"type": "integer", "default": 50, "minimum": 0, "maximum": 100},
                    "maxEvictions": _MIN,
                },
            },
        },
    },
}
