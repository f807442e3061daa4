# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Observing whole clusters: what is asked, what is kept, and what one broken cluster does to the others (nothing)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import InvalidInput, Unreachable
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import as_data
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import REQUESTS_AT_ONCE, Observation, _send, observe
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.assemble import assemble
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.reads import Read
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status.links import build_status
from tests.testing.facts_builders import NOW, failure, mesh_of
from tests.testing.library_faults import Odd, calls_into_libraries, failing
from tests.testing.made_certificates import make
from tests.testing.observed_objects import PEER_YAML, cluster_objects, secret
from tests.testing.scripted_server import CANARY, Answer, Asked, ScriptedServer


def answers(objects: dict[str, Any]) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        found = objects.get(asked.path.partition("?")[0])
        if isinstance(found, Answer):
            return found
        if found is None:
            return Answer(404, b"404 page not found")
        if isinstance(found, list):
            return Answer(200, {"items": found, "metadata": {}})
        name = asked.path.partition("?")[0].rpartition("/")[2]
        return Answer(200, {**found, "metadata": {**(found.get("metadata") or {}), "name": name}})

    return answer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedServer]:
    with ScriptedServer(tmp_path) as server:
        server.answer = answers(cluster_objects())
        yield server


def access(server: ScriptedServer, host: str = "edge-1", **changes: Any) -> ClusterAccess:
    return ClusterAccess(
        **{"host": host, "kubeconfig": server.kubeconfig(), "context": None, "endpoint_override": "10.0.0.1:2379", **changes}
    )


def seen(*accesses: ClusterAccess) -> Observation:
    return observe(accesses)


def test_a_cluster_is_observed_with_eighteen_reads_and_nothing_else(server: ScriptedServer) -> None:
    with seen(access(server)) as observation:
        assert sum(observation.clusters["edge-1"].requests.values()) == len(server.asked) == 18
    assert {a.method for a in server.asked} == {"GET"}
    assert not [a.path for a in server.asked if a.path.partition("?")[0].endswith("/secrets")], "Secrets are never listed"


def test_all_families_are_in_the_facts(server: ScriptedServer) -> None:
    with seen(access(server)) as observation:
        facts = observation.facts["edge-1"]
    assert (facts.host, facts.name, facts.id, facts.uid, facts.kubernetes_version) == ("edge-1", "c1", 1, "11111111-2222", "v1.36.4")
    assert facts.endpoint_override == "10.0.0.1:2379" and facts.config_labels == {"app.kubernetes.io/managed-by": "Helm"}
    assert facts.runs_kvstoremesh and facts.users_enabled
    assert facts.operator and facts.operator.ready == 1 and list(facts.parts) == ["hubble-relay"] and facts.unread == ()
    assert facts.agent and facts.agent.desired == 2 and facts.service and facts.service.node_port == 32379
    assert [n.name for n in facts.nodes] == ["n1", "n2"] and facts.nodes[0].allocated_cidrs == ("10.0.0.0/24",)
    assert [p.name for p in facts.agent_pods] == ["cilium-a", "cilium-b"] and [p.name for p in facts.apiserver_pods] == ["mesh-1"]
    certificates = (facts.server_cert, facts.remote_cert, facts.local_cert, facts.admin_cert)
    assert [c.certificate.common_name for c in certificates if c.certificate] == ["server", "remote", "local", "admin"]
    assert all(c.chain_valid and c.key_matches for c in certificates)
    assert facts.kvstoremesh.keys["c2"].config == PEER_YAML and facts.clustermesh.present
    assert dict(facts.users.users) == {"remote-c2": "remote"}


def test_values_of_secrets_are_in_the_store_and_nowhere_else(server: ScriptedServer) -> None:
    authority = make("Cilium CA", ca=True)
    objects = cluster_objects(authority)
    server.answer = answers(objects)
    with seen(access(server)) as observation:
        secrets = observation.secrets
        assert secrets.get("edge-1", "cilium-ca", "ca.key").reveal() == authority.key
        assert secrets.get("edge-1", "cilium-ca", "ca.crt").reveal() == authority.pem
        assert secrets.get("edge-1", "clustermesh-apiserver-remote-cert", "tls.key").reveal().startswith(b"-----BEGIN PRIVATE KEY-----")
        assert secrets.get("edge-1", "clustermesh-apiserver-server-cert", "ca.crt").reveal() == authority.pem
        assert secrets.get("edge-1", "cilium-kvstoremesh", "c2").reveal() == PEER_YAML.encode()
        assert not secrets.has("edge-1", "clustermesh-apiserver-server-cert", "tls.key"), "no step needs it"
        shown = str(as_data(observation.facts["edge-1"])) + repr(observation)
    assert "PRIVATE KEY" not in shown and authority.key.decode().splitlines()[1] not in shown


def test_an_empty_cluster_gives_absent_facts(server: ScriptedServer) -> None:
    server.answer = answers({"/api/v1/namespaces/kube-system": {"metadata": {"uid": "u"}}, "/version": {"gitVersion": "v1"}})
    with seen(access(server)) as observation:
        facts = observation.facts["edge-1"]
    assert (facts.config, facts.agent, facts.apiserver, facts.service, facts.nodes) == (None, None, None, None, ())
    assert not (facts.ca.present or facts.server_cert.present or facts.kvstoremesh.present or facts.users.present)
    assert (facts.name, facts.id) == ("", 0)


def test_cilium_in_another_namespace_is_looked_for_there(server: ScriptedServer) -> None:
    with seen(access(server, namespace="cilium")) as observation:
        assert observation.facts["edge-1"].config is None
    asked = {a.path for a in server.asked}
    assert "/api/v1/namespaces/cilium/secrets/cilium-ca" in asked and "/api/v1/namespaces/cilium" in asked


def test_clusters_that_fail_do_not_hold_up_the_others(server: ScriptedServer) -> None:
    broken = {**server.kubeconfig(), "contexts": []}
    closed = server.kubeconfig(server="https://127.0.0.1:1")
    with seen(access(server, "a", kubeconfig=broken), access(server, "b"), access(server, "c", kubeconfig=closed)) as observation:
        assert list(observation.facts) == list(observation.clusters) == ["b"]
        assert {f.host: f.code for f in observation.failures.values()} == {"a": "CM-API-02", "c": "CM-API-01"}
        assert "refused the connection" in observation.failures["c"].message


def test_what_a_library_raises_is_the_failure_of_the_cluster_that_met_it(server: ScriptedServer) -> None:
    place = next(
        met
        for met in calls_into_libraries(lambda: seen(access(server)).close())
        if met.called == "urllib3.RequestMethods.request" and met.file == "kube/client.py"
    )
    with failing(place, Odd(CANARY)), seen(*(access(server, host) for host in "abc")) as observation:
        [failure] = observation.failures.values()
        assert len(observation.facts) == 2 and failure.host not in observation.facts
    assert (failure.code, failure.message.endswith(": Odd of tests.")) == ("CM-API-00", True)
    assert "versions of urllib3" in failure.remedy


def test_a_defect_that_one_cluster_meets_is_its_failure_and_not_quoted(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def assembled(access: ClusterAccess, *arguments: Any) -> Any:
        if access.host == "b":
            raise RuntimeError(CANARY)
        return assemble(access, *arguments)

    monkeypatch.setattr("ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.assemble", assembled)
    with seen(*(access(server, host) for host in "abc")) as observation:
        assert [*observation.facts] == [*observation.clusters] == ["a", "c"]
    assert observation.failures["b"].code == "CM-ERR-99"
    assert observation.failures["b"].message.startswith("Unexpected RuntimeError at test_observe.py:")
    assert CANARY not in str(observation.failures)


def test_a_cluster_that_is_known_to_be_away_is_not_tried_and_its_reason_is_the_failure(server: ScriptedServer) -> None:
    away = access(server, "edge-2", unavailable="Its Secret is gone,\x1b[31m and so is token=c4n4ry.")
    with seen(access(server), away, access(server, "edge-3", kubeconfig=None, unavailable="It is upgraded.")) as observation:
        assert ([*observation.facts], [*observation.clusters], len(server.asked)) == (["edge-1"], ["edge-1"], 18)
    failures = {host: (failure.code, failure.message) for host, failure in observation.failures.items()}
    assert failures["edge-3"] == ("CM-API-01", "It is upgraded.")
    assert failures["edge-2"] == ("CM-API-01", "Its Secret is gone,[31m and so is <redacted>")


def test_a_cluster_that_does_not_answer_is_asked_only_once(server: ScriptedServer) -> None:
    server.answer = lambda asked: Answer(401, {})
    with seen(access(server)) as observation:
        assert observation.failures["edge-1"].code == "CM-API-02"
    assert len(server.asked) == 1


def forbidding(*paths: str) -> dict[str, Any]:
    return {**cluster_objects(), **dict.fromkeys(paths, Answer(403, {"kind": "Status", "reason": "Forbidden"}))}


SECRETS = "/api/v1/namespaces/kube-system/secrets"


def test_a_cluster_whose_ca_may_not_be_read_is_still_observed(server: ScriptedServer) -> None:
    server.answer = answers(forbidding(f"{SECRETS}/cilium-ca"))
    with seen(access(server)) as observation:
        facts = observation.facts["edge-1"]
    assert (facts.ca.present, facts.ca.problem) == (False, "not readable (RBAC)")
    assert [entry.what for entry in facts.unread] == ["ca"]
    assert 'get secrets "cilium-ca"' in facts.unread[0].message and "get on secrets" in facts.unread[0].remedy
    assert facts.server_cert.chain_valid and not observation.secrets.has("edge-1", "cilium-ca", "ca.key")


def test_a_cluster_whose_other_deployments_may_not_be_listed_is_still_observed(server: ScriptedServer) -> None:
    server.answer = answers(forbidding("/apis/apps/v1/namespaces/kube-system/deployments", "/version"))
    with seen(access(server)) as observation:
        facts = observation.facts["edge-1"]
    assert facts.operator is None and facts.parts == {} and facts.runs_kvstoremesh and facts.kubernetes_version == ""
    assert sorted(entry.what for entry in facts.unread) == ["parts", "version"]


def with_config(objects: dict[str, Any], **keys: str) -> dict[str, Any]:
    path = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
    data = {**objects[path]["data"], **{key.replace("_", "-"): value for key, value in keys.items()}}
    return {**objects, path: {**objects[path], "data": data}}


IPSEC = secret("cilium-ipsec-keys", {"keys": b"3+ rfc4106(gcm(aes)) 0xCAFE01 128\n"})


def test_ipsec_keys_are_read_only_where_ipsec_is_on_and_only_as_digests(server: ScriptedServer) -> None:
    objects = {**with_config(cluster_objects(), enable_ipsec="true"), f"{SECRETS}/cilium-ipsec-keys": IPSEC}
    server.answer = answers(objects)
    with seen(access(server)) as observation:
        facts = observation.facts["edge-1"]
        assert len(server.asked) == 19
        assert not observation.secrets.has("edge-1", "cilium-ipsec-keys", "keys"), "no step needs it"
    assert facts.ipsec and facts.ipsec.present and list(facts.ipsec.keys) == [3]
    assert "cafe01" not in str(as_data(facts)).lower()


def test_ipsec_keys_that_may_not_be_read_are_no_facts(server: ScriptedServer) -> None:
    path = f"{SECRETS}/cilium-ipsec-keys"
    server.answer = answers(with_config(forbidding(path), enable_ipsec="true"))
    with seen(access(server)) as observation:
        facts = observation.facts["edge-1"]
    assert facts.ipsec is None and [entry.what for entry in facts.unread] == ["ipsec"]


def test_pools_are_read_where_ipam_is_multi_pool(server: ScriptedServer) -> None:
    pool = {"metadata": {"name": "default"}, "spec": {"ipv4": {"cidrs": ["10.8.0.0/16"]}, "ipv6": {"cidrs": ["fd00:8::/48"]}}}
    server.answer = answers({**with_config(cluster_objects(), ipam="multi-pool"), "/apis/cilium.io/v2alpha1/ciliumpodippools": [pool]})
    with seen(access(server)) as observation:
        facts = observation.facts["edge-1"]
    assert [(p.name, p.cidrs) for p in facts.pod_pools] == [("default", ("10.8.0.0/16", "fd00:8::/48"))]


def test_trust_is_judged_by_the_ca_bundle_where_pods_mount_one(server: ScriptedServer) -> None:
    own, other = make("Cilium CA", ca=True), make("CA of a peer", ca=True)
    objects = cluster_objects(own)
    path = "/apis/apps/v1/namespaces/kube-system/deployments/clustermesh-apiserver"
    objects[path]["spec"]["template"]["spec"]["volumes"] = [
        projected_volume("etcd-server-secrets", "clustermesh-apiserver-server-cert", "ca.crt"),
        projected_volume("kvstoremesh-secrets", "clustermesh-apiserver-remote-cert", "common-etcd-client-ca.crt"),
    ]
    objects["/api/v1/namespaces/kube-system/configmaps/cilium-root-ca.crt"] = {"data": {"ca.crt": (own.pem + other.pem).decode()}}
    server.answer = answers(objects)
    with seen(access(server)) as observation:
        facts = observation.facts["edge-1"]
        kept = observation.secrets.get("edge-1", "clustermesh-apiserver-server-cert", "ca.crt").reveal()
    assert facts.ca_bundle and [c.common_name for c in facts.ca_bundle.certificates] == ["Cilium CA", "CA of a peer"]
    for secret_facts in (facts.server_cert, facts.remote_cert):
        assert [c.common_name for c in secret_facts.ca] == ["Cilium CA", "CA of a peer"] and secret_facts.chain_valid
    assert [c.common_name for c in facts.admin_cert.ca] == ["Cilium CA"], "its volume names no bundle"
    assert kept == own.pem + other.pem


def projected_volume(name: str, secret_name: str, path: str) -> dict[str, Any]:
    """As the chart renders it with tls.caBundle.enabled=true."""
    own = {"secret": {"name": secret_name, "items": [{"key": "tls.crt", "path": "tls.crt"}]}}
    authority = {"configMap": {"name": "cilium-root-ca.crt", "items": [{"key": "ca.crt", "path": path}]}}
    return {"name": name, "projected": {"sources": [own, authority]}}


def test_everything_that_rbac_forbids_is_reported_at_once(server: ScriptedServer) -> None:
    objects = cluster_objects()
    for path in ("/api/v1/nodes", "/api/v1/namespaces/kube-system/secrets/cilium-ca"):
        objects[path] = Answer(403, {"kind": "Status", "reason": "Forbidden"})
    server.answer = answers(objects)
    with seen(access(server)) as observation:
        failure = observation.failures["edge-1"]
    assert failure.code == "CM-API-03"
    assert failure.message == "RBAC forbids to get secrets, list nodes (403)."
    assert failure.remedy.splitlines()[1:] == ["get in namespace kube-system: secrets/cilium-ca", "list: nodes"]
    assert "the playbook rbac prints the whole role" in failure.remedy
    assert observation.clusters == {}


def test_without_any_right_the_first_answer_names_all_of_them(server: ScriptedServer) -> None:
    """An earlier version named the namespace in a first run, and all others in a second one."""
    server.answer = answers(dict.fromkeys(cluster_objects(), Answer(403, {"kind": "Status", "reason": "Forbidden"})))
    with seen(access(server)) as observation:
        failure = observation.failures["edge-1"]
    assert "get: /version, namespaces/kube-system" in failure.remedy.splitlines()
    assert "secrets/cilium-clustermesh" in failure.remedy and "list: ciliumnodes, nodes" in failure.remedy.splitlines()


def test_another_error_is_not_hidden_by_rbac(server: ScriptedServer) -> None:
    objects = cluster_objects()
    objects["/api/v1/nodes"] = Answer(403, {})
    objects["/api/v1/namespaces/kube-system/secrets/cilium-ca"] = Answer(418, {})
    server.answer = answers(objects)
    with seen(access(server)) as observation:
        assert observation.failures["edge-1"].code == "CM-API-05"


def test_many_clusters_are_observed_side_by_side(server: ScriptedServer) -> None:
    with observe([access(server, f"c{i}") for i in range(12)], parallel=4) as observation:
        assert len(observation.facts) == 12 and observation.failures == {}


def test_two_hosts_of_one_name_are_refused(server: ScriptedServer) -> None:
    with pytest.raises(InvalidInput, match="same name"):
        observe([access(server), access(server)])
    assert server.asked == []


def test_no_clusters_are_no_work() -> None:
    assert observe([]).facts == {}


def test_the_status_of_links_takes_eight_reads_and_is_the_same_as_with_all(server: ScriptedServer) -> None:
    mesh = mesh_of("edge-1", "edge-2")
    found = []
    for links_only in (False, True):
        server.asked.clear()
        with observe([access(server)], links_only=links_only) as observation:
            facts = observation.facts
        failures = {"edge-2": failure("edge-2")}
        found.append((build_status(mesh, facts, failures, {}, now=NOW), facts["edge-1"].runs_kvstoremesh, facts["edge-1"].writers.keys()))
    assert len(server.asked) == 8 and found[0][:2] == found[1][:2]
    assert found[1][2] <= found[0][2]
    assert not any("cilium-ca" in asked.path for asked in server.asked), "no right to the CA is needed"


def test_a_cluster_that_falls_silent_while_it_is_read_costs_a_few_timeouts_and_not_one_for_each_read() -> None:
    sent: list[str] = []

    class Silent:
        host = "edge-1"

        def get(self, path: str) -> Any:
            sent.append(path)
            raise Unreachable("It does not answer.", cluster="edge-1")

    reads = {str(number): Read(path=f"/{number}") for number in range(18)}
    with ThreadPoolExecutor(32) as pool, pytest.raises(Unreachable):
        _send(Silent(), reads, pool)  # type: ignore[arg-type]  # a server with the one method that is used
    assert len(sent) <= REQUESTS_AT_ONCE


def test_the_requests_of_a_cluster_share_a_few_connections() -> None:
    at_once, most = 0, 0
    lock = threading.Lock()

    class Busy:
        host = "edge-1"

        def get(self, path: str) -> Any:
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            time.sleep(0.002)
            with lock:
                at_once -= 1
            return path

    reads = {str(number): Read(path=f"/{number}") for number in range(40)}
    with ThreadPoolExecutor(32) as pool:
        results, unread = _send(Busy(), reads, pool)  # type: ignore[arg-type]  # a server with the one method that is used
    assert most <= REQUESTS_AT_ONCE and not unread
    assert results == {name: read.path for name, read in reads.items()}
