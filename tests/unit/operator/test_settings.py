# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Flags and environment: defaults, what goes before what, and sentences that name the flag."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.annotations import can_be_permitted
from mesh_operator.base.settings import Settings, parse_settings
from tests.collection_path import CHECKOUT
from tests.testing.rows import one_test

NEEDED = ("--kcp-kubeconfig", "kcp.yaml", "--mgmt-kubeconfig", "mgmt.yaml", "--node-id", "node-1")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, **environment: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        parse_settings(arguments, environment)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_the_required_three_are_enough() -> None:
    expected = Settings(kcp_kubeconfig="kcp.yaml", mgmt_kubeconfig="mgmt.yaml", node_id="node-1", namespace="default")
    assert parse_settings(NEEDED, {}) == expected
    environment = {"KCP_KUBECONFIG": "kcp.yaml", "MGMT_KUBECONFIG": "mgmt.yaml", "NODE_ID": "node-1"}
    assert parse_settings([], environment) == expected


def test_a_flag_goes_before_its_variable_and_an_empty_variable_counts_for_nothing() -> None:
    settings = parse_settings([*NEEDED, "--mgmt-namespace", "fleet"], {"MGMT_NAMESPACE": "other", "NODE_ID": "x", "NAMESPACE": ""})
    assert (settings.mgmt_namespace, settings.node_id, settings.namespace) == ("fleet", "node-1", "fleet")


@pytest.mark.parametrize("name", ["kcp-kubeconfig", "mgmt-kubeconfig", "node-id"])
def test_what_is_missing_is_named_with_flag_and_variable(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    position = NEEDED.index(f"--{name}")
    said = refused(capsys, *NEEDED[:position], *NEEDED[position + 2 :])
    assert f"--{name} is missing" in said
    assert name.replace("-", "_").upper() in said


def test_in_a_pod_the_management_plane_may_be_the_pods_own_cluster() -> None:
    assert parse_settings([*NEEDED[:2], *NEEDED[4:]], {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}).mgmt_kubeconfig == ""


@one_test("text seconds", ("30s", 30), ("5m", 300), ("1h30m", 5400), ("90", 90), ("1h0m5s", 3605), ("2h", 7200), ("1m30", 90))
def test_durations(text: str, seconds: float) -> None:
    assert parse_settings([*NEEDED, "--mesh-check-interval", text], {}).mesh_check_interval == seconds


@given(hours=st.integers(0, 99), minutes=st.integers(0, 99), seconds=st.integers(1, 99))
def test_a_duration_is_the_sum_of_its_parts(hours: int, minutes: int, seconds: int) -> None:
    parsed = parse_settings([*NEEDED, "--job-timeout", f"{hours}h{minutes}m{seconds}s"], {})
    assert parsed.job_timeout == hours * 3600 + minutes * 60 + seconds


@pytest.mark.parametrize(
    ("flag", "values"),
    [
        ("--reconcile-interval", ["", "0", "0s", "-5s", "5 m", "1d", "m", "30s5m", "nan", "1e3", "٣s"]),
        ("--job-timeout", ["never"]),
        ("--max-runs", ["0", "-1", "two", "1.5", "10000"]),
        ("--max-runs-per-workspace", ["0"]),
        ("--health-addr", ["", "8081", ":", ":65536", ":x", "host:", "::1:8081", "http://x:1", "a b:1"]),
        ("--endpoint-domain", ["", "com", "svc.cluster.local", "default.svc", "corp.local", "a b.example.com", "192.0.2.1"]),
        ("--allow-address", ["", "x", "10.0.0.1/8", "10.0.0.0/33", "10.0.0"]),
        ("--mgmt-match", ["", "name", "name=", "name=root:org", "name=*", "name=a,b", "labels", "label=a", f"name={'a' * 64}"]),
        ("--mgmt-cluster-resource", ["", "clusters", "clusters.v1", "clusters.example.com", "Clusters.v1.example.com", "a.v1./x"]),
        (
            "--kcp-external-url",
            ["kcp.example", "ftp://kcp", "https://", "https://a/b", "https://u:pw@kcp", "https://kcp:99999", "https://["],
        ),
        ("--mgmt-namespace", ["", "UPPER", "a.b", "x" * 64, "../x"]),
        ("--namespace", ["-a"]),
        ("--api-export-name", ["", "A", "a/b"]),
        ("--node-id", ["a b", "a/b", "x" * 101]),
        ("--mesh-check", ["5m"]),
        ("--unknown", ["x"]),
    ],
)
def test_bad_input_names_its_flag_and_is_not_quoted_where_it_may_hold_a_password(
    flag: str, values: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for value in values:
        said = refused(capsys, *NEEDED, f"{flag}={value}")
        assert flag in said, value
        assert "Traceback" not in said
        assert "pw" not in said


@one_test(
    "flag field given_ parsed",
    ("--health-addr", "health_addr", "[::1]:8081", "[::1]:8081"),
    ("--health-addr", "health_addr", "127.0.0.1:0", "127.0.0.1:0"),
    ("--mgmt-cluster-resource", "mgmt_cluster_resource", "clusters.v1beta2.cluster.x-k8s.io", "clusters.v1beta2.cluster.x-k8s.io"),
    ("--mgmt-match", "mgmt_match", "label", "label"),
    ("--mgmt-match", "mgmt_match", "name=1a2b3c4d5e6f7a8b", "name=1a2b3c4d5e6f7a8b"),
    ("--kcp-external-url", "kcp_external_url", "https://kcp.example:6443/", "https://kcp.example:6443/"),
    ("--kcp-external-url", "kcp_external_url", "https://[fd00::1]:6443", "https://[fd00::1]:6443"),
    ("--max-runs", "max_runs", "8", 8),
)
def test_good_input(flag: str, field: str, given_: str, parsed: Any) -> None:
    assert getattr(parse_settings([*NEEDED, flag, given_], {}), field) == parsed


def test_addresses_may_be_allowed_more_than_once_and_are_cidrs() -> None:
    settings = parse_settings([*NEEDED, "--allow-address", "127.0.0.0/8", "--allow-address", "fd00::1"], {})
    assert settings.allowed_addresses == ("127.0.0.0/8", "fd00::1/128")


def test_addresses_may_be_denied_more_than_once_and_are_cidrs() -> None:
    settings = parse_settings([*NEEDED, "--deny-address", "10.244.0.0/16", "--deny-address", "fd00::1"], {})
    assert (settings.denied_addresses, settings.allowed_addresses) == (("10.244.0.0/16", "fd00::1/128"), ())


def test_domains_of_mesh_endpoints_are_listed_one_by_one() -> None:
    settings = parse_settings([*NEEDED, "--endpoint-domain", "mesh.example.com", "--endpoint-domain", "mesh.example.org"], {})
    assert settings.endpoint_domains == ("mesh.example.com", "mesh.example.org")
    assert parse_settings(NEEDED, {}).endpoint_domains == ()


def test_clusters_without_the_label_belong_to_one_workspace_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, *NEEDED, "--mgmt-match", "name=ws1", "--mgmt-match", "name=ws2")
    assert "--mgmt-match is given twice" in said


def test_without_kcp_there_is_no_workspace_whose_clusters_are_found_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_settings([*NEEDED, "--source", "kubernetes", "--mgmt-match", "label"], {}).mgmt_match == "label"
    assert "needs --source kcp" in refused(capsys, *NEEDED, "--source", "kubernetes", "--mgmt-match", "name=ws1")


def test_a_single_replica_may_do_without_election() -> None:
    assert parse_settings(NEEDED, {}).leader_elect
    assert not parse_settings([*NEEDED, "--no-leader-elect"], {}).leader_elect


RENAMED = {
    "allowed_addresses": "allow-address",
    "denied_addresses": "deny-address",
    "endpoint_domains": "endpoint-domain",
    "allowed_annotations": "allow-annotation",
    "permitted": "permit",
    "leader_elect": "no-leader-elect",
    "job_probes": "no-job-probes",
}


def flag_of(field: str) -> str:
    return f"--{RENAMED.get(field, field.replace('_', '-'))}"


def test_every_setting_is_in_the_help_with_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--help"], {})
    said = " ".join(capsys.readouterr().out.split())
    for field in Settings.__dataclass_fields__:
        assert f"{flag_of(field)} " in said
    for variable in ("KCP_KUBECONFIG", "MGMT_KUBECONFIG", "MGMT_NAMESPACE", "NODE_ID", "NAMESPACE", "KCP_EXTERNAL_URL"):
        assert f"environment: {variable}" in said


def test_the_documentation_has_every_flag_with_its_variable_and_default() -> None:
    lines = (CHECKOUT / "docs" / "operator-flags.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `--")]
    table = {flag: (variable, default) for flag, variable, default, _meaning in rows}
    assert set(table) == {flag_of(name) for name in Settings.__dataclass_fields__} | {"--version"}
    for flag, (_, default) in table.items():
        field = flag[2:].replace("-", "_")
        if default not in ("", "required", "that of the Clusters"):
            assert getattr(parse_settings([*NEEDED, f"{flag}={default}"], {}), field) == getattr(Settings, field)
    values = dict(zip(NEEDED[::2], NEEDED[1::2], strict=True))
    lacking = set()  # flags without which it starts in no setting
    for flag in values:
        try:
            parse_settings([f"{other}={value}" for other, value in values.items() if other != flag] + ["--source=kubernetes"], {})
        except SystemExit:
            lacking.add(flag)
    assert lacking == {flag for flag, (_, default) in table.items() if default == "required"}
    for variable in ("KCP_KUBECONFIG", "MGMT_KUBECONFIG", "MGMT_NAMESPACE", "NODE_ID", "NAMESPACE", "KCP_EXTERNAL_URL"):
        assert [flag for flag, (shown, _) in table.items() if shown == variable] == [f"--{variable.lower().replace('_', '-')}"]


@pytest.mark.parametrize(("text", "number"), [("32Mi", 32 * 1024**2), ("1Gi", 1024**3), ("64Ki", 65536), ("4096", 4096)])
def test_a_quantity_of_bytes(text: str, number: int) -> None:
    assert parse_settings([*NEEDED, "--max-bytes-per-workspace", text], {}).max_bytes_per_workspace == number


def test_the_memory_for_all_workspaces_has_a_flag_of_its_own() -> None:
    found = parse_settings([*NEEDED, "--max-bytes", "1Gi"], {})
    assert (found.max_bytes, found.max_bytes_per_workspace) == (1024**3, 64 * 1024**2)


@pytest.mark.parametrize("text", ["0", "32MB", "1.5Gi", "-1", "Mi", "99999999"])
def test_a_quantity_that_is_none_is_refused_with_its_flag(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--max-bytes-per-workspace" in refused(capsys, *NEEDED, f"--max-bytes-per-workspace={text}")


def test_annotations_that_items_may_set_are_listed_one_by_one() -> None:
    flags = ["--allow-annotation", "example.com/team", "--allow-annotation=external-dns.alpha.kubernetes.io/hostname"]
    assert parse_settings([*NEEDED, *flags], {}).allowed_annotations == ("example.com/team", "external-dns.alpha.kubernetes.io/hostname")


@one_test(
    "key",
    *(
        *("team", "example.com/", "example.com/*", "Example.com/team", "a/b/c", "example.com/a b", "", f"example.com/{'x' * 64}"),
        f"{'a.' * 127}com/team",
    ),
    *("cilium-mesh.edge-portal.eu/item", "global-service.cilium-mesh.edge-portal.eu/0123456789ab"),
)
def test_what_is_no_key_or_one_of_this_project_is_no_annotation_to_allow(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--allow-annotation" in refused(capsys, *NEEDED, f"--allow-annotation={key}")
    assert not can_be_permitted(key)  # as the host variable has it


def test_what_tenants_may_choose_is_listed_and_adopting_only_where_it_is_named() -> None:
    assert parse_settings(NEEDED, {}).permitted == ("accept", "nodeAddresses", "repair", "takeBack", "trust")
    flags = ["--permit", "accept=CM-CIDR-02", "--permit=adopt"]
    assert parse_settings([*NEEDED, *flags], {}).permitted == ("accept=CM-CIDR-02", "adopt")
    assert parse_settings([*NEEDED, "--permit", "none"], {}).permitted == ()


@pytest.mark.parametrize("text", ["everything", "accept=", "accept=CIDR", "Trust", "", "clusterRefs"])
def test_what_is_no_choice_of_a_tenant_is_refused_with_its_flag(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--permit" in refused(capsys, *NEEDED, f"--permit={text}")


@pytest.mark.parametrize(
    "name", ["networking.edge-portal.eu/finalizer", "clustermeshbinding.networking.edge-portal.eu", "example.com/cleanup"]
)
def test_a_finalizer_of_a_provider_is_named_with_its_domain(name: str) -> None:
    assert parse_settings([*NEEDED, "--provider-finalizer", name], {}).provider_finalizer == (name,)


@one_test(
    "name",
    *(
        *("foregroundDeletion", "orphan", "", "a b.com/x", "example.com/", "kubernetes.io/pvc-protection", "apis.kcp.io/apibinding"),
        "kcp.io",
    ),
    *("service.kubernetes.io/load-balancer-cleanup", "networking.edge-portal.eu/clustermeshbinding-cleanup"),
)
def test_a_finalizer_of_the_operator_of_kubernetes_or_of_kcp_is_none_of_a_provider(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--provider-finalizer" in refused(capsys, *NEEDED, f"--provider-finalizer={name}")
