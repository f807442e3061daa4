# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scenarios of findings: every case of the catalogue of checks, in which a check speaks and in which it is silent; and fit meshes."""

from __future__ import annotations

import itertools
from typing import Any

from tests.testing.facts_builders import cluster_facts, context_of
from tests.unit.engine.test_checks_catalogue import CATALOGUE

from .adapter import Json, checks, connect_plan, plain, still


def catalogue() -> dict[str, Any]:
    """Return all findings of each case; of a case in which the check is silent, those of other checks."""
    found: dict[str, Any] = {}
    with still():
        for code, (speaks, silent) in sorted(CATALOGUE.items()):
            for word, cases in (("speaks", speaks), ("is silent", silent)):
                for place, case in enumerate(cases):
                    context = case()
                    outcome: Json = {"connect": plain(checks(context, "connect"))}
                    if word == "speaks" and place == 0:
                        outcome["disconnect"] = plain(checks(context, "disconnect"))
                    found[f"{code} {word} {place}"] = outcome
    return found


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
