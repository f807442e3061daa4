# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parsers of decoded API objects: those of members, and custom resources of tenants."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.ranges import parse_ranges
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.managed_fields import entries_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.assemble import assemble
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.ownership import owners_of_items
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.reads import other_reads
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.traffic import LISTS
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.traffic import assemble as assemble_traffic
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import PlanOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.world import cluster_view
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.job import container_ends, finished
from mesh_operator.base.keys import key_of
from mesh_operator.credentials.tenant_kubeconfigs import is_rebuilt
from mesh_operator.meshes.dry_run import dry_run_of
from mesh_operator.meshes.records import _parsed as record_of
from mesh_operator.runs.confined.messages import PART, Invalid, decoded
from mesh_operator.runs.item_parts import ItemParts
from mesh_operator.source.endpoints import urls_of
from tests.fuzz.parser import Form, parser
from tests.testing.facts_builders import NOW, cluster_facts, context_of, mesh_of
from tests.testing.link_plans import plan_links

_READS: Final = ("first", *other_reads("kube-system", "cilium-mesh-none"))


class NotAnObject(ValueError):
    """Input that is no JSON object, which the client of the API refuses (parser kube-answer)."""


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise NotAnObject from None
    if not isinstance(found, dict):
        raise NotAnObject
    return found


@parser(
    "cluster-objects",
    "the API server of a member",
    *("observe/certificates.py", "observe/nodes.py", "observe/ownership.py", "mesh/cidrs.py", "mesh/endpoints/addresses.py"),
    *("mesh/endpoints/endpoint.py", "mesh/ownership/managed_fields.py", "checks/kvstoremesh.py"),
    form=Form.JSON,
    raises=(NotAnObject,),
    seconds=6.0,
    growth=200,
    tries=40,
)
def cluster_objects(data: bytes) -> object:
    """Take the input for the answers of a member's API server, check the mesh, and plan its links."""
    answers = _object(data)
    many = {"nodes", "cilium_nodes", "pods", "parts", "pod_pools"}
    found = {name: answers.get(name) if name not in many else _list(answers.get(name)) for name in _READS}
    found = {name: value if name in many or isinstance(value, dict) else None for name, value in found.items()}
    found |= {"pod_pools": _list(answers.get("pod_pools"))} if "pod_pools" in answers else {}
    facts = assemble(ClusterAccess(host="c2", kubeconfig=None, context=None), found)
    entries = [entries_of(writers) for writers in facts.writers.values()]
    owned = owners_of_items(found["apiserver"], "spec", "template", "spec", "hostAliases", key="ip")
    return facts, entries, owned, _judged(facts)


def _list(value: Any) -> list[Any]:
    """Return the objects of a list: the client hands out nothing else (``list_if_served``)."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _judged(facts: ClusterFacts) -> object:
    own = cluster_facts("c1")
    findings = run_checks(context_of(own, facts))
    plan = plan_links(mesh_of("c1", "c2"), {"c1": own, "c2": facts}, PlanOptions(), NOW)
    return [str(finding) for finding in findings[:100]], len(plan.steps)


@parser("traffic-objects", "the API server of a member", "policies/evaluate/peers.py", form=Form.JSON, raises=(NotAnObject,), growth=200)
def traffic_objects(data: bytes) -> object:
    """Take the input for the lists of Services, policies and pods of a member, and evaluate its policies."""
    answers = _object(data)
    found = assemble_traffic("c2", answers, {name: _list(answers.get(name)) for name in LISTS})
    config = {key: value for key, value in _mapping(answers.get("config")).items() if isinstance(value, str)}
    view = cluster_view("c2", "c2", None, config, found.policies)
    return found, len(view.rules)


@parser("probe-objects", "the API server of a member", "probe/job.py", "probe/pods.py", form=Form.JSON, raises=(NotAnObject,))
def probe_objects(data: bytes) -> object:
    """Take the input for the Job of a probe and for its pod."""
    value = _object(data)
    return finished(value), container_ends(value, 3)


_RECORDS: Final = ("operator/mesh_operator/meshes/records.py", "operator/mesh_operator/source/endpoints.py")


@parser("custom-resource", "a tenant, and kcp", *_RECORDS, form=Form.JSON, raises=(NotAnObject,))
def custom_resource(data: bytes) -> object:
    """Take the input for an object of a virtual workspace of kcp."""
    value = {**_object(data)}
    value["metadata"] = _mapping(value.get("metadata"))  # the client refuses an object without it
    return key_of("Fabric", value), urls_of(value, "https://kcp.example:6443"), record_of(value)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_CONFINED: Final = ("operator/mesh_operator/runs/confined/messages.py", "operator/mesh_operator/runs/item_parts.py")


@parser("confined-answer", "a stranger who has taken over a confined process", *_CONFINED, form=Form.JSON, raises=(Invalid,))
def confined_answer(data: bytes) -> object:
    """Take the input for what a confined process answers, which a stranger may have taken over."""
    value = decoded(data)
    parts = ItemParts()
    with suppress(Invalid):
        parts.take(_mapping(value).get(PART), data)
    with suppress(Invalid):
        parts.complete(_mapping(value))
    return dry_run_of(value), is_rebuilt(value), len(parts)


@parser("address-ranges", "a tenant", "exposure/ranges.py", form=Form.JSON, raises=(NotAnObject,))
def address_ranges(data: bytes) -> object:
    """Read the input as the source ranges of an exposure that a tenant asks for."""
    problems = Problems()
    return parse_ranges(problems, "ranges", _object(data).get("ranges"))
