# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a roll has to know of a cluster besides the common facts: who issues, who trusts whom, what the mesh etcd shows and accepts.

Reads only. What cannot be asked is said in ``problem``: not knowing never counts as proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ..certificates import CertificateProblem, Issuer, issued, load_certificates, load_der
from ..errors import ClusterError
from ..facts import ClusterFacts, PodFacts
from ..kube import Cluster
from ..model import Mesh
from ..observe import Observation
from ..observe.objects import mapping, number, secret_values, text
from ..observe.pods import AGENT, APISERVER, pod_facts
from ..observe.reads import pods_read
from ..observe.troubleshoot import in_order
from ..secrets import SecretStore
from .methods import Issuing, read_issuing
from .readers import Shown, parse_shown
from .signing import serial
from .state import Roll, Stage, keys_secret, roll_of

ETCD_PORT: Final = 2379  # --listen-client-urls of the mesh etcd in every chart, always on the pod's own localhost too
PROBE_USER: Final = "remote"  # nothing is asked of etcd: the handshake ends before
PROBE_DAYS: Final = 1
READERS_AT_ONCE: Final = 8
SECONDS_PER_PEER: Final = 2
KEYS: Final = ("old.crt", "old.key", "new.crt", "new.key")


@dataclass(frozen=True, kw_only=True)
class KeysFacts:
    """Our Secret with both CAs (state.keys_secret). The certificates are PEM texts; the keys travel in the SecretStore."""

    present: bool = False
    uid: str = ""
    resource_version: str = ""
    old: str = ""
    new: str = ""
    complete: bool = False  # all four keys are there


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """The Job that issues the leaves again (certgen)."""

    present: bool = False
    uid: str = ""
    succeeded: bool = False
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class EtcdPod:
    """One pod with a mesh etcd. ``serves``: which of the two CAs signed what it shows, "old", "new" or ""."""

    name: str
    ready: bool
    accepts_old: bool = False
    accepts_new: bool = False
    serves: str = ""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One pod that reads the mesh etcd of ``server`` (inventory name), and what it says of it."""

    server: str
    kind: str  # "kvstoremesh" or "agent"
    pod: str
    shown: Shown = field(default_factory=Shown)
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class RollFacts:
    """Everything about one cluster. ``readers`` are this cluster's pods, whoever they read."""

    host: str
    issuing: Issuing
    keys: KeysFacts = field(default_factory=KeysFacts)
    job: JobFacts = field(default_factory=JobFacts)
    pods: tuple[EtcdPod, ...] = ()
    readers: tuple[Reader, ...] = ()


def job_name(owner: str) -> str:
    return f"cilium-mesh-reissue-{owner}"


def observe_rolls(observation: Observation, mesh: Mesh, now: datetime, *, parallel: int = 10) -> dict[str, RollFacts]:
    """For every member that answers. Values of our Secrets go into the observation's SecretStore.

    :raises ClusterError: one of them answers no more.
    """
    rolling = {host: roll for host, facts in observation.facts.items() if (roll := roll_of(facts.ca)) and roll.stage is not Stage.PREPARE}
    hosts = [host for host in mesh.clusters if host in observation.facts]

    def one(host: str) -> RollFacts:
        cluster, facts = observation.clusters[host], observation.facts[host]
        owner = mesh.binding.owner
        keys = _keys(cluster, facts, owner, observation.secrets)
        pods = pods_read(facts.namespace).run(cluster) if rolling else []
        roll = rolling.get(host)
        return RollFacts(
            host=host,
            issuing=read_issuing(cluster, facts),
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
    """The text where it is a certificate; it goes into a mark that everybody may read, so a key in the wrong place must not."""
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
    """Each pod is shown a certificate of either CA."""
    pairs = {which: _probe(facts.host, owner, which, store, now) for which in ("old", "new")}
    return tuple(_etcd_pod(cluster, pod, roll, pairs) for pod in pods if pod.phase == "Running")


def _probe(host: str, owner: str, which: str, store: SecretStore, now: datetime) -> tuple[bytes, bytes] | None:
    """A client certificate for the handshake alone; None when that CA can sign none (any more)."""
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
            return EtcdPod(name=pod.name, ready=pod.ready, problem=error.message)
        accepted[which] = shake.accepted
        serves = serves or _signer(shake.served, roll)
    return EtcdPod(name=pod.name, ready=pod.ready, accepts_old=accepted["old"], accepts_new=accepted["new"], serves=serves)


def _signer(served: bytes, roll: Roll) -> str:
    try:
        leaf = load_der(served)
        for which, pem in (("new", roll.new), ("old", roll.old)):
            if any(issued(authority, leaf) for authority in load_certificates(pem.encode())):
                return which
    except CertificateProblem:
        pass
    return ""


def _readers(
    cluster: Cluster, facts: ClusterFacts, every: Mapping[str, ClusterFacts], mesh: Mesh, rolling: Mapping[str, Roll], pods: list[object]
) -> tuple[Reader, ...]:
    """kvstoremesh, or the agents where none runs, of the peers that roll; the agents behind kvstoremesh of their own etcd if that rolls."""
    linked = {host: every[host].name for host in every if mesh.linked(facts.host, host)}
    peers = {host: name for host, name in linked.items() if host in rolling}
    agents = [pod for pod in pod_facts(pods, AGENT) if pod.ready]
    wanted: list[tuple[str, PodFacts, dict[str, str]]] = []
    if facts.runs_kvstoremesh:
        meshes = [pod for pod in pod_facts(pods, APISERVER) if pod.phase == "Running"]
        wanted += [("kvstoremesh", pod, peers) for pod in meshes if peers]
        own = dict(list(linked.items())[:1]) if facts.host in rolling else {}  # one Secret for all peers: one stands for every other
        wanted += [("agent", pod, {facts.host: name}) for pod in agents for name in own.values()]
    elif peers:
        wanted += [("agent", pod, peers) for pod in agents]
    with ThreadPoolExecutor(READERS_AT_ONCE) as pool:
        answers = pool.map(lambda item: _ask(cluster, *item), wanted)
        return tuple(reader for found in answers for reader in found)


COMMANDS: Final = {
    "kvstoremesh": ("kvstoremesh", "/usr/bin/clustermesh-apiserver", "kvstoremesh-dbg", "troubleshoot"),
    "agent": ("cilium-agent", "cilium", "troubleshoot", "clustermesh"),
}
"""Container, then the command."""


def _ask(cluster: Cluster, kind: str, pod: PodFacts, servers: Mapping[str, str]) -> list[Reader]:
    container, *command = COMMANDS[kind]
    limit = float((SECONDS_PER_PEER + 1) * len(servers) + 5)
    try:
        answer = cluster.exec(pod.name, container, [*command, f"--timeout={SECONDS_PER_PEER}s", *servers.values()], timeout=limit)
        shown, problem = parse_shown(answer.stdout), ""
        if not shown:
            problem = f"its troubleshoot command says nothing of its peers (exit code {answer.exit_code})"
        elif not in_order(answer.stdout, servers.values()):
            shown, problem = {}, "a peer's words are mixed into what its troubleshoot command says"
    except ClusterError as error:
        shown, problem = {}, error.message
    return [Reader(server=host, kind=kind, pod=pod.name, shown=shown.get(name, Shown()), problem=problem) for host, name in servers.items()]


def client_serials(observation: Observation, local: str, peer: str) -> str:
    """Serial number of the client certificate that ``local`` is to show ``peer``, as its Secret holds it now; "" without one."""
    facts, name = observation.facts[local], observation.facts[peer].name
    secret = facts.kvstoremesh if facts.runs_kvstoremesh else facts.clustermesh
    return serial_in(observation.secrets, local, secret.name, f"{name}.etcd-client.crt")


def serial_in(store: SecretStore, host: str, secret: str, key: str) -> str:
    """Serial number of a certificate in a Secret; "" where there is none."""
    try:
        return serial(store.get(host, secret, key).reveal())
    except (KeyError, CertificateProblem):
        return ""
