# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scenarios of findings that no check makes, and of fit meshes. tests/unit/checks/test_checks_catalogue.py holds when a check speaks."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import Lease, Registry, registry_name, write_registry
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import MARK, Roll, RollStage, write_roll
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.issuing import Method
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.roll_facts import JobFacts, KeysFacts
from tests.testing.facts_builders import cluster_facts, context_of, key_facts, mesh_of, peer_secret
from tests.unit.ca.test_ca_parts import seen
from tests.unit.identity.test_identity import decided, fresh
from tests.unit.reach.test_replaced_policies import APPLIED, DENY, OLD, OURS, PROVIDER, policy, shop

from .adapter import checks, connect_plan, decisions, kept_policies, left_items, plain, still


def decided_on_facts() -> dict[str, Any]:
    """Return findings that no check makes, of what forbids a CA roll, a name or an id; and those of the playbook ``disconnect``."""
    c1, c2 = cluster_facts("c1"), cluster_facts("c2")
    mine, other = mesh_of("c1", "c2"), mesh_of("c1", name="other").binding
    marks = {owner: write_roll(Roll(stage=RollStage.TRUST, owner=owner, old="o", new="n")) for owner in ("f" * 12, mine.binding.owner)}
    marked = {owner: replace(c1, ca=replace(c1.ca, annotations={MARK: mark})) for owner, mark in {**marks, "": "x"}.items()}
    text = "endpoints:\n- https://other.mesh.cilium.io:2379\n"
    strange = replace(c1, kvstoremesh=peer_secret("cilium-kvstoremesh", {"other": key_facts(text, managers=("helm",), config=text)}))
    rolls = {
        **{f"a mark of {owner or 'nothing'}": seen(found, c2, keys=KeysFacts()) for owner, found in marked.items()},
        "a failed Job": seen(c1, c2, job=JobFacts(present=True, failed=True)),
        "peers outside": seen(strange, c2),
        "provided": seen(c1, c2, method=Method.PROVIDED),
    }
    lease = Lease(host="x", name="c1", id=40, uid="uid-of-c1")
    leases = {"c1": {registry_name(other): write_registry(Registry(mesh=other.owner, leases=(lease,)))}}
    new = fresh("c7")
    bare = replace(new, ca=replace(new.ca, has_key=False))
    named = fresh("c7", config={"cluster-name": "c7"})
    found: dict[str, Any] = {}
    with still():
        for accept in (frozenset(), frozenset({"CM-CA-04"})):
            for name, inputs in rolls.items():
                found[f"roll, {name}{', accepted' if accept else ''}"] = decisions("roll_blockers", inputs, ("c1",), accept)
        found["a lease of another binding"] = decisions("foreign_leases", mine, {"c1": c1, "c2": c2}, leases)
        for assign in (True, False):
            given = decided(c1, bare).values()
            found[f"no CA key, {assign}"] = decisions("identity_findings", given, {"c1": c1, "c7": bare}, assign=assign)
            given = decided(c1, named).values()
            found[f"a kept name, {assign}"] = decisions("identity_findings", given, {"c1": c1, "c7": named}, assign=assign)
        large = replace(c2, server_cert=replace(c2.server_cert, sizes={"ca.crt": 1024 * 1024}))
        found["a Secret without room"] = connect_plan(context_of(c1, large))
        for name, there, row in (
            ("isolates", shop(policy("old", **DENY)), APPLIED),
            ("denies", shop(policy("old", **DENY), OURS), APPLIED),
            ("is another author's", shop(policy("old", "kubectl"), OURS), APPLIED),
            ("has no author", shop(replace(policy("old"), writers=()), OURS), APPLIED),
            ("is this project's", shop(replace(OURS, name="old"), OURS), APPLIED),
            ("is about nodes", shop(replace(policy("old", namespace=""), spec={"nodeSelector": {}, "ingress": [{}]})), APPLIED),
            ("is not understood", shop(policy("old", ingress="x"), OURS), APPLIED),
            ("may be in a silent member", shop(policy("old"), OURS, members=("c3",)), APPLIED),
            ("is not replaced yet", shop(policy("old"), OURS), {**APPLIED, "phase": "Pending"}),
        ):
            entry = {**OLD, "namespace": "" if "nodes" in name else "shop"}
            found[f"a replaced policy {name}"] = kept_policies(there, [entry], [row], [PROVIDER])
        found["items that remain"] = left_items("globalServices", "exposedServices")
    return plain(found)  # type: ignore[no-any-return]  # it comes from JSON


VERSIONS = ("1.14.20", "1.15.19", "1.16.19", "1.17.17", "1.18.11", "1.19.5", "1.20.0", "1.21.0-pre.0")


def fit() -> dict[str, Any]:
    """Return findings and plan of three healthy clusters of every version, and of each way of trust."""
    found: dict[str, Any] = {}
    with still():
        for version, kvstoremesh, ca in itertools.product(VERSIONS, (True, False), ("", "shared")):
            clusters = [cluster_facts(host, version=version, kvstoremesh=kvstoremesh, ca=ca) for host in ("c1", "c2", "c3")]
            context = context_of(*clusters)
            name = f"{version} {'kvstoremesh' if kvstoremesh else 'agents'} {'shared' if ca else 'own'}"
            found[name] = {"findings": plain(checks(context)), "plan": connect_plan(context)}
        for trust in ("auto", "same_ca", "minted", "copied", "blind"):
            context = context_of(*(cluster_facts(host, version="1.20.0", service="NodePort") for host in ("c1", "c2")))
            found[f"trust {trust}"] = connect_plan(context, trust=trust)
        found["external addresses"] = connect_plan(context, node_addresses="ExternalIP")
    return found
