# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""DaemonSet ``cilium`` and Deployment ``cilium-operator``: as much of them as the mesh is about."""

from __future__ import annotations

from typing import Any

from .apiserver import agent_sources, projected
from .config import cilium_config
from .objects import PART_OF, chart_labels, helm_object
from .options import Manifest, ProfileOptions
from .texts import host_aliases

AGENT_LABELS = {**PART_OF, "k8s-app": "cilium", "app.kubernetes.io/name": "cilium-agent"}
OPERATOR_SELECTOR = {"io.cilium/app": "operator", "name": "cilium-operator"}
OPERATOR_LABELS = {**PART_OF, **OPERATOR_SELECTOR, "app.kubernetes.io/name": "cilium-operator"}

_MESH_FOLDER = "/var/lib/cilium/clustermesh"
_MESH_ENV = {"name": "CILIUM_CLUSTERMESH_CONFIG", "value": f"{_MESH_FOLDER}/"}
_MESH_MOUNT = {"name": "clustermesh-secrets", "mountPath": _MESH_FOLDER, "readOnly": True}
_EVERYWHERE = [{"operator": "Exists"}]


def daemon_set(options: ProfileOptions) -> Manifest:
    """The agents."""
    container: dict[str, Any] = {
        "name": "cilium-agent",
        "image": f"quay.io/cilium/cilium:v{options.chart.patch}",
        "command": ["cilium-agent"],
        "args": ["--config-dir=/tmp/cilium/config-map"],
        "env": [_MESH_ENV],
        "volumeMounts": [_MESH_MOUNT],
    }
    if options.chart.health_ports:
        container["ports"] = [_host_port("health", 9879), _host_port("peer-service", 4244)]
    pod = _host_pod("cilium", container, [projected("clustermesh-secrets", agent_sources())])
    pod["terminationGracePeriodSeconds"] = 1
    if _aliases_on_host(options):
        pod["hostAliases"] = host_aliases(options.ordered_peers)
    template: dict[str, Any] = {"metadata": {"labels": {**AGENT_LABELS, **chart_labels(options)}}, "spec": pod}
    if options.chart.default_container:
        template["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "cilium-agent"}
    return {
        **helm_object(options, "apps/v1", "DaemonSet", "cilium", labels=AGENT_LABELS),
        "spec": {
            "selector": {"matchLabels": {"k8s-app": "cilium"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
            "template": template,
        },
    }


def operator(options: ProfileOptions) -> Manifest:
    """The operator with one replica: two would want two nodes, as its host ports clash."""
    container: dict[str, Any] = {
        "name": "cilium-operator",
        "image": f"quay.io/cilium/operator-generic:v{options.chart.patch}",
        "command": ["cilium-operator-generic"],
        "args": ["--config-dir=/tmp/cilium/config-map", "--debug=$(CILIUM_DEBUG)"],
        "env": [{"name": "CILIUM_DEBUG", "valueFrom": {"configMapKeyRef": {"name": "cilium-config", "key": "debug", "optional": True}}}],
        "ports": [*([_host_port("health", 9234)] if options.chart.health_ports else []), _host_port("prometheus", 9963)],
        "volumeMounts": [{"name": "cilium-config-path", "mountPath": "/tmp/cilium/config-map", "readOnly": True}],
    }
    volumes: list[dict[str, Any]] = [{"name": "cilium-config-path", "configMap": {"name": "cilium-config", "defaultMode": 0o644}}]
    joins = _operator_joins(options)
    if joins:
        container["env"].append(_MESH_ENV)
        container["volumeMounts"].append(_MESH_MOUNT)
        volumes.append(projected("clustermesh-secrets", agent_sources()))
    pod = _host_pod("cilium-operator", container, volumes)
    pod["terminationGracePeriodSeconds"] = 30
    if joins and _aliases_on_host(options):
        pod["hostAliases"] = host_aliases(options.ordered_peers)
    annotations = {"prometheus.io/port": "9963", "prometheus.io/scrape": "true"}
    return {
        **helm_object(options, "apps/v1", "Deployment", "cilium-operator", labels=OPERATOR_LABELS),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": OPERATOR_SELECTOR},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "100%"}},
            "template": {"metadata": {"labels": {**OPERATOR_LABELS, **chart_labels(options)}, "annotations": annotations}, "spec": pod},
        },
    }


def _host_pod(account: str, container: dict[str, Any], volumes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": account,
        "tolerations": _EVERYWHERE,
        "containers": [container],
        "volumes": volumes,
    }


def _aliases_on_host(options: ProfileOptions) -> bool:
    """Without kvstoremesh it is the agents who dial peers."""
    return options.config_enabled and not options.kvstoremesh and bool(options.peers)


def _operator_joins(options: ProfileOptions) -> bool:
    """The operator reads the mesh for EndpointSlice synchronisation and, from 1.17, for MCS-API."""
    config = cilium_config(options)
    mcs = config.get("clustermesh-enable-mcs-api") == "true" and options.version != "1.16"
    return mcs or config.get("clustermesh-enable-endpoint-sync") == "true"


def _host_port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number, "hostPort": number, "protocol": "TCP"}
