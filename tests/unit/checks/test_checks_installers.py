# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Fixes name the place where a value stays: the command that the user can really run, or the platform's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.checks import run_checks
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import CaSecretFacts, ClusterFacts, Unread
from tests.testing.facts_builders import HELM_ANNOTATIONS, agent_workload, cluster_facts, context_of
from tests.testing.rows import one_test


def made_by(marks: dict[str, str], *, helm: bool = True, owners: tuple[str, ...] = ()) -> ClusterFacts:
    notes = HELM_ANNOTATIONS if helm else {}
    agent = agent_workload("1.20.0", annotations=notes, owner_kinds=owners)
    return cluster_facts("c1", version="1.20.0", config={"cluster-id": "0"}, config_annotations={**notes, **marks}, agent=agent)


def fix_of(facts: ClusterFacts, code: str = "CM-ID-03") -> str:
    (finding,) = [f for f in run_checks(context_of(facts, cluster_facts("c2", version="1.20.0"))) if f.code == code]
    return finding.fix


def test_a_helm_release_is_upgraded_by_its_own_name_in_its_own_version() -> None:
    facts = made_by({"meta.helm.sh/release-name": "net"})
    assert fix_of(facts).splitlines()[0] == (
        "helm upgrade net cilium --repo https://helm.cilium.io --version 1.20.0 --namespace kube-system --reuse-values "
        "--set cluster.name=UNIQUE_NAME --set cluster.id=UNIQUE_NUMBER"
    )


@one_test(
    "marks more place",
    ({"resources.gardener.cloud/managed-by": "gardener"}, {}, "providerConfig of the Shoot"),
    ({"kubeone.io/addon": "cni-cilium"}, {}, "KubeOne"),
    ({"helm.toolkit.fluxcd.io/name": "net", "helm.toolkit.fluxcd.io/namespace": "flux"}, {}, 'HelmRelease "net" in namespace "flux"'),
    ({"kustomize.toolkit.fluxcd.io/name": "net"}, {}, 'Kustomization "net"'),
    ({"argocd.argoproj.io/tracking-id": "net:/ConfigMap:kube-system/cilium-config"}, {}, 'Application "net"'),
    ({"meta.helm.sh/release-name": "rke2-cilium"}, {}, "HelmChartConfig kube-system/rke2-cilium"),
    ({"meta.helm.sh/release-name": "kube-system-cilium"}, {}, "ApplicationInstallation kube-system/cilium"),
    ({}, {"owners": ("CiliumConfig",)}, "CiliumConfig cilium"),
    ({}, {"helm": False}, "manifests are rendered from"),
)
def test_a_value_is_set_where_the_installer_takes_it_from(marks: dict[str, str], more: dict[str, Any], place: str) -> None:
    fix = fix_of(made_by(marks, **more))
    assert place in fix.splitlines()[0] and "cluster.id=UNIQUE_NUMBER" in fix.splitlines()[0]
    assert "helm upgrade" not in fix


def test_where_no_tool_can_set_values_the_fix_says_so() -> None:
    fix = fix_of(made_by({"kubernetes.azure.com/managedby": "aks"}))
    assert "does not allow" in fix and "Fleet" in fix


def test_names_that_others_chose_are_printable_and_short() -> None:
    poisoned = made_by({"argocd.argoproj.io/tracking-id": "\x1b[31m\n" + "x" * 900})
    fix = fix_of(poisoned, "CM-DIST-01") + fix_of(poisoned)
    assert all(line.isprintable() and len(line) < 600 for line in fix.splitlines())


def test_each_setting_that_differs_has_the_command_of_each_version() -> None:
    clusters = [
        cluster_facts("c1", version="1.18.11", config={"clustermesh-enable-mcs-api": "true", "policy-default-local-cluster": "true"}),
        cluster_facts("c2", version="1.18.11", config={"policy-default-local-cluster": "true"}),
        cluster_facts("c3", version="1.19.5"),
    ]
    (finding,) = [f for f in run_checks(context_of(*clusters)) if f.code == "CM-CFG-01"]
    assert "In c2:\nhelm upgrade cilium cilium --repo https://helm.cilium.io --version 1.18.11" in finding.fix
    assert "--set clustermesh.enableMCSAPISupport=true\nIn c3:" in finding.fix
    assert finding.fix.endswith("--set clustermesh.mcsapi.enabled=true")


def test_a_version_without_the_setting_has_to_be_upgraded() -> None:
    clusters = [
        cluster_facts("c1", version="1.17.17"),
        cluster_facts("c2", version="1.18.11", config={"policy-default-local-cluster": "true"}),
    ]
    (finding,) = [f for f in run_checks(context_of(*clusters)) if f.code == "CM-CFG-01"]
    assert finding.fix == "c1 has no such setting in its version of Cilium: upgrade it."


def test_a_forbidden_ca_leads_to_copies_and_says_so() -> None:

    denied = Unread(what="ca", message="RBAC forbids to get secrets (403).", remedy="Grant get on secrets.")
    facts = replace(cluster_facts("c1"), ca=CaSecretFacts(problem="not readable (RBAC)"), unread=(denied,))
    findings = run_checks(context_of(facts, cluster_facts("c2")))
    assert {(f.code, f.cluster) for f in findings} == {("CM-RBAC-02", "c1"), ("CM-TRUST-02", "c2")}
    assert not any(f.blocks for f in findings)
