# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters in memory in which a CA roll runs with real certificates, and in which every TLS connection is judged after every single event.

Played: an API server (what the engine asks of one, with field ownership of a Secret's keys), kubelets that bring Secrets into each pod when
``settle`` says so, rolling updates, certgen's Job. Real: every line of the engine that reads, plans, mints and writes, and every signature.
What pods hold follows etcd and Cilium: an etcd reads its client CA when it starts and its own certificate at each handshake; a client reads
its CA when it connects anew, which it does when its configuration's text changes, and its certificate at each handshake.
"""

from __future__ import annotations

import itertools
import marshal
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Self

from cryptography.hazmat.primitives.serialization import Encoding

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Unreachable, WriteConflict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import ExecResult
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.tls import Handshake
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import registry_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ObserveFailure
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import MARK
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.certificates import is_signed_by, load_certificates
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import Observation, certificates, peers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.assemble import assemble
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.reads import first_read, other_reads
from tests.lab.addresses import NETWORK
from tests.lab.api import path_of
from tests.lab.profiles import CaPair, ProfileOptions, build
from tests.lab.profiles.helm import manager_of
from tests.lab.profiles.secrets import ca_of, leaf_secret, mesh_leaves

NAMESPACE = "kube-system"
MOUNT = "/var/lib/cilium/clustermesh/"
SERVER, ADMIN, REMOTE, LOCAL = (f"clustermesh-apiserver-{name}-cert" for name in ("server", "admin", "remote", "local"))
FILES = {"common-": REMOTE, "local-": LOCAL}

Object = dict[str, Any]
Data = dict[str, bytes]


class Killed(BaseException):
    """The controller was killed; no handler of the engine takes it for an error."""


@dataclass
class Pod:
    """One pod. ``seen``: the Secrets as its kubelet projected them; ``clients``: client CA that its etcd started with; ``trusted``: peer's
    name -> (text of its configuration, CA) as loaded when the client last connected anew."""

    cluster: FakeCluster
    name: str
    app: str
    ready: bool = True
    seen: dict[str, Data] = field(default_factory=dict)
    clients: bytes = b""
    own: bytes = b""  # CA by which the processes beside etcd trust it
    trusted: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)

    def project(self) -> None:
        """The kubelet brings everything up to date, each volume as a whole."""
        self.seen = {name: self.cluster.data(name) for name in (SERVER, ADMIN, REMOTE, LOCAL, "cilium-clustermesh", "cilium-kvstoremesh")}
        for peer, text in self.configurations().items():
            if self.trusted.get(peer, (b"", b""))[0] != text:
                self.trusted[peer] = (text, self.file(_config(text)["trusted-ca-file"]))
        self.trusted = {peer: value for peer, value in self.trusted.items() if peer in self.configurations()}

    def start(self) -> Self:
        self.project()
        self.clients, self.own = self.seen[SERVER]["ca.crt"], self.seen[ADMIN]["ca.crt"]
        return self

    def configurations(self) -> dict[str, bytes]:
        secret = "cilium-clustermesh" if self.app == "cilium" else "cilium-kvstoremesh"
        return {key: value for key, value in self.seen.get(secret, {}).items() if b"endpoints:" in value}

    def file(self, path: str) -> bytes:
        """A file of the projected volume; b"" when it is not there."""
        name = path.removeprefix(MOUNT)
        for prefix, secret in FILES.items():
            if name.startswith(f"{prefix}etcd-client"):
                key = {"-ca.crt": "ca.crt", ".crt": "tls.crt", ".key": "tls.key"}[name.removeprefix(f"{prefix}etcd-client")]
                return self.seen.get(secret, {}).get(key, b"")
        secret = "cilium-clustermesh" if self.app == "cilium" else "cilium-kvstoremesh"
        return self.seen.get(secret, {}).get(name, b"")

    def client(self, peer: str) -> bytes:
        return self.file(_config(self.configurations()[peer])["cert-file"])


class FakeCluster:
    """One API server and the pods behind it, as the engine's ``Cluster``."""

    def __init__(self, world: RollWorld, options: ProfileOptions) -> None:
        self.world, self.options, self.host = world, options, options.cluster_name
        self.namespace = NAMESPACE
        self.requests: Counter[str] = Counter()
        self.objects: dict[str, Object] = {}
        self.owners: dict[str, dict[str, set[str]]] = {}
        self.applied: dict[tuple[str, str], set[str]] = {}
        self._versions = itertools.count(1)
        self._install()
        self.generation = 1
        self.agents = [self._pod("cilium", start=False)]
        self.meshes = [self._pod("clustermesh-apiserver")]
        self.going: list[Pod] = []

    def _install(self) -> None:
        for manifest in build(self.options):
            if manifest["kind"] == "Secret":
                manifest = {**manifest, "metadata": dict(manifest["metadata"])}
            self._put(path_of(manifest), manifest, manager_of(self.options, manifest))
        number = self.options.cluster_id
        service = self.objects[f"/api/v1/namespaces/{NAMESPACE}/services/clustermesh-apiserver"]
        service["status"] = {"loadBalancer": {"ingress": [{"ip": f"192.0.2.{number}"}]}}
        self.objects[f"/api/v1/namespaces/{NAMESPACE}"] = {"metadata": {"uid": f"uid-{self.host}"}}
        self.objects["/version"] = {"gitVersion": "v1.36.4"}
        address = [{"type": "InternalIP", "address": f"10.200.{number}.1"}]
        self.objects["/api/v1/nodes"] = {
            "items": [{"metadata": {"name": "n1"}, "spec": {}, "status": {"addresses": address, "conditions": [_true("Ready")]}}]
        }
        ipam = {"podCIDRs": [f"10.{number}.1.0/24"]}
        self.objects["/apis/cilium.io/v2/ciliumnodes"] = {"items": [{"metadata": {"name": "n1"}, "spec": {"ipam": ipam}}]}

    def _pod(self, app: str, *, start: bool = True) -> Pod:
        pod = Pod(cluster=self, name=f"{app}-{next(self._versions)}", app=app)
        pod.project()
        return pod.start() if start else pod

    @property
    def pods(self) -> list[Pod]:
        return [*self.agents, *self.meshes, *self.going]

    @property
    def serving(self) -> list[Pod]:
        """Pods behind the Service."""
        return [pod for pod in self.meshes if pod.ready]

    def data(self, name: str) -> Data:
        found = self.objects.get(self._secret(name), {})
        return {key: b64decode(value) for key, value in (found.get("data") or {}).items()}

    def mark(self) -> str:
        return str(self.objects[self._secret("cilium-ca")]["metadata"].get("annotations", {}).get(MARK, ""))

    def _secret(self, name: str) -> str:
        return f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}"

    # What pods do by themselves

    def settle(self) -> Iterator[str]:
        """One thing after the other that time brings: each is yielded after it happened."""
        for pod in (*self.pods,):
            pod.project()
            yield f"{pod.name} projected"
        work = self.objects[f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/clustermesh-apiserver"]
        if work["metadata"].get("generation", 1) != self.generation:
            self.generation = work["metadata"]["generation"]
            fresh = self._pod("clustermesh-apiserver")
            fresh.ready = False
            self.meshes.append(fresh)
            yield "a new pod starts"
            fresh.ready = True
            yield "the new pod is ready"
            self.going, self.meshes = self.meshes[:-1], [fresh]
            yield "the old pod goes"
            self.going = []
        yield from self._run_jobs()

    def crash(self) -> None:
        """The mesh pod is thrown off its node: another one starts at once from what the Secrets hold now."""
        self.meshes = [self._pod("clustermesh-apiserver")]

    def run_certgen(self) -> Iterator[str]:
        """certgen, by hand or by its CronJob: every leaf from cilium-ca, one after the other."""
        ca = ca_of(self.objects[self._secret("cilium-ca")])
        for leaf in mesh_leaves(self.options):
            made = leaf_secret(self.options, leaf, CaPair(ca.cert_pem, ca.key_pem))
            self._update(self._secret(leaf.secret), {"data": made["data"]}, "cilium-certgen")
            yield f"certgen wrote {leaf.secret}"

    def _run_jobs(self) -> Iterator[str]:
        for path, job in list(self.objects.items()):
            if "/jobs/" in path and not job.get("status"):
                yield from self.run_certgen()
                if path in self.objects:
                    self.objects[path]["status"] = {"succeeded": 1, "conditions": [_true("Complete")]}

    # The engine's client

    def close(self) -> None:
        pass

    def server_time(self) -> None:
        """Answers have no date here."""

    def get(self, path: str) -> Object | None:
        self._asked("get", path)
        found = self.objects.get(path)
        if found is None:
            return None
        return self._shown(path, found)

    def list(self, path: str, *, label_selector: str = "") -> list[Object]:
        self._asked("list", path)
        if path.endswith("/pods"):
            return [self._pod_object(pod) for pod in (*self.agents, *self.meshes)]
        return deepcopy(self.objects.get(path, {}).get("items", []))

    def count(self, path: str) -> int:
        self._asked("list", path)
        return len(self.objects.get(path, {}).get("items", []))

    def page(self, path: str, *, field_selector: str) -> Object:
        """Return the object with the name that the selector has, if there is one, as a list."""
        self._asked("list", path)
        found = self.objects.get(f"{path}/{field_selector.removeprefix('metadata.name=')}")
        return {"metadata": {"resourceVersion": "1"}, "items": [deepcopy(found)] if found else []}

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> Object:
        self._write("create", path)
        target = f"{path}/{body['metadata']['name']}"
        if target in self.objects:
            raise WriteConflict(f"{target} exists", cluster=self.host)
        return self._put(target, dict(body), manager)

    def apply(self, path: str, body: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> Object:
        self._write("patch", path)
        if path not in self.objects:
            made = self._put(path, dict(body), manager)
            self.applied[(path, manager)] = set(body.get("data") or {})
            return made
        if "/secrets/" not in path and "/configmaps/" not in path:
            return self._apply_aliases(path, body, manager)
        found, owners = self.objects[path], self.owners[path]
        data: Object = dict(body.get("data") or {})
        for key, value in data.items():
            if (found.get("data") or {}).get(key) != value and owners.get(key, set()) - {manager}:
                raise WriteConflict(f"{key} of {path} belongs to {sorted(owners[key])}", cluster=self.host)
        for key in self.applied.get((path, manager), set()) - set(data):
            owners[key].discard(manager)
            if not owners[key]:
                del owners[key], found["data"][key]
        self._merge(path, {"data": data, "metadata": _marks(body)}, manager, share=True)
        self.applied[(path, manager)] = set(data)
        return found

    def _apply_aliases(self, path: str, body: Mapping[str, Any], manager: str) -> Object:
        """hostAliases of a pod template; no other writer has any here."""
        wanted = ((body.get("spec") or {}).get("template") or {}).get("spec", {}).get("hostAliases") or []
        self.applied[(path, manager)] = {alias["ip"] for alias in wanted}
        return self._update(path, {"spec": {"template": {"spec": {"hostAliases": wanted or None}}}}, manager)

    def merge_patch(self, path: str, body: Mapping[str, Any], *, manager: str, dry_run: bool = False) -> Object:
        self._write("patch", path)
        wanted = body.get("metadata") or {}
        found = self.objects.get(path)
        if found is None:
            raise WriteConflict(f"{path} is gone", cluster=self.host)
        if wanted.get("resourceVersion") not in (None, found["metadata"]["resourceVersion"]):
            raise WriteConflict(f"{path} has changed", cluster=self.host)
        return self._update(path, body, manager)

    def delete(self, path: str, *, uid: str = "", resource_version: str = "") -> None:
        self._write("delete", path)
        found = self.objects.get(path)
        if found and resource_version and found["metadata"]["resourceVersion"] != resource_version:
            raise WriteConflict(f"{path} has changed", cluster=self.host)
        self.objects.pop(path, None)

    def get_text(self, path: str, *, timeout: float = 5.0) -> str:
        raise Unreachable("pods/proxy is not played", cluster=self.host)

    def exec(self, pod: str, container: str, command: Iterable[str], *, timeout: float = 10.0, partial: bool = False) -> ExecResult:
        """``troubleshoot``, with the files of that pod, in Cilium's words; other commands fail."""
        self._asked("create", "pods/exec")
        words = list(command)
        if "troubleshoot" not in words:
            return ExecResult(stdout="", stderr="", exit_code=1)
        names = [word for word in words[words.index("troubleshoot") + 1 :] if not word.startswith("-") and word != "clustermesh"]
        found = next((p for p in (*self.agents, *self.meshes) if p.name == pod), None)
        if found is None:
            raise Unreachable(f"pod {pod} is gone", cluster=self.host)
        return ExecResult(stdout="".join(self.world.troubleshoot(found, name) for name in names), stderr="", exit_code=0)

    def forward_handshake(self, pod: str, port: int, certificate: bytes, key: bytes, *, timeout: float = 10.0) -> Handshake:
        self._asked("create", "pods/portforward")
        found = next((p for p in self.meshes if p.name == pod), None)
        if found is None:
            raise Unreachable(f"pod {pod} is gone", cluster=self.host)
        served = load_certificates(found.seen[SERVER]["tls.crt"])[0]
        return Handshake(accepted=_vouches(found.clients, certificate), served=served.public_bytes(Encoding.DER))

    # Inside

    def _asked(self, verb: str, path: str) -> None:
        self.requests[f"{verb} {path.rpartition('/')[0]}"] += 1

    def _write(self, verb: str, path: str) -> None:
        self._asked(verb, path)
        self.world.before_write()

    def _put(self, path: str, obj: Object, manager: str) -> Object:
        made = deepcopy(obj)
        made["metadata"] |= {"uid": f"uid-{next(self._versions)}", "resourceVersion": str(next(self._versions)), "generation": 1}
        self.objects[path] = made
        self.owners[path] = {key: {manager} for key in made.get("data") or {}}
        self.owners[path].setdefault("", set()).add(manager)
        self.world.judge(f"{self.host}: made {path}")
        return made

    def _update(self, path: str, body: Mapping[str, Any], manager: str) -> Object:
        return self._merge(path, body, manager, share=False)

    def _merge(self, path: str, body: Mapping[str, Any], manager: str, *, share: bool) -> Object:
        found, owners = self.objects[path], self.owners[path]
        for key, value in (body.get("data") or {}).items():
            if share or (found.get("data") or {}).get(key) != value:
                owners[key] = (owners.get(key, set()) | {manager}) if share else {manager}
        owners.setdefault("", set()).add(manager)
        before = deepcopy(found.get("spec"))
        content = {k: v for k, v in body.items() if k != "metadata"} | {"metadata": _marks(body)}
        _merge_into(found, content)
        found["metadata"]["resourceVersion"] = str(next(self._versions))
        if found.get("spec") != before:
            found["metadata"]["generation"] = found["metadata"].get("generation", 1) + 1
        self.world.judge(f"{self.host}: wrote {path}")
        return found

    def _shown(self, path: str, found: Object) -> Object:
        shown: Object = marshal.loads(marshal.dumps(found))  # a copy, ten times as fast as deepcopy
        shown.setdefault("metadata", {})["managedFields"] = [
            {"manager": manager, "operation": "Apply", "fieldsV1": {"f:data": {f"f:{key}": {} for key in keys}}}
            for manager, keys in _by_manager(self.owners.get(path, {})).items()
        ]
        for (place, manager), ips in self.applied.items():
            if place == path and "/deployments/" in path:
                tree: Object = {f'k:{{"ip":"{ip}"}}': {} for ip in ips}
                for step in ("hostAliases", "spec", "template", "spec"):
                    tree = {f"f:{step}": tree}
                shown["metadata"]["managedFields"].append({"manager": manager, "operation": "Apply", "fieldsV1": tree})
        if path.endswith("/daemonsets/cilium"):
            shown["status"] = {"observedGeneration": 1, "desiredNumberScheduled": 1, "numberReady": 1, "updatedNumberScheduled": 1}
        if path.endswith("/deployments/clustermesh-apiserver"):
            ready, fresh = sum(pod.ready for pod in self.meshes), self.generation == found["metadata"].get("generation", 1)
            updated = 1 if fresh else 0
            shown["status"] = {"observedGeneration": self.generation, "readyReplicas": ready, "updatedReplicas": updated}
        return shown

    def _pod_object(self, pod: Pod) -> Object:
        names = ["cilium-agent"] if pod.app == "cilium" else ["etcd", "apiserver", "kvstoremesh"]
        return {
            "metadata": {"name": pod.name, "labels": {"k8s-app": pod.app}},
            "spec": {"nodeName": "n1", "containers": [{"name": name} for name in names]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(pod.ready)}]},
        }


class RollWorld:
    """Several clusters. ``judge`` is called after every event and fails the test when any connection would fail that worked before."""

    def __init__(self, *options: ProfileOptions, now: datetime | None = None) -> None:
        self.time = now or datetime.now(UTC) + timedelta(seconds=30)  # later than every certificate that is made here
        self.writes = 0
        self.kill_at = 0  # number of the write before which the controller is killed; 0: never
        self.judging = False
        self.broken: list[str] = []
        self.silent: set[str] = set()
        self.clusters: dict[str, FakeCluster] = {}
        self.on_write: Callable[[], None] = lambda: None
        for option in options:
            self.clusters[option.cluster_name] = FakeCluster(self, option)

    def observe(self, mesh: Mesh) -> Observation:
        """As ``observe.observe``, from the objects here."""
        observation = Observation()
        for host in mesh.clusters:
            if host in self.silent:
                observation.failures[host] = ObserveFailure(host=host, code="CM-API-01", message="no answer", remedy="Start it.")
                continue
            cluster: Any = self.clusters[host]
            reads = other_reads(NAMESPACE, registry_name(mesh.binding))
            found: Any = {name: read.run(cluster) for name, read in reads.items()}
            found["first"] = first_read(NAMESPACE).run(cluster)
            observation.clusters[host] = cluster
            observation.facts[host] = assemble(ClusterAccess(host=host, kubeconfig=None, context=None, endpoint_networks=(NETWORK,)), found)
            certificates.keep_values(observation.secrets, host, found)
            for name, key in (("cilium-clustermesh", "clustermesh"), ("cilium-kvstoremesh", "kvstoremesh")):
                peers.keep_values(observation.secrets, host, name, found[key])
        return observation

    def before_write(self) -> None:
        self.writes += 1
        if self.kill_at and self.writes == self.kill_at:
            raise Killed
        self.on_write()

    def pass_time(self, seconds: float = 1.0) -> None:
        self.time += timedelta(seconds=seconds)
        for cluster in self.clusters.values():
            for event in cluster.settle():
                self.judge(f"{cluster.host}: {event}")

    def judge(self, event: str) -> None:
        if self.judging:
            self.broken += [f"after {event}: {text}" for text in self.faults()]

    def faults(self) -> Iterator[str]:
        """Every connection that a reader would not get now, be it a reader that runs or a new one from the same files."""
        for local in self.clusters.values():
            for pod in (*local.agents, *local.meshes):
                for peer in pod.configurations():
                    server = self.clusters[peer] if pod.app != "cilium" or not local.options.kvstoremesh else local
                    for target in server.serving:
                        yield from self._faults(pod, peer, target)
            for pod in local.meshes:
                if not _vouches(pod.own, pod.seen[SERVER]["tls.crt"]):
                    yield f"the processes beside etcd in {local.host} do not trust it"
                if not _vouches(pod.clients, pod.seen[ADMIN]["tls.crt"]):
                    yield f"etcd in {local.host} refuses the processes beside it"

    def _faults(self, pod: Pod, peer: str, target: Pod) -> Iterator[str]:
        who = f"{pod.name} of {pod.cluster.host} -> {target.cluster.host}"
        served = target.seen[SERVER]["tls.crt"]
        files = pod.file(_config(pod.configurations()[peer])["trusted-ca-file"])
        for what, trusted in (("loaded", pod.trusted[peer][1]), ("files", files)):
            if not _vouches(trusted, served):
                yield f"{who}: the server's certificate is not trusted ({what})"
        if not _vouches(target.clients, pod.client(peer)):
            yield f"{who}: the client's certificate is not accepted"

    def down(self) -> Callable[[str, str], bool]:
        """(local, peer) -> is the link down, as its readers would say?"""
        faults = list(self.faults())
        return lambda local, peer: any(f" of {local} -> {peer}:" in fault or f" of {local} -> {local}:" in fault for fault in faults)

    def troubleshoot(self, pod: Pod, peer: str) -> str:
        configurations = pod.configurations()
        if peer not in configurations:
            return f'Cluster "{peer}":\n❌ Configuration not found\n'
        roots = load_certificates(pod.file(_config(configurations[peer])["trusted-ca-file"]))
        client = load_certificates(pod.client(peer))[0]
        server = self.clusters[peer] if pod.app != "cilium" or not pod.cluster.options.kvstoremesh else pod.cluster
        good = not [f for target in server.serving for f in self._faults(pod, peer, target)]
        lines = [f'Cluster "{peer}":', "📄 Configuration path: x", "", "🔑 Digital certificates:", "   ✅ TLS Root CA certificates:"]
        for root in roots:
            lines += [f"      - Serial number:       {_serial(root)}", f"        Subject:             {root.subject.rfc4514_string()}"]
        lines += ["   ✅ TLS client certificates:", f"      - Serial number:       {_serial(client)}", "", "⚙️ Etcd client:"]
        lines.append("   ✅ Etcd connection successfully established" if good else "   ❌ Failed to establish connection: x509")
        return "\n".join(lines) + "\n\n"


def _serial(certificate: Any) -> str:
    digits = f"{certificate.serial_number:x}"
    digits = digits if len(digits) % 2 == 0 else f"0{digits}"
    return ":".join(digits[i : i + 2] for i in range(0, len(digits), 2))


@lru_cache(maxsize=4096)
def _config(text: bytes) -> dict[str, str]:
    parsed: dict[str, str] = load_yaml(text)
    return parsed


@lru_cache(maxsize=65536)
def _vouches(trusted: bytes, certificate: bytes) -> bool:
    """Is the certificate one of a CA of the bundle?"""
    if not trusted or not certificate:
        return False
    leaf = load_certificates(certificate)[0]
    return any(is_signed_by(root, leaf) for root in load_certificates(trusted))


def _by_manager(owners: Mapping[str, set[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, managers in owners.items():
        for manager in managers:
            found.setdefault(manager, [])
            if key:
                found[manager].append(key)
    return found


def _marks(body: Mapping[str, Any]) -> Object:
    return {key: value for key, value in (body.get("metadata") or {}).items() if key in ("labels", "annotations")}


def _merge_into(found: Object, wanted: Mapping[str, Any]) -> None:
    """RFC 7386, without the fields that servers set."""
    for key, value in wanted.items():
        if key in ("apiVersion", "kind"):
            continue
        if isinstance(value, Mapping):
            _merge_into(found.setdefault(key, {}), value)
        elif value is None:
            found.pop(key, None)
        else:
            found[key] = deepcopy(value)


def _true(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True"}
