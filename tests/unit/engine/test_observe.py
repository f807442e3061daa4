# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Observing whole clusters: what is asked, what is kept, and what one broken cluster does to the others (nothing)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.errors import InvalidInput
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.facts import as_data
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation, observe
from tests.unit.engine.made_certificates import make
from tests.unit.engine.observed_objects import PEER_YAML, cluster_objects
from tests.unit.engine.scripted_server import Answer, Asked, ScriptedServer


def answers(objects: dict[str, Any]) -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        found = objects.get(asked.path.partition("?")[0])
        if isinstance(found, Answer):
            return found
        if found is None:
            return Answer(404, b"404 page not found")
        return Answer(200, {"items": found, "metadata": {}} if isinstance(found, list) else found)

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


def test_a_cluster_is_observed_with_seventeen_reads_and_nothing_else(server: ScriptedServer) -> None:
    with seen(access(server)) as observation:
        assert sum(observation.clusters["edge-1"].requests.values()) == len(server.asked) == 17
    assert {a.method for a in server.asked} == {"GET"}
    assert not [a.path for a in server.asked if a.path.partition("?")[0].endswith("/secrets")], "Secrets are never listed"


def test_all_families_are_in_the_facts(server: ScriptedServer) -> None:
    with seen(access(server)) as observation:
        facts = observation.facts["edge-1"]
    assert (facts.host, facts.name, facts.id, facts.uid, facts.kubernetes_version) == ("edge-1", "c1", 1, "11111111-2222", "v1.36.4")
    assert facts.endpoint_override == "10.0.0.1:2379" and facts.config_labels == {"app.kubernetes.io/managed-by": "Helm"}
    assert facts.runs_kvstoremesh and facts.users_enabled
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
    assert "/api/v1/namespaces/cilium/secrets/cilium-ca" in asked and "/api/v1/namespaces/kube-system" in asked


def test_clusters_that_fail_do_not_hold_up_the_others(server: ScriptedServer) -> None:
    broken = {**server.kubeconfig(), "contexts": []}
    closed = server.kubeconfig(server="https://127.0.0.1:1")
    with seen(access(server, "a", kubeconfig=broken), access(server, "b"), access(server, "c", kubeconfig=closed)) as observation:
        assert list(observation.facts) == list(observation.clusters) == ["b"]
        assert {f.host: f.code for f in observation.failures.values()} == {"a": "CM-API-02", "c": "CM-API-01"}
        assert "refused the connection" in observation.failures["c"].message


def test_a_cluster_that_does_not_answer_is_asked_only_once(server: ScriptedServer) -> None:
    server.answer = lambda asked: Answer(401, {})
    with seen(access(server)) as observation:
        assert observation.failures["edge-1"].code == "CM-API-02"
    assert len(server.asked) == 1


def test_everything_that_rbac_forbids_is_told_at_once(server: ScriptedServer) -> None:
    objects = cluster_objects()
    for path in ("/api/v1/nodes", "/api/v1/namespaces/kube-system/secrets/cilium-ca"):
        objects[path] = Answer(403, {"kind": "Status", "reason": "Forbidden"})
    server.answer = answers(objects)
    with seen(access(server)) as observation:
        failure = observation.failures["edge-1"]
    assert failure.code == "CM-API-03"
    assert 'get secrets "cilium-ca" in namespace "kube-system"' in failure.message and "list nodes" in failure.message
    assert "get on secrets" in failure.remedy and "list on nodes" in failure.remedy
    assert observation.clusters == {}


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
