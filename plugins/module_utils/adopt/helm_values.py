# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Peers of a cluster as values of Cilium's chart, read back from the objects that name them. Pure.

Certificates are not put into text: where a peer has files of its own, the values need them, and a finding says where they are.
Source: chart values ``clustermesh.config.clusters``, templates/clustermesh-config/_helpers.tpl.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ..base.yaml_reader import load_yaml
from ..mesh.endpoints.etcd_config import keys_of
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts
from ..mesh.versions.minors import cilium_version, holds

ENABLED: Final = "clustermesh.config.enabled"
CLUSTERS: Final = "clustermesh.config.clusters"
_ENDPOINT = re.compile(r"https://(\[[^\]\s]+\]|[^\[\]:/\s]+):([0-9]{1,5})")


def remote_secret(cluster: ClusterFacts) -> PeerSecretFacts:
    """Return the Secret with which the peers are dialled directly."""
    return cluster.kvstoremesh if cluster.runs_kvstoremesh else cluster.clustermesh


def clusters_value(cluster: ClusterFacts, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return ``clustermesh.config.clusters`` in list form, for the peers ``names`` (inventory name -> cluster name) that are configured."""
    found = []
    for name in sorted(names.values()):
        facts = remote_secret(cluster).keys.get(name)
        if facts is not None and facts.config is not None:
            found.append({"name": name, **_address(cluster, facts.config)})
    return found


def own_files(cluster: ClusterFacts, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the cluster names of the peers that are dialled with files of their own: Helm drops these unless its values hold them."""
    keys = remote_secret(cluster).keys
    return tuple(sorted(name for name in names.values() if any(key in keys for key in keys_of(name)[1:])))


def assignments(cluster: ClusterFacts, value: list[dict[str, Any]]) -> tuple[str, tuple[str, ...]]:
    """Return ``clustermesh.config.enabled=true`` and the assignments of the peers, for ``--set`` of helm and of the cilium CLI.

    The CLI knows no ``--set-json``. A list in a ``--set`` replaces the one that the release has, a map is merged with it.
    """
    rows = []
    for number, row in enumerate(value):
        by_name = holds("clusters_as_map", cilium_version(cluster))
        place = f"{CLUSTERS}.{row['name']}" if by_name else f"{CLUSTERS}[{number}]"
        rows += [f"{place}.{key}={_set_value(text)}" for key, text in row.items() if key != "name" or not by_name]
    return f"{ENABLED}=true", tuple(rows)


def as_json(cluster: ClusterFacts, value: list[dict[str, Any]]) -> str:
    """Return the value of ``clustermesh.config.clusters`` as JSON, which YAML contains.

    Charts from 1.19 on take a map by name, and the ones after 1.20 nothing else.
    """
    listed: Any = value
    if holds("clusters_as_map", cilium_version(cluster)):
        listed = {row["name"]: {k: v for k, v in row.items() if k != "name"} for row in value}
    return json.dumps(listed, separators=(",", ":"))


def _set_value(value: Any) -> str:
    """Return a value as ``--set`` reads it: a list in braces, and commas escaped."""
    if isinstance(value, list):
        return "{" + ",".join(_set_value(entry) for entry in value) + "}"
    return str(value).replace("\\", "\\\\").replace(",", "\\,")


def _as_list(value: Any) -> list[Any]:
    """Return a list as it is, and [] for anything else, since the text may be anyone's."""
    return value if isinstance(value, list) else []


def _address(cluster: ClusterFacts, config: str) -> dict[str, Any]:
    """Return ``ips`` and ``port`` if addresses are known for the name that is dialled, else ``address`` and ``port``."""
    parsed = load_yaml(config)
    match = _ENDPOINT.match(str((_as_list(parsed.get("endpoints")) or [""])[0]))
    if match is None:
        return {}
    host, port = match[1].strip("[]"), int(match[2])
    aliases = {str(a.get("hostname")): a.get("ips") for a in _as_list(parsed.get("cilium-host-aliases")) if isinstance(a, Mapping)}
    workload = cluster.apiserver if cluster.runs_kvstoremesh else cluster.agent
    ips = [str(ip) for ip in _as_list(aliases.get(host))] or [
        a.ip for a in (workload.host_aliases if workload else ()) if host in a.hostnames
    ]
    return {"ips": ips, "port": port} if ips else {"address": host, "port": port}
