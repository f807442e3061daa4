# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A plan becomes exactly its calls, and a cluster that fails takes no other one with it."""

from __future__ import annotations

import threading
import traceback
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply import secret_values
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import ApplyResult, apply_plan
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import (
    ClusterError,
    CredentialsInvalid,
    Forbidden,
    InvalidInput,
    LockLost,
    ServerRefused,
    Unreachable,
    WriteConflict,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import SecretStore
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Finding, Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import registry_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.disconnect import plan_disconnect
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.certificates import Issuer, chains_to, load_certificates
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import Plan, PlanOptions
from tests.lab.patience import scaled
from tests.testing.facts_builders import NOW, cluster_facts, mesh_of
from tests.testing.link_plans import plan_links
from tests.testing.made_certificates import Made, make
from tests.testing.rows import one_test
from tests.testing.simulated_apply import SimulatedClusters

DAY = timedelta(days=1)
SECRETS = "/api/v1/namespaces/kube-system/secrets"


@dataclass
class Recorded:
    """A cluster that writes down what it is asked for, in one log for all."""

    host: str
    log: list[tuple[str, str, str, Any]]
    refuse: Callable[[str], bool] = field(default=lambda path: False)

    def _note(self, verb: str, path: str, body: Any) -> dict[str, Any]:
        if self.refuse(path):
            raise WriteConflict("Another writer owns it.", cluster=self.host)
        self.log.append((self.host, verb, path, body))
        return {}

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> dict[str, Any]:
        assert manager.startswith("cilium-mesh.edge-portal.eu/") and not dry_run
        return self._note("apply", path, body)

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        return self._note("create", path, body)

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> dict[str, Any]:
        return self._note("patch", path, body)

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        self._note("delete", path, {"uid": uid, "resourceVersion": resource_version})


def _ca(name: str, issuer: Made | None = None) -> Made:
    return make(name, issuer=issuer, ca=True, starts=NOW - DAY, ends=NOW + 30 * DAY)


class World:
    """Two or three clusters with real CAs, the observation of them, and the log of their writes."""

    def __init__(self, *clusters: ClusterFacts) -> None:
        self.facts = {cluster.host: cluster for cluster in clusters}
        self.cas: dict[str, Made] = {host: _ca(f"CA of {host}") for host in self.facts}
        self.log: list[tuple[str, str, str, Any]] = []
        self.recorded = {host: Recorded(host, self.log) for host in self.facts}
        self.secrets = SecretStore()
        for host, ca in self.cas.items():
            self.secrets.put(host, "cilium-ca", "ca.crt", ca.pem)
            self.secrets.put(host, "cilium-ca", "ca.key", ca.key)
            self.secrets.put(host, "clustermesh-apiserver-server-cert", "ca.crt", ca.pem)

    @property
    def observation(self) -> Observation:
        clusters = cast("dict[str, Cluster]", self.recorded)
        return Observation(facts=self.facts, secrets=self.secrets, clusters=clusters)

    def plan(self) -> Plan:
        return plan_links(mesh_of(*self.facts), self.facts, PlanOptions(certificate_days=7), NOW)

    def apply(self, plan: Plan | None = None) -> ApplyResult:
        return apply_plan(plan or self.plan(), self.observation, now=NOW)

    def data(self, host: str, secret: str) -> dict[str, bytes]:
        (body,) = [body for h, verb, path, body in self.log if (h, verb, path) == (host, "apply", f"{SECRETS}/{secret}")]
        return {key: b64decode(value) for key, value in body["data"].items()}


def _world(*clusters: ClusterFacts) -> World:
    return World(*(clusters or (cluster_facts("c1", version="1.20.0"), cluster_facts("c2", version="1.20.0"))))


def test_every_step_is_one_call_and_waves_do_not_mix() -> None:
    world = _world()
    result = world.apply()
    assert result.changed and not result.failures and not result.skipped
    assert len(world.log) == len(result.applied) == 8
    assert {path.rpartition("/")[2][:12] for _, _, path, _ in world.log[:2]} == {"cilium-mesh-"}  # leases, before anything else
    assert {verb for _, verb, _, _ in world.log[2:4]} == {"patch"}  # users, of both clusters
    assert {verb for _, verb, _, _ in (*world.log[:2], *world.log[4:])} == {"apply"}


def test_the_minted_certificate_is_for_the_planned_user_from_the_peers_ca_with_its_own_key() -> None:
    world = _world()
    world.apply()
    data = world.data("c1", "cilium-kvstoremesh")
    (certificate,) = load_certificates(data["c2.etcd-client.crt"])
    (ca,) = load_certificates(data["c2.etcd-client-ca.crt"])
    key = serialization.load_pem_private_key(data["c2.etcd-client.key"], password=None)
    assert chains_to(certificate, (), (ca,)) and ca == world.cas["c2"].certificate
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "remote-c1"
    assert certificate.not_valid_after_utc == NOW + timedelta(days=7)
    assert certificate.public_key() == key.public_key()


def test_a_ca_that_is_an_intermediate_is_sent_along_and_the_root_is_not() -> None:
    world = _world()
    root = _ca("Root")
    middle = _ca("Middle", root)
    world.secrets.put("c2", "cilium-ca", "ca.crt", middle.pem + root.pem)
    world.secrets.put("c2", "cilium-ca", "ca.key", middle.key)
    world.apply()
    chain = load_certificates(world.data("c1", "cilium-kvstoremesh")["c2.etcd-client.crt"])
    assert chain[1:] == (middle.certificate,)
    assert chains_to(chain[0], chain[1:], (root.certificate,))


def test_no_two_clusters_share_a_private_key() -> None:
    world = _world(*(cluster_facts(f"c{n}") for n in (1, 2, 3)))
    world.apply()
    keys = [value for host in world.facts for key, value in world.data(host, "cilium-kvstoremesh").items() if key.endswith(".key")]
    assert len(keys) == len(set(keys)) == 6


def test_kept_values_are_sent_again_so_that_server_side_apply_does_not_withdraw_them() -> None:
    world = _world()
    simulated = SimulatedClusters(world.facts, NOW)
    world.facts = simulated.facts()
    simulated.run(world.plan())
    world.facts = {**simulated.facts(), "c3": cluster_facts("c3", version="1.20.0")}
    world.recorded["c3"] = Recorded("c3", world.log)
    world.cas["c3"] = _ca("CA of c3")
    for secret, key, value in (
        ("cilium-ca", "ca.crt", world.cas["c3"].pem),
        ("cilium-ca", "ca.key", world.cas["c3"].key),
        ("clustermesh-apiserver-server-cert", "ca.crt", world.cas["c3"].pem),
    ):
        world.secrets.put("c3", secret, key, value)
    for host, peer in (("c1", "c2"), ("c2", "c1")):
        world.secrets.put(host, "cilium-kvstoremesh", f"{peer}.etcd-client.crt", b"kept certificate")
        world.secrets.put(host, "cilium-kvstoremesh", f"{peer}.etcd-client.key", b"kept key")
    world.apply()
    assert world.data("c1", "cilium-kvstoremesh")["c2.etcd-client.key"] == b"kept key"


def test_a_blocked_plan_is_refused_before_anything_is_written() -> None:
    world = _world()
    problem = Finding(code="CM-EP-02", severity=Severity.BLOCKING, summary="no address")
    with pytest.raises(InvalidInput, match="blocking"):
        world.apply(replace(world.plan(), problems=(problem,)))
    assert world.log == []


def test_nothing_is_written_when_a_value_or_a_connection_is_missing() -> None:
    world = _world()
    plan = world.plan()
    world.secrets = SecretStore()
    with pytest.raises(WriteConflict, match=r"ca\.(crt|key).*Plan again"):
        world.apply(plan)
    assert world.log == []
    world = _world()
    del world.recorded["c2"]
    with pytest.raises(Unreachable, match="c2"):
        world.apply()
    assert world.log == []


def test_the_key_of_a_ca_is_loaded_once_however_many_clusters_it_issues_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bytes] = []

    def load(certificate: bytes, key: bytes) -> Issuer:
        loaded.append(key)
        return Issuer(certificate, key)

    monkeypatch.setattr(secret_values, "Issuer", load)
    world = _world(*(cluster_facts(f"c{n}") for n in (1, 2, 3, 4)))
    world.apply()
    assert sorted(loaded) == sorted(ca.key for ca in world.cas.values())


def test_a_ca_whose_key_does_not_fit_is_named_and_nothing_is_written() -> None:
    world = _world()
    world.secrets.put("c2", "cilium-ca", "ca.key", _ca("other").key)
    with pytest.raises(CredentialsInvalid, match="c2: The CA cannot issue"):
        world.apply()
    assert world.log == []


def test_a_cluster_that_refuses_is_reported_and_left_and_the_other_is_finished() -> None:
    world = _world(cluster_facts("c1", version="1.19.5"), cluster_facts("c2", version="1.19.5"))
    world.recorded["c1"].refuse = lambda path: "deployments" in path
    result = world.apply()
    assert isinstance(result.failures["c1"], WriteConflict) and set(result.failures) == {"c1"}
    assert [s.object.rpartition("/")[2] for s in result.skipped] == ["cilium-kvstoremesh", "cilium-clustermesh"]
    assert [s.cluster for s in result.applied] == ["c1", "c2", "c1", "c2", "c2", "c2", "c2"]
    written = [path.rpartition("/")[2] for host, _, path, _ in world.log if host == "c1"]
    assert written == [registry_name(mesh_of().binding), "clustermesh-remote-users"]


@pytest.mark.parametrize(("allowed", "goes_on"), [(None, True), (1, True), (0, False)])
def test_with_more_failures_than_allowed_no_further_wave_is_begun(allowed: int | None, goes_on: bool) -> None:
    world = _world(*(cluster_facts(f"c{n}", version="1.20.0") for n in (1, 2, 3)))
    world.recorded["c2"].refuse = lambda path: path.endswith("clustermesh-remote-users")  # wave 1; the Secrets are wave 2
    plan = world.plan()
    result = apply_plan(plan, world.observation, now=NOW, max_failures=allowed)
    assert (set(result.failures), result.stopped) == ({"c2"}, not goes_on)
    assert {host for host, _, path, _ in world.log if path.startswith(SECRETS)} == ({"c1", "c3"} if goes_on else set())
    (refused,) = [step for step in plan.steps if step.cluster == "c2" and step.object.endswith("clustermesh-remote-users")]
    assert {id(step) for step in (*result.applied, *result.skipped, refused)} == {id(step) for step in plan.steps}


def test_clusters_of_a_wave_are_written_side_by_side() -> None:
    world = _world()
    meeting = threading.Barrier(2, timeout=scaled(10))
    for recorded in world.recorded.values():
        recorded.refuse = lambda path: path.endswith("remote-users") and meeting.wait() < 0
    assert not world.apply().failures  # each waits inside its call for the other


def test_disconnecting_sends_objects_without_data_and_deletes_only_what_was_read() -> None:
    world = _world()
    simulated = SimulatedClusters(world.facts, NOW)
    world.facts = simulated.facts()
    simulated.run(world.plan())
    world.facts = simulated.facts()
    world.apply(plan_disconnect(mesh_of(*world.facts), world.facts, None))
    deleted = [(path, body) for host, verb, path, body in world.log if (host, verb) == ("c1", "delete")]
    registry = f"/api/v1/namespaces/kube-system/configmaps/{registry_name(mesh_of().binding)}"
    assert [path for path, _ in deleted] == [f"{SECRETS}/cilium-clustermesh", f"{SECRETS}/cilium-kvstoremesh", registry]
    assert all(body["uid"] and body["resourceVersion"] for _, body in deleted)
    (users,) = [body for host, verb, _, body in world.log if (host, verb) == ("c1", "patch")]
    assert users["data"] == {"users.yaml": "users:\n"}
    assert list(users["metadata"]["annotations"].values()) == [None] and users["metadata"]["resourceVersion"]


@one_test(
    "error changed",
    (Unreachable("It closed the connection before it answered."), True),
    (ServerRefused("It answered 504.", status=504), True),
    (ServerRefused("What answered is no API server."), True),
    (ServerRefused("It answered 422.", status=422), False),
    (Forbidden("RBAC forbids it."), False),
    (WriteConflict("Another manager owns it."), False),
    (CredentialsInvalid("It answered 401."), False),
)
def test_a_write_that_may_have_been_made_counts_as_a_change(error: ClusterError, changed: bool) -> None:
    world = _world()

    def fail(path: str) -> bool:
        raise error

    for recorded in world.recorded.values():
        recorded.refuse = fail
    assert world.apply().changed is changed

    def refuse(cluster: str) -> None:
        raise error

    plan = world.plan()
    assert not apply_plan(plan, world.observation, now=NOW, allow=refuse).changed, "nothing was sent"


def test_an_empty_plan_sends_no_request() -> None:
    world = _world()
    result = world.apply(plan_disconnect(mesh_of(*world.facts), world.facts, None))
    assert not result.changed and world.log == []


def test_no_secret_shows_in_a_plan_a_result_or_an_error() -> None:
    world = _world()
    plan = world.plan()
    shown = repr(plan) + repr(world.apply(plan)) + str(plan.to_dict())
    minted, strange = world.data("c1", "cilium-kvstoremesh")["c2.etcd-client.key"], _ca("other").key
    world.secrets.put("c2", "cilium-ca", "ca.key", strange)
    with pytest.raises(CredentialsInvalid) as caught:
        world.apply(plan)
    shown += repr(caught.value) + "".join(traceback.format_exception(caught.value))
    assert "PRIVATE KEY" not in shown
    for key in (minted, strange, *(ca.key for ca in world.cas.values())):
        assert key.decode().splitlines()[1] not in shown


def test_after_the_lock_is_lost_no_further_write_begins_and_the_result_says_what_was_done() -> None:
    world = _world()
    left = iter(range(3))

    def allow(cluster: str) -> None:
        if next(left, None) is None:
            raise LockLost("Another run took it.", cluster=cluster)

    plan = world.plan()
    done = apply_plan(plan, world.observation, now=NOW, parallel=1, allow=allow)
    assert len(done.applied) == len(world.log) == 3 < len(plan.steps) == len(done.applied) + len(done.skipped) + len(done.failures)
    assert {error.code for error in done.failures.values()} == {"CM-LOCK-02"}
