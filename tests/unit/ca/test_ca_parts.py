# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The parts of what is done with CAs: who issues, what readers say, what is reported, what forbids a roll."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import socketpair
from typing import Any

import pytest
from cryptography import x509

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import SecretStore
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.guards import (
    roll_blockers,
    unanswered_findings,
    unproven_stage_findings,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.reissue import client_steps, server_steps
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.report import trust_report
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.roll_inputs import RollInputs, StageWait, reader_waits
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.roll_observation import _issued_by_next_ca
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.signing import issue_again, new_authority
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import tls
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import ExecResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.errors import Server
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.link_policy import LinkPolicy
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import (
    CaSecretFacts,
    ClusterFacts,
    PodFacts,
    SecretKeyFacts,
    TrustBundleFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_decisions import decide_links
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import (
    MARK,
    Roll,
    RollStage,
    has_invalid_mark,
    roll_of,
    write_roll,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.issuing import (
    Issuing,
    ManagedCertificate,
    Method,
    issuing_of,
    next_run,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.roll_facts import (
    JobFacts,
    KeysFacts,
    Reader,
    ReaderTrust,
    RollFacts,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.certificates import (
    CertificateProblem,
    describe,
    load_certificates,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.rolls import _query_reader, parse_reader_trust
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import ApiWrite, IssuedAgain
from tests.lab.profiles.pki import issue, make_ca
from tests.testing.facts_builders import NOW, certificate, cluster_facts, failure, key_facts, mesh_of, peer_secret, tls_secret
from tests.testing.rows import one_test
from tests.testing.waiting import PATIENT

SERVER = "clustermesh-apiserver-server-cert"


@one_test(
    "schedule now wanted",
    ("0 0 1 */4 *", "2026-09-01T12:00", "2027-01-01T00:00"),  # the charts'
    ("0 0 1 */4 *", "2026-08-31T12:00", "2026-09-01T00:00"),
    ("30 6 * * 1-5", "2026-11-20T06:30", "2026-11-23T06:30"),  # a Friday
    ("*/20 * * * *", "2026-11-20T06:59", "2026-11-20T07:00"),
    ("0 0 13 * 5", "2026-11-01T00:00", "2026-11-06T00:00"),  # a day of month or a day of week
    ("0 0 29 2 *", "2026-11-01T00:00", "2028-02-29T00:00"),
    ("0 0 * * 7", "2026-11-20T00:00", "2026-11-22T00:00"),
    ("0 0 31 2 *", "2026-11-01T00:00", ""),
    ("@monthly", "2026-11-01T00:00", ""),
    ("0 24 * * *", "2026-11-01T00:00", ""),
    ("TZ=UTC 0 0 * * *", "2026-11-01T00:00", ""),
)
def test_when_a_cron_job_runs_next(schedule: str, now: str, wanted: str) -> None:
    found = next_run(schedule, datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert (found.strftime("%Y-%m-%dT%H:%M") if found else "") == wanted


TROUBLESHOOT = """Found 2 cluster configurations

Cluster "c2":
📄 Configuration path: /var/lib/cilium/clustermesh/c2

🔌 Endpoints:
   - https://c2.mesh.cilium.io:2379
     ✅ TLS connection successfully established to 127.0.0.1:2379
     Server certificate:
        - Serial number:       99:99

🔑 Digital certificates:
   ✅ TLS Root CA certificates:
      - Serial number:       0a:bc:de
        Subject:             CN=Cilium CA
      - Serial number:       1f
        Subject:             CN=Cilium CA
   ✅ TLS client certificates:
      - Serial number:       77:01
        Subject:             CN=remote
        ⚠️ Cannot verify certificate with the configured root CAs

⚙️ Etcd client:
   ✅ Etcd connection successfully established
   Etcd cluster ID: 1

Cluster "c3":
❌ Configuration not found
"""


def test_what_a_reader_trusts_and_shows_is_read_off_its_own_words() -> None:
    shown = parse_reader_trust(TROUBLESHOOT)
    assert shown["c2"].roots == {"abcde", "1f"} and shown["c2"].client == "7701" and shown["c2"].connected
    assert shown["c3"].roots == frozenset() and not shown["c3"].client and not shown["c3"].connected
    assert parse_reader_trust("") == {} and parse_reader_trust("Error: unknown command") == {}


@pytest.mark.parametrize("kind", ["rsa", "ec"])
def test_a_leaf_is_issued_again_with_everything_but_its_key(kind: Any) -> None:
    old, new = make_ca(key_type=kind), make_ca(key_type=kind)
    leaf = issue(
        old, "server", dns=("a.example", "*.mesh.cilium.io"), ips=("127.0.0.1", "::1"), eku=("serverAuth",), days=77, key_type=kind
    )
    now = datetime.now(UTC)
    made, key = issue_again(leaf.cert_pem.encode(), new.cert_pem.encode(), new.key_pem.encode(), now=now)
    before, after = (describe(load_certificates(pem)[0]) for pem in (leaf.cert_pem.encode(), made))
    kept = ("common_name", "dns_names", "ip_addresses", "server_auth", "client_auth", "is_ca")
    assert [getattr(before, name) for name in kept] == [getattr(after, name) for name in kept]
    assert before.public_key != after.public_key and b"PRIVATE KEY" in key
    assert abs((after.not_after - now) - timedelta(days=77)) < timedelta(minutes=1)
    assert after.authority_key_id == describe(load_certificates(new.cert_pem.encode())[0]).subject_key_id
    with pytest.raises(CertificateProblem):
        issue_again(leaf.cert_pem.encode(), new.cert_pem.encode(), old.key_pem.encode(), now=now)


@pytest.mark.parametrize("kind", ["rsa", "ec"])
def test_a_new_ca_is_of_the_old_ones_kind_and_signs(kind: Any) -> None:
    old = make_ca(key_type=kind)
    made, key = new_authority(old.cert_pem.encode(), "Cilium CA", now=datetime.now(UTC), days=10)
    before, after = (x509.load_pem_x509_certificate(pem) for pem in (old.cert_pem.encode(), made))
    assert type(before.public_key()) is type(after.public_key())
    facts = describe(after)
    assert facts.is_ca and facts.common_name == "Cilium CA" and facts.subject_key_id
    issue_again(issue(old, "x", key_type="ec").cert_pem.encode(), made, key, now=datetime.now(UTC))


def test_a_mark_says_what_was_written_and_nothing_else_is_believed() -> None:
    roll = Roll(stage=RollStage.TRUST, owner="0" * 12, old="old\n", new="new\n")
    assert roll_of(CaSecretFacts(annotations={MARK: write_roll(roll)})) == roll
    assert roll.bundle == "old\nnew\n"
    for text in (
        *("{", "[]", "{}", '{"stage":"later","owner":"","old":"","new":""}', '{"stage":"trust","owner":1,"old":"","new":""}', "[" * 70000),
    ):
        ca = CaSecretFacts(annotations={MARK: text})
        assert roll_of(ca) is None and has_invalid_mark(ca)
    assert not has_invalid_mark(CaSecretFacts())


def test_a_mark_that_holds_no_certificate_proves_nothing_and_breaks_nothing() -> None:
    mark = write_roll(Roll(stage=RollStage.CLIENTS, owner="0" * 12, old="no PEM", new="no PEM"))
    facts = replace(cluster_facts("c1"), ca=CaSecretFacts(present=True, annotations={MARK: mark}))
    assert _issued_by_next_ca(facts, SecretStore()) == frozenset()


def issuing(method: Method, **more: Any) -> Issuing:
    return Issuing(method=method, **more)


def test_who_issues_is_reported_by_what_is_there() -> None:
    helm = cluster_facts("c1")
    cron = {"metadata": {"uid": "u"}, "spec": {"schedule": "0 0 1 */4 *", "jobTemplate": {"spec": {}}}}
    assert issuing_of(helm, None, ()).method is Method.HELM
    found = issuing_of(helm, cron, ())
    assert found.method is Method.CERTGEN and found.next_renewal(NOW) == "2027-01-01T00:00:00Z"
    assert issuing_of(helm, {**cron, "spec": {**cron["spec"], "suspend": True}}, ()).next_renewal(NOW) == ""  # type: ignore[dict-item]  # the spec is a mapping
    managed = ManagedCertificate(name="server", secret=SERVER, renewal_time="2026-10-01T00:00:00Z")
    assert issuing_of(helm, cron, (managed,)).next_renewal(NOW) == "2026-10-01T00:00:00Z"
    brought = replace(helm, server_cert=tls_secret(SERVER, "server", signer="Another CA", owner="kubectl"))
    assert issuing_of(brought, None, ()).method is Method.PROVIDED


def seen(*facts: ClusterFacts, method: Method = Method.HELM, **roll: Any) -> RollInputs:
    known = {"issuing": issuing(method), **roll}
    return RollInputs(
        mesh=mesh_of(*(f.host for f in facts)),
        now=NOW,
        facts={f.host: f for f in facts},
        rolls={f.host: RollFacts(host=f.host, **known) for f in facts},
    )


C1, C2 = cluster_facts("c1"), cluster_facts("c2")


def codes(what: RollInputs, accept: frozenset[str] = frozenset()) -> list[str]:
    return [finding.code for finding in roll_blockers(what, ("c1",), accept) if finding.blocks]


def test_what_forbids_a_roll() -> None:
    assert codes(seen(C1, C2)) == []
    assert codes(seen(C1, C2, method=Method.PROVIDED)) == ["CM-CA-05"]
    assert codes(seen(C1, C2, method=Method.CERT_MANAGER)) == ["CM-CA-05"]
    good = tuple(
        ManagedCertificate(name=n, secret=f"clustermesh-apiserver-{n}-cert", issuer_secret="cilium-ca") for n in ("server", "admin")
    )
    assert codes(seen(C1, C2, issuing=issuing(Method.CERT_MANAGER, certificates=good))) == ["CM-CA-05"], "two of four are covered"
    every = tuple(
        ManagedCertificate(name=n, secret=f"clustermesh-apiserver-{n}-cert", issuer_secret="cilium-ca")
        for n in ("server", "admin", "remote", "local")
    )
    assert codes(seen(C1, C2, issuing=issuing(Method.CERT_MANAGER, certificates=every))) == []
    assert codes(seen(replace(C1, ca=replace(C1.ca, has_key=False)), C2)) == ["CM-CA-05"]
    owned = replace(C1, ca=replace(C1.ca, annotations={"cert-manager.io/certificate-name": "cilium-ca"}))
    assert codes(seen(owned, C2)) == ["CM-CA-05"]
    bundle = TrustBundleFacts(kind="ConfigMap", name="cilium-root-ca.crt", key="ca.crt", present=True)
    assert codes(seen(replace(C1, ca_bundle=bundle), C2)) == ["CM-CA-05"]
    assert codes(seen(C1, C2, job=JobFacts(present=True, failed=True))) == ["CM-CA-06"]
    text = "endpoints:\n- https://other.mesh.cilium.io:2379\n"
    foreign = replace(C1, kvstoremesh=peer_secret("cilium-kvstoremesh", {"other": key_facts(text, managers=("helm",), config=text)}))
    assert codes(seen(foreign, C2)) == ["CM-CA-04"]
    assert codes(seen(foreign, C2), frozenset({"CM-CA-04"})) == []


def test_a_roll_of_another_binding_is_not_touched() -> None:
    mine = mesh_of("c1", "c2").binding.owner
    for owner, keys, wanted in (("f" * 12, KeysFacts(), ["CM-CA-03"]), (mine, KeysFacts(), ["CM-CA-03"])):
        mark = write_roll(Roll(stage=RollStage.TRUST, owner=owner, old="o", new="n"))
        assert codes(seen(replace(C1, ca=replace(C1.ca, annotations={MARK: mark})), C2, keys=keys)) == wanted
    mark = write_roll(Roll(stage=RollStage.TRUST, owner=mine, old="o", new="n"))
    whole = KeysFacts(present=True, old="o", new="n", complete=True)
    assert codes(seen(replace(C1, ca=replace(C1.ca, annotations={MARK: mark})), C2, keys=whole)) == []


def test_who_holds_a_roll_is_named() -> None:
    found = unanswered_findings(mesh_of("c1", "c2"), {"c2": failure("c2")}, RollStage.TRUST)
    assert [f.cluster for f in found] == ["c2"] and "stage trust" in found[0].summary
    waits = [StageWait(cluster="c1", text=f"thing {n}") for n in range(9)]
    one = unproven_stage_findings(waits, RollStage.LEAVES, 30)
    assert len(one) == 1 and "and 4 more" in one[0].evidence and "30 s" in one[0].summary


def test_each_method_issues_in_its_own_way() -> None:
    roll = Roll(stage=RollStage.LEAVES, owner="0" * 12, old="o", new="n")
    stale = (C1.admin_cert, C1.server_cert)
    by_hand = list(server_steps(C1, issuing(Method.HELM), JobFacts(), stale, roll))
    assert [step.object for step in by_hand] == [f"Secret kube-system/{leaf.name}" for leaf in stale]
    action = by_hand[1].action
    assert isinstance(action, ApiWrite) and action.secret_data["tls.key"] == IssuedAgain(SERVER, "key")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {"containers": []}}}}
    certgen = issuing(Method.CERTGEN, cron_uid="uid", job_template=template)
    (made,) = server_steps(C1, certgen, JobFacts(), stale, roll)
    assert isinstance(made.action, ApiWrite) and made.action.body["spec"] == template["spec"]
    assert made.action.body["metadata"]["ownerReferences"][0]["uid"] == "uid"
    assert list(server_steps(C1, certgen, JobFacts(present=True, uid="j"), stale, roll)) == [], "it runs"
    (gone,) = server_steps(C1, certgen, JobFacts(present=True, uid="j", succeeded=True), (), roll)
    assert gone.verb == "delete"
    first = {"type": "Ready", "status": "True"}
    managed = ManagedCertificate(name="server", secret=SERVER, resource_version="4", conditions=(first,))
    manager = issuing(Method.CERT_MANAGER, certificates=(managed,))
    (asked,) = client_steps(C1, manager, stale, roll)
    assert isinstance(asked.action, ApiWrite) and asked.action.path.endswith("/certificates/server/status")
    conditions = asked.action.body["status"]["conditions"]
    assert conditions[0] == first and (conditions[1]["type"], conditions[1]["status"]) == ("Issuing", "True")
    under_way = issuing(Method.CERT_MANAGER, certificates=(replace(managed, issuing=True),))
    assert list(client_steps(C1, under_way, stale, roll)) == []


def test_the_report_names_what_ends_first_and_when_ours_is_renewed() -> None:
    minted = certificate("remote-c1", signer=C2.ca.certificates[0].common_name, days=20)
    keys = {"c2": key_facts("y", config="endpoints:\n"), "c2.etcd-client.crt": SecretKeyFacts(digest="d", certificate=minted)}
    one = replace(C1, kvstoremesh=peer_secret("cilium-kvstoremesh", keys))
    mesh, facts = mesh_of("c1", "c2"), {"c1": one, "c2": C2}
    report = trust_report(decide_links(mesh, facts, LinkPolicy(), NOW), {"c1": issuing(Method.HELM)}, renew_before_days=30)
    first = report["pairs"][0]
    assert (first["mode"], first["expiresFirst"], first["due"], first["issuer"]) == ("minted", "client", True, "c2")
    assert first["certificates"]["serverCa"]["fingerprint"] == C2.ca.certificates[0].fingerprint
    assert report["pairs"][1]["connected"] is False and report["pairs"][1]["certificates"]["client"] is None
    assert [row["method"] for row in report["clusters"]] == ["helm", ""]
    shared = [cluster_facts(host, ca="one") for host in ("c1", "c2")]
    facts = {f.host: f for f in shared}
    pairs = trust_report(decide_links(mesh, facts, LinkPolicy(), NOW), {}, renew_before_days=30)["pairs"]
    assert {pair["mode"] for pair in pairs} == {"same_ca"} and not any(pair["renewFrom"] for pair in pairs)


class Stream:
    """The forwarded connection, led to a socket."""

    def __init__(self, sock: Any) -> None:
        self.sock = sock

    def send_binary(self, data: bytes) -> None:
        self.sock.sendall(data[1:])


@pytest.mark.parametrize(("signer", "accepted"), [("own", True), ("other", False)])
def test_a_handshake_reports_which_client_a_server_accepts_and_what_it_shows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, signer: str, accepted: bool
) -> None:
    """A real TLS 1.3 server with client authentication, as etcd is one; the port-forward is played."""
    cas = {"own": make_ca(key_type="ec"), "other": make_ca(key_type="ec")}
    server = issue(cas["own"], "server", dns=("x",), key_type="ec")
    client = issue(cas[signer], "remote", key_type="ec")
    for name, text in (("ca", cas["own"].cert_pem), ("server", server.cert_pem + server.key_pem)):
        (tmp_path / name).write_text(text)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(tmp_path / "server")
    client_end, server_end = socketpair()

    def serve() -> None:
        try:
            with context.wrap_socket(server_end, server_side=True) as wrapped:
                wrapped.recv(1)
        except OSError:
            server_end.close()

    thread = threading.Thread(target=serve)
    thread.start()

    @contextmanager
    def connected(*_: Any) -> Iterator[Stream]:
        yield Stream(client_end)

    def frames(stream: Stream, *_: Any) -> Iterator[tuple[int, bytes]]:
        yield from ((0, b"\x4b\x09"), (1, b"\x4b\x09"))
        while data := stream.sock.recv(65536):
            yield 0, data

    monkeypatch.setattr(tls, "connected_stream", connected)
    monkeypatch.setattr(tls, "channel_frames", frames)
    place = Server(cluster="c1", address="x:1", proxied=False, client_certificate_ends=None)
    unused: Any = None
    with tls.client_context(client.cert_pem.encode(), client.key_pem.encode()) as shown:
        found = tls.run_handshake(unused, place, "/api/v1/namespaces/x/pods/y/portforward", 2379, shown, connect=PATIENT, timeout=PATIENT)
    client_end.close()
    thread.join()
    assert found.accepted is accepted, found.reason
    if accepted:
        assert x509.load_der_x509_certificate(found.served).serial_number == load_certificates(server.cert_pem.encode())[0].serial_number
    else:
        assert found.reason


def test_a_source_that_cannot_sign_is_refused_before_anything_is_stored() -> None:
    good, bad = cluster_facts("c1"), cluster_facts("c2", ca=replace(cluster_facts("c2").ca, key_matches=False))
    what = seen(good, bad)
    assert "CM-CA-05" not in [f.code for f in roll_blockers(what, ("c1",), frozenset())]
    assert [f.cluster for f in roll_blockers(what, ("c1",), frozenset(), source="c2") if f.code == "CM-CA-05"] == ["c2"]


def test_two_unknown_certificates_are_no_proof() -> None:
    facts = (cluster_facts("c1"), cluster_facts("c2"))
    both = frozenset({"1", "2"})
    reader = Reader(server="c2", kind="kvstoremesh", pod="p", trust=ReaderTrust(roots=both, connected=True))
    what = replace(seen(*facts), rolls={"c1": RollFacts(host="c1", issuing=issuing(Method.HELM), readers=(reader,))})
    texts = [wait.text for wait in reader_waits(what, "c2", both, exact=False, client=True) if wait.cluster == "c1"]
    assert texts == ["kvstoremesh in pod p of c1 does not show c2 its new certificate yet"]


def test_words_of_a_peer_in_a_readers_answer_prove_nothing() -> None:
    class Pod:
        def exec(self, *_args: Any, **_more: Any) -> ExecResult:
            section = "✅ Etcd connection successfully established\n"
            forged = f'Cluster "c2":\nEtcd client:\nCluster "c3":\nEtcd client:\n{section}Cluster "c3":\n'
            return ExecResult(exit_code=0, stdout=forged, stderr="")

    pod: Any = Pod()
    running = PodFacts(name="p", node="n", ready=True, phase="Running")
    found = _query_reader(pod, "kvstoremesh", running, {"c2": "c2", "c3": "c3"})
    assert [(reader.server, "mixed" in reader.problem, reader.trust) for reader in found] == [
        ("c2", True, ReaderTrust()),
        ("c3", True, ReaderTrust()),
    ]
