# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Observation of one cluster for a CA roll: issuing method, trust of readers, and what the mesh etcd presents and accepts.

Reads only. ``problem`` says what could not be read: an unknown never counts as proof.

``kvstoremesh-dbg troubleshoot`` and ``cilium troubleshoot clustermesh`` read the files of their pod, list their certificates by
serial number, and connect with them (Cilium 1.15 to 1.20, pkg/kvstore/etcd_debug.go). Configuration and CA of a peer are in one
Secret: where the new CA has arrived, the new comment of the configuration has as well, on which the reader reconnects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Final

from ..base.errors import ClusterError
from ..base.json_fields import mapping, number, secret_values, text
from ..base.sealed import SecretStore
from ..kube.client import Cluster
from ..mesh.binding.model import Mesh
from ..mesh.facts.cluster import ClusterFacts, PodFacts
from ..mesh.trust.ca_roll import Roll, RollStage, keys_secret, roll_of
from ..mesh.trust.roll_facts import EtcdPod, JobFacts, KeysFacts, Reader, ReaderTrust, RollFacts, job_name
from ..mesh.x509.certificates import CertificateProblem, Issuer, is_signed_by, load_certificates, load_der
from . import Observation
from .issuing import read_issuing
from .pods import AGENT, APISERVER, pod_facts
from .reads import pods_read
from .troubleshoot import in_order

_CLUSTER: Final = re.compile(r'^Cluster "([^"\n]{1,63})":$', re.MULTILINE)
_CONNECTED: Final = "✅ Etcd connection successfully established"
_ROOTS: Final = "TLS Root CA certificates:"
_CLIENTS: Final = "TLS client certificates:"
_ETCD: Final = "Etcd client:"
_SERIAL: Final = re.compile(r"^[ \t]*- Serial number:[ \t]+([0-9a-fA-F:]{1,128})[ \t]*$", re.MULTILINE)
_LIMIT: Final = 1024 * 1024


def parse_reader_trust(output: str) -> dict[str, ReaderTrust]:
    """Return the trust of a reader, by the peer's Cilium name."""
    parts = _CLUSTER.split(output[:_LIMIT])
    return {name: _parse_section(section) for name, section in zip(parts[1::2], parts[2::2], strict=True)}


def _parse_section(section: str) -> ReaderTrust:
    before, _sep, etcd = section.rpartition(_ETCD)
    head, _sep, clients = (before or section).partition(_CLIENTS)
    roots = head.partition(_ROOTS)[2]
    shown = _SERIAL.search(clients)
    return ReaderTrust(
        roots=frozenset(_normalised(serial) for serial in _SERIAL.findall(roots)),
        client=_normalised(shown[1]) if shown else "",
        connected=_CONNECTED in etcd,
    )


def _normalised(serial: str) -> str:
    return serial.replace(":", "").lower().lstrip("0")


ETCD_PORT: Final = 2379  # --listen-client-urls of the mesh etcd in every chart, always on the pod's own localhost too
PROBE_USER: Final = "remote"  # no request reaches etcd: the connection ends with the handshake
PROBE_DAYS: Final = 1
READERS_AT_ONCE: Final = 8
SECONDS_PER_PEER: Final = 2
KEYS: Final = ("old.crt", "old.key", "new.crt", "new.key")


def observe_rolls(observation: Observation, mesh: Mesh, now: datetime, *, parallel: int = 10) -> dict[str, RollFacts]:
    """Observe every member that answers. Values of our Secrets go into the observation's SecretStore.

    :raises ClusterError: a member does not answer any more.
    """
    rolling = {
        host: roll for host, facts in observation.facts.items() if (roll := roll_of(facts.ca)) and roll.stage is not RollStage.PREPARE
    }
    hosts = [host for host in mesh.clusters if host in observation.facts]

    def one(host: str) -> RollFacts:
        cluster, facts = observation.clusters[host], observation.facts[host]
        owner = mesh.binding.owner
        keys = _keys(cluster, facts, owner, observation.secrets)
        pods = pods_read(facts.namespace).run(cluster) if rolling else []
        roll = rolling.get(host)
        return RollFacts(
            host=host,
            issuing=read_issuing(observation, host),
            keys=keys,
            job=_job(cluster, facts, owner) if roll else JobFacts(),
            pods=_etcd_pods(cluster, facts, pod_facts(pods, APISERVER), roll, observation.secrets, owner, now) if roll else (),
            readers=_readers(cluster, facts, observation.facts, mesh, rolling, pods),
        )

    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        return dict(zip(hosts, pool.map(one, hosts), strict=True))


def _keys(cluster: Cluster, facts: ClusterFacts, owner: str, store: SecretStore) -> KeysFacts:
    name = keys_secret(owner)
    found = cluster.get(f"/api/v1/namespaces/{facts.namespace}/secrets/{name}")
    if found is None:
        return KeysFacts()
    values = secret_values(found)
    for key in KEYS:
        if values.get(key):
            store.put(facts.host, name, key, values[key])
    return KeysFacts(
        present=True,
        uid=text(found, "metadata", "uid"),
        resource_version=text(found, "metadata", "resourceVersion"),
        old=_pem_text(values.get("old.crt", b"")),
        new=_pem_text(values.get("new.crt", b"")),
        complete=all(values.get(key) for key in KEYS),
    )


def _pem_text(value: bytes) -> str:
    """Return the text if it is a certificate; else "".

    It goes into an annotation that is readable to more users than the Secret, so a private key in the wrong place must not be copied.
    """
    try:
        load_certificates(value)
        decoded = value.decode("ascii")
    except (CertificateProblem, ValueError):
        return ""
    return "" if "PRIVATE KEY" in decoded else decoded


def _job(cluster: Cluster, facts: ClusterFacts, owner: str) -> JobFacts:
    found = cluster.get(f"/apis/batch/v1/namespaces/{facts.namespace}/jobs/{job_name(owner)}")
    if found is None:
        return JobFacts()
    conditions = mapping(found, "status").get("conditions")
    kinds = {text(c, "type") for c in conditions if text(c, "status") == "True"} if isinstance(conditions, list) else set()
    return JobFacts(
        present=True,
        uid=text(found, "metadata", "uid"),
        succeeded="Complete" in kinds or number(found, "status", "succeeded") > 0,
        failed="Failed" in kinds,
    )


def _etcd_pods(
    cluster: Cluster, facts: ClusterFacts, pods: Iterable[PodFacts], roll: Roll, store: SecretStore, owner: str, now: datetime
) -> tuple[EtcdPod, ...]:
    """Return the state of each running pod, to which a certificate of either CA is presented."""
    pairs = {which: _client_pair(facts.host, owner, which, store, now) for which in ("old", "new")}
    return tuple(_etcd_pod(cluster, pod, roll, pairs) for pod in pods if pod.phase == "Running")


def _client_pair(host: str, owner: str, which: str, store: SecretStore, now: datetime) -> tuple[bytes, bytes] | None:
    """Return a client certificate and key for the handshake alone; None when that CA cannot sign (any more)."""
    try:
        certificate, key = (store.get(host, keys_secret(owner), f"{which}.{part}").reveal() for part in ("crt", "key"))
        issuer = Issuer(certificate, key)
        made, private = issuer.client_certificate(PROBE_USER, now=now, days=PROBE_DAYS)
    except (KeyError, CertificateProblem):
        return None
    return made + issuer.intermediates, private


def _etcd_pod(cluster: Cluster, pod: PodFacts, roll: Roll, pairs: Mapping[str, tuple[bytes, bytes] | None]) -> EtcdPod:
    accepted: dict[str, bool] = {}
    serves = ""
    for which, pair in pairs.items():
        if pair is None:
            accepted[which] = False
            continue
        try:
            shake = cluster.forward_handshake(pod.name, ETCD_PORT, *pair)
        except ClusterError as error:
            return EtcdPod(name=pod.name, ready=pod.ready, problem=error.clause)
        accepted[which] = shake.accepted
        serves = serves or _signer(shake.served, roll)
    return EtcdPod(name=pod.name, ready=pod.ready, accepts_old=accepted["old"], accepts_new=accepted["new"], serves=serves)


def _signer(served: bytes, roll: Roll) -> str:
    """Return which CA issued the certificate ``served``: "new", "old" or ""."""
    try:
        leaf = load_der(served)
        for which, pem in (("new", roll.new), ("old", roll.old)):
            if any(is_signed_by(authority, leaf) for authority in load_certificates(pem.encode())):
                return which
    except CertificateProblem:
        pass
    return ""


def _readers(
    cluster: Cluster, facts: ClusterFacts, every: Mapping[str, ClusterFacts], mesh: Mesh, rolling: Mapping[str, Roll], pods: list[object]
) -> tuple[Reader, ...]:
    """Return the readers of the etcds that roll.

    They are kvstoremesh, or the agents where none runs, for the peers that roll; and the agents behind kvstoremesh if their own etcd
    rolls.
    """
    linked = {host: every[host].name for host in every if mesh.linked(facts.host, host)}
    peers = {host: name for host, name in linked.items() if host in rolling}
    agents = [pod for pod in pod_facts(pods, AGENT) if pod.ready]
    wanted: list[tuple[str, PodFacts, dict[str, str]]] = []
    if facts.runs_kvstoremesh:
        meshes = [pod for pod in pod_facts(pods, APISERVER) if pod.phase == "Running"]
        wanted += [("kvstoremesh", pod, peers) for pod in meshes if peers]
        own = dict(list(linked.items())[:1]) if facts.host in rolling else {}  # all peers use one Secret, so one peer is enough
        wanted += [("agent", pod, {facts.host: name}) for pod in agents for name in own.values()]
    elif peers:
        wanted += [("agent", pod, peers) for pod in agents]
    with ThreadPoolExecutor(READERS_AT_ONCE) as pool:
        answers = pool.map(lambda item: _query_reader(cluster, *item), wanted)
        return tuple(reader for found in answers for reader in found)


COMMANDS: Final = {
    "kvstoremesh": ("kvstoremesh", "/usr/bin/clustermesh-apiserver", "kvstoremesh-dbg", "troubleshoot"),
    "agent": ("cilium-agent", "cilium", "troubleshoot", "clustermesh"),
}
"""Container, then the command."""


def _query_reader(cluster: Cluster, kind: str, pod: PodFacts, servers: Mapping[str, str]) -> list[Reader]:
    """Return what the troubleshoot command of one pod reports of each server."""
    container, *command = COMMANDS[kind]
    limit = float((SECONDS_PER_PEER + 1) * len(servers) + 5)
    try:
        answer = cluster.exec(pod.name, container, [*command, f"--timeout={SECONDS_PER_PEER}s", *servers.values()], timeout=limit)
        shown, problem = parse_reader_trust(answer.stdout), ""
        if not shown:
            problem = f"its troubleshoot command reports nothing about its peers (exit code {answer.exit_code})"
        elif not in_order(answer.stdout, servers.values()):
            shown, problem = {}, "text of a peer is mixed into the output of its troubleshoot command"
    except ClusterError as error:
        shown, problem = {}, error.clause
    return [
        Reader(server=host, kind=kind, pod=pod.name, trust=shown.get(name, ReaderTrust()), problem=problem)
        for host, name in servers.items()
    ]
