# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Condition ConfigMet of a binding: whether every member runs with the values of ``meshConfig``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..base.conditions import condition
from ..base.redact import one_line
from ..findings.wording import helm, listed
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.versions.config_request import config_requests

CONFIG_MET: Final = "ConfigMet"
_LONGEST: Final = 1024  # characters of the message


def config_conditions(mesh: Mesh, facts: Mapping[str, ClusterFacts]) -> list[dict[str, Any]]:
    """Return the condition, or [] if the binding asks for no value.

    It is Unknown while no member is known to differ and one of them was not asked, did not answer, does not run clustermesh-apiserver, or
    cannot be read.
    """
    requests = {host: config_requests(mesh.binding, facts.get(host)) for host in mesh.clusters}
    if not any(requests.values()):
        return []
    differ = {host: [row for row in rows if row.differs] for host, rows in requests.items()}
    changes = [
        f"{host}: {helm(facts[host], *(value for row in rows for value in row.helm_values)).partition(chr(10))[0]}"
        for host, rows in differ.items()
        if rows
    ]
    if changes:
        return [condition(CONFIG_MET, False, "ValuesDiffer", one_line("; ".join(changes), _LONGEST))]
    unknown = [host for host, rows in requests.items() if any(row.runs is None for row in rows)]
    if unknown:
        return [condition(CONFIG_MET, None, "NotCompared", one_line(f"It is not known what runs in {listed(unknown)}", _LONGEST))]
    return [condition(CONFIG_MET, True, "AsAsked", "Every cluster runs with the values of meshConfig")]
