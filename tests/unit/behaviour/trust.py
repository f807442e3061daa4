# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Scenarios of certification authorities and of ownership: report, renewal and each stage of a roll; adoption and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import HostAlias
from tests.testing.facts_builders import HELM_ANNOTATIONS, HELM_LABELS, apiserver_workload
from tests.testing.ledger import Ledger

from .adapter import Json, adoption, cluster, hand_back, lab
from .meshes import mesh

STAGES: Final = ("prepare", "trust", "clients", "leaves", "drop")
SECRETS: Final = ("cilium-clustermesh", "cilium-kvstoremesh")
ROLLS: Final[Mapping[str, tuple[Json, bool]]] = {
    "own CAs, helm": ({}, False),
    "one CA, certgen": ({"tls_method": "cronJob"}, True),
    "1.16": ({"version": "1.16"}, False),
    "agents": ({"kvstoremesh": False}, False),
    "cluster users": ({"auth_mode": "cluster"}, True),
    "provided": ({"tls_method": "provided"}, False),
}
STEP_BY_STEP: Final = ("own CAs, helm",)


def ca() -> dict[str, Any]:
    """Return the report of trust, its renewal, and a roll of the CA stage by stage."""
    found: dict[str, Any] = {}
    for name, (options, shared) in ROLLS.items():
        with lab(cluster(1, **options), cluster(2, **options), shared_ca=shared) as made:
            made.run("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)
            course: Json = {"report": made.step("mesh_ca", mesh=mesh(1, 2))}
            course["renew"] = made.step(
                "mesh_ca", mesh=mesh(1, 2), state="renewed", certificate_days=3000, ca_days=3000, renew_before_days=2000, diff=True
            )
            rolling: Json = {"state": "rolled", "wait_timeout": 30}
            if not shared:
                rolling["clusters"] = ["c1"]
            course["dry run"] = made.step("mesh_ca", mesh=mesh(1, 2), check=True, diff=True, **rolling)
            for stage in STAGES if name in STEP_BY_STEP else STAGES[-1:]:
                course[stage] = made.step("mesh_ca", mesh=mesh(1, 2), stage=stage, **rolling)
                if stage == "clients":
                    course["verified in between"] = made.step("mesh_verify", mesh=mesh(1, 2), fail_on="never")
            course["again"] = made.step("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)
            found[name] = {**course, "broken": sorted(made.world.broken)}
    with lab(cluster(1), cluster(2), cluster(3)) as made:
        made.run("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
        sharing: Json = {"state": "shared", "source": "c1", "confirm": "edge-mesh-eu", "wait_timeout": 60}
        course = {"trust": made.step("mesh_ca", mesh=mesh(1, 2, 3), stage="trust", **sharing)}
        made.silent = {"c3"}
        course["held"] = made.step("mesh_ca", mesh=mesh(1, 2, 3), **sharing)
        made.silent = set()
        made.refusing = {"c2"}
        course["refused"] = made.step("mesh_ca", mesh=mesh(1, 2, 3), **sharing)
        made.refusing = set()
        course["shared"] = made.step("mesh_ca", mesh=mesh(1, 2, 3), **sharing)
        course["report"] = made.step("mesh_ca", mesh=mesh(1, 2, 3))
        found["one CA for three"] = course
    with lab(cluster(1), cluster(2), cluster(3)) as made:
        made.run("mesh_connect", mesh=mesh(1, 2, 3), wait_timeout=5)
        part: Json = {"state": "rolled", "clusters": ["c1"], "wait_timeout": 2}
        course = {"peers outside": made.step("mesh_ca", mesh=mesh(1, 2), **part)}
        made.run("mesh_ca", mesh=mesh(1, 2, 3), stage="trust", **part)
        other = mesh(1, 2, 3, name="another-mesh")
        course["of another mesh"] = made.step("mesh_ca", mesh=other, **part)
        course["verified"] = made.step("mesh_verify", mesh=mesh(1, 2, 3), fail_on="never")
        made.ready = False
        course["not proven in time"] = made.step("mesh_ca", mesh=mesh(1, 2, 3), **part)
        found["what is in the way of a roll"] = course
    return found


def adoptions() -> dict[str, Any]:
    """Return what adoption plans and writes where others made the mesh, and the way back."""
    marks: Mapping[str, Json] = {
        "helm": {"labels": HELM_LABELS, "annotations": HELM_ANNOTATIONS},
        "argo": {"annotations": {"argocd.argoproj.io/tracking-id": "cilium:/Secret:kube-system/x"}},
        "nobody": {},
    }
    found: dict[str, Any] = {}
    for maker, given in marks.items():
        for manager in ("cilium", "helm", "kubectl"):
            ledger = _made_by(manager, given)
            found[f"marked by {maker}, written by {manager}"] = {
                "prepared": adoption(ledger, ("c1", "c2"), handed_over=False),
                "handed over": adoption(ledger, ("c1", "c2"), handed_over=True),
                "again": adoption(ledger, ("c1", "c2"), handed_over=True),
                "back": hand_back(ledger, ("c1", "c2")),
                "back again": hand_back(ledger, ("c1", "c2")),
            }
    for peers, name in ((({"c1": ("c2", "c9"), "c2": ("c1",)}), "a stranger"), (({"c1": ("c2",)}), "one side")):
        ledger = _made_by("cilium", marks["helm"], peers)
        found[name] = {"handed over": adoption(ledger, ("c1", "c2"), handed_over=True), "back": hand_back(ledger, ("c1", "c2"))}
    aliases = [HostAlias(ip=f"192.0.2.{n}", hostnames=(f"c{n}.mesh.cilium.io",), managers=("cilium", "helm")) for n in (1, 2)]
    for version in ("1.19.5", "1.20.0"):
        ledger = _made_by("helm", marks["helm"], version=version, apiserver=apiserver_workload(version, aliases=aliases))
        for handed_over in (False, True):
            found[f"host aliases at {version}, {'told to be' if handed_over else 'not'} handed over"] = adoption(
                ledger, ("c1", "c2"), handed_over=handed_over
            )
    annotations = {**marks["argo"]["annotations"], "argocd.argoproj.io/sync-options": "Validate=false"}
    ledger = _made_by("argocd-controller", {"annotations": annotations})
    found["another value of sync-options"] = adoption(ledger, ("c1", "c2"), handed_over=True)
    with lab(cluster(1), cluster(2)) as made:
        runs = [made.step("mesh_adopt", mesh=mesh(1, 2))]
        made.run("mesh_connect", mesh=mesh(1, 2), wait_timeout=5)
        runs += [made.step("mesh_adopt", mesh=mesh(1, 2), state=state) for state in ("adopted", "handed_back")]
        runs.append(made.step("mesh_verify", mesh=mesh(1, 2)))
        found["the action, on a mesh of its own"] = runs
    return found


def _made_by(manager: str, marks: Json, peers: Mapping[str, tuple[str, ...]] | None = None, **facts: Any) -> Ledger:
    """Return c1 and c2 meshed by a tool, as tests/unit/adopt/test_adopt.py has them. ``facts``: of both clusters."""
    ledger = Ledger("c1", "c2", **facts)
    for host, names in (peers or {"c1": ("c2",), "c2": ("c1",)}).items():
        for secret in SECRETS:
            ledger.create(host, secret, {peer: _config(peer) for peer in names}, manager, **marks)
        users = "users:\n" + "".join(f"- name: remote-{peer}\n  role: remote\n" for peer in names)
        ledger.create(host, "clustermesh-remote-users", {"users.yaml": users}, manager, **marks)
    return ledger


def _config(name: str) -> str:
    return f"endpoints:\n- https://{name}.mesh.cilium.io:2379\ntrusted-ca-file: /x\n"
