# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Tenants who are curious, hostile or loud: what they cannot see, cannot take, cannot run, and cannot keep from others.

No cluster is real here. Where a play is to run, a tenant's API servers are posts: they refuse every client, and remember who came.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import secrets
import ssl
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
import yaml

from mesh_operator.base.api import Connections
from mesh_operator.base.kinds import BINDING, BY_KIND, CLUSTER, EXPOSURE, FABRIC, GROUP, INTENT, ROWS, SERVICE, VERSION
from mesh_operator.base.log import FIELDS
from mesh_operator.meshes.records import Records
from mesh_operator.source.source_identity import SourceIdentity, uid_of_export
from tests.integration.mesh_lab import MeshLab
from tests.integration.operator_lab import OperatorLab, Workspace, is_on_the_way, which_kcp
from tests.lab.api import ApiError
from tests.lab.options import LabOptions
from tests.lab.patience import scaled
from tests.lab.pki import Authority
from tests.lab.tools import ToolUnavailable
from tests.testing.crd_examples import BASES, examples
from tests.testing.kcp_world import EXPORT, open_world
from tests.testing.management_plane import GROUP as PLATFORM
from tests.testing.management_plane import NAMESPACE, ManagementPlane
from tests.testing.met_ports import free_port, met_port
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals

Object = dict[str, Any]
ITEM_KINDS: Final = (SERVICE, INTENT, EXPOSURE)
OUR_KINDS: Final = (BINDING, *ITEM_KINDS, FABRIC)
CHECK: Final = 3  # seconds between two dry runs of a mesh
KUBE_SYSTEM: Final = "/api/v1/namespaces/kube-system"  # what the operator asks a cluster for first


class Post(ThreadingHTTPServer):
    """An API server that refuses everything with 403 and what it has to say, or gives every client the same ``answer``.

    ``seen``: (method, path, header Authorization). ``slow``: seconds that each answer takes."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext, authority: Authority) -> None:
        post = self
        self.seen: list[tuple[str, str, str]] = []
        self.says = "this is only a post"
        self.slow = 0.0
        self.answer: Any = None
        self._authority = authority
        self._context = context

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _refuse(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                authorization = self.headers.get("authorization") or ""
                post.seen.append((self.command, self.path, authorization))
                time.sleep(post.slow)
                message = f"{post.says} {authorization}"
                status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
                body = json.dumps(status if post.answer is None else post.answer).encode()
                self.send_response(403 if post.answer is None else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _refuse

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        super().finish_request(self._context.wrap_socket(request, server_side=True), client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no trouble."""

    @property
    def tokens(self) -> set[str]:
        """Who came."""
        return {authorization.removeprefix("Bearer ") for _, _, authorization in self.seen}

    def visits(self, token: str) -> int:
        """How often a client with this token came; each begins by asking who the server is."""
        return sum(path == KUBE_SYSTEM and authorization == f"Bearer {token}" for _, path, authorization in self.seen)

    def kubeconfig(self, **user: str) -> Object:
        ca = base64.b64encode(self._authority.cert.read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "k", "cluster": {"server": f"https://127.0.0.1:{self.server_port}", "certificate-authority-data": ca}}],
            "users": [{"name": "k", "user": user}],
            "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}],
            "current-context": "k",
        }


@dataclass
class Site:
    """kcp, management plane, posts, and an operator. ``private``: the only folder that is the operator's."""

    lab: OperatorLab
    operator: OperatorProcess
    private: Path
    authority: Authority
    context: ssl.SSLContext
    stack: ExitStack
    flags: tuple[str, ...]
    secrets: list[str] = field(default_factory=list)  # whatever stood in a kubeconfig and must stand nowhere else

    def post(self) -> Post:
        post = Post(self.context, self.authority)
        self.stack.callback(post.server_close)
        self.stack.callback(post.shutdown)
        return post

    def secret_word(self, word: str) -> str:
        self.secrets.append(f"{word}-{secrets.token_hex(12)}")
        return self.secrets[-1]

    def workspace(self, name: str) -> Workspace:
        return self.lab.workspace(name)

    def platform(
        self,
        name: str,
        kubeconfig: Mapping[str, Any] | str,
        labels: Mapping[str, str],
        *,
        secret: str = "",
        owner: str = "",
        reason: str = "Provisioned",
    ) -> None:
        """A Cluster of the management plane, Ready, and its Secret, unless it names another one.

        :param owner: workspace in the label of the Secret; "": that of the Cluster.
        """
        api = self.lab.management.api
        if not secret:
            text = kubeconfig if isinstance(kubeconfig, str) else yaml.safe_dump(dict(kubeconfig))
            metadata = {
                "name": f"{name}-kubeconfig",
                "namespace": NAMESPACE,
                "labels": workspace_label(owner or labels["edge-connect.eu/source-workspace"]),
            }
            data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
            api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        metadata = {"name": name, "namespace": NAMESPACE, "labels": dict(labels)}
        made = api.create({"apiVersion": f"{PLATFORM}/{VERSION}", "kind": "Cluster", "metadata": metadata, "spec": {}})
        status = {
            "conditions": [{"type": "Ready", "status": "True", "reason": reason, "message": reason}],
            "kubeconfigSecretRef": {"name": secret or f"{name}-kubeconfig", "key": "kubeconfig"},
        }
        api.patch(f"/apis/{PLATFORM}/{VERSION}/namespaces/{NAMESPACE}/clusters/{made['metadata']['name']}/status", {"status": status})

    def restart(self) -> None:
        """From now on plays are forks of a warm process: for tests that look at how many there are and when."""
        assert self.operator.stop() == 0, self.operator.output()
        self.operator = self.stack.enter_context(self.lab.operator(*self.flags))
        self.operator.wait_ready()

    def restart_as_if_carried_out(self, workspace: Workspace, *bindings: str) -> None:
        """Begin anew with records of these meshes: what clusters may hold of them is removed by a run, though they refuse to be read."""
        assert self.operator.stop() == 0, self.operator.output()
        management, folder = self.lab.management.kubeconfig, self.lab.folder
        with (
            Connections("the management plane", str(management), "--mgmt-kubeconfig") as plane,
            Connections("kcp", str(folder / f"{self.lab.source.kind}.kubeconfig"), "--kcp-kubeconfig") as kcp,
        ):
            records = Records(plane.own(), NAMESPACE, SourceIdentity(kcp, partial(uid_of_export, export=EXPORT)))
            records.load()
            for name in bindings:
                binding = workspace.get(BINDING, name) or {}
                records.remember(workspace.key(name), binding["metadata"]["uid"], [ref["name"] for ref in binding["spec"]["clusterRefs"]])
        self.operator = self.stack.enter_context(self.lab.operator(*self.flags))
        self.operator.wait_ready()

    def log_of(self, *workspaces: Workspace) -> list[Object]:
        names = [workspace.tenant.cluster for workspace in workspaces]
        return [event for event in self.operator.events() if event.get("workspace") in names]

    def runs_of(self, workspace: Workspace) -> Counter[str]:
        """How many plays of each mesh have ended."""
        return Counter(str(event["name"]) for event in self.log_of(workspace) if event["event"] == "run_ended")

    def wait(self, holds: Callable[[], object], what: str) -> None:
        self.operator.wait(holds, what)

    def wait_settled(self, what: str, *workspaces: Workspace) -> None:
        """Each resource of theirs has a status about its present spec."""

        def open_ones() -> int:  # as the tenants see it: lists of all workspaces lag behind a new binding
            lists = [
                workspace.client.list(f"/apis/{GROUP}/{VERSION}/{BY_KIND[kind].plural}") for workspace in workspaces for kind in OUR_KINDS
            ]
            return sum(not _has_status(obj) for objects in lists for obj in objects)

        self.operator.wait(open_ones, what, until=equals(0))

    def is_alive(self) -> bool:
        return self.operator.process.poll() is None and _status(f"http://{self.operator.address}/healthz") == 200


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder, private = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("private")
    with ExitStack() as stack:
        try:
            management = stack.enter_context(ManagementPlane())
        except ToolUnavailable as error:
            pytest.skip(f"no kube-apiserver: {error}")
        management.install()
        world = stack.enter_context(open_world(which_kcp(), server=management))
        lab = OperatorLab(world, management, MeshLab(LabOptions()), folder)  # with clusters that are not there
        authority = Authority(folder, "posts")
        pair = authority.issue("server", "post", names=["127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        intervals = ("--mesh-check-interval", f"{CHECK}s", "--reconcile-interval", "2s", "--teardown-deadline", "2s")
        flags = ("--max-runs", "2", "--no-leader-elect", "--deny-address", "203.0.113.0/24", *intervals)
        operator = lab.operator(*flags)  # what is promised of plays holds for their processes
        with pytest.MonkeyPatch.context() as environment:
            for name in ("HOME", "TMPDIR"):
                environment.setenv(name, str(private))
            stack.enter_context(operator)
        operator.wait_ready()
        yield Site(lab, operator, private, authority, context, stack, flags)


def workspace_label(cluster: str, name: str = "") -> dict[str, str]:
    return {"edge-connect.eu/source-workspace": cluster, **({"edge-connect.eu/source-name": name} if name else {})}


def items_of(binding: str) -> dict[str, Object]:
    """The least spec of each kind of item."""
    return {kind: {**BASES[kind], "meshRef": {"name": binding}} for kind in ITEM_KINDS}


def furnish(workspace: Workspace, binding: str, *clusters: str) -> None:
    """A binding, one item of each kind and a Fabric, all with the same names in every workspace."""
    workspace.create(BINDING, binding, clusterRefs=workspace.refs(*clusters))
    for kind, spec in items_of(binding).items():
        workspace.create(kind, binding, **spec)
    workspace.create(FABRIC, binding, meshRefs=[{"name": binding}])


def texts_for(workspace: Workspace) -> str:
    """Everything that the operator writes where this tenant reads: statuses, finalizers, Events."""
    objects = workspace.resources().values()
    events = workspace.client.list("/api/v1/events")
    return json.dumps([[obj.get("status"), obj["metadata"].get("finalizers")] for obj in objects] + events)


def reasons(workspace: Workspace, kind: str, *names: str) -> dict[str, tuple[str, str]]:
    return {name: (workspace.phase(kind, name), workspace.condition(kind, name).get("reason", "")) for name in names}


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)


def misshapen(value: Any, limit: int) -> list[str]:
    """Texts that are no single printable line of a length that can be read."""
    return [text for text in texts(value) if len(text) > limit or any(unicodedata.category(letter).startswith("C") for letter in text)]


def key_words(pem: bytes) -> list[str]:
    """What is to be looked for of a private key: a line out of its middle, and the same in base64."""
    return [pem.decode().split("\n")[1][:48], base64.b64encode(pem).decode()[60:120]]


def found_in(folder: Path, words: Sequence[str]) -> list[str]:
    """Files that hold one of the words."""
    found = []
    for path in folder.rglob("*"):
        with suppress(OSError):  # gone, or no file
            text = path.read_bytes().decode(errors="replace") if path.is_file() else ""
            found += [f"{path}: {word[:12]}" for word in words if word in text]
    return found


def _has_status(obj: Object) -> bool:
    """Whether a turn has come to something for its present spec."""
    status = obj.get("status") or {}
    return bool(status.get("phase")) and status.get("observedGeneration") == obj["metadata"]["generation"] and not is_on_the_way(status)


def _status(url: str) -> int:
    with suppress(OSError), urlopen(url, timeout=5) as answer:  # our own address
        return int(answer.status)
    return 0


# Curious tenants


def test_a_tenant_neither_sees_nor_uses_what_another_one_has_under_the_same_names(site: Site) -> None:
    alpha, bravo = site.workspace("alpha"), site.workspace("bravo")
    posts = {"alpha": site.post(), "bravo": site.post()}
    tokens = {name: site.secret_word(f"token-{name}") for name in posts}
    theirs = f"canary{secrets.token_hex(6)}"  # stands in all that is bravo's
    own, other = workspace_label(alpha.tenant.cluster), workspace_label(bravo.tenant.cluster)
    configs = {name: post.kubeconfig(token=tokens[name]) for name, post in posts.items()}

    # Cluster objects of bravo with alpha's names; one without labels; one with bravo's labels under a third name.
    for name in ("c1", "c2"):
        site.platform(name, configs["bravo"], {**other, "canary": theirs}, owner=bravo.tenant.cluster)
    site.platform("c3", configs["bravo"], {}, owner=bravo.tenant.cluster)
    site.platform(f"{theirs}-c4", configs["bravo"], workspace_label(bravo.tenant.cluster, "c4"), owner=bravo.tenant.cluster)
    # alpha's Clusters: without a KubernetesCluster in its workspace; with the Secret of bravo; with a Secret elsewhere; and its own.
    for name in ("c5", "c6"):
        site.platform(f"alpha-{name}", configs["alpha"], {**own, "edge-connect.eu/source-name": name})
    for name in ("c7", "c8"):
        site.platform(f"alpha-{name}", {}, {**own, "edge-connect.eu/source-name": name}, secret="c1-kubeconfig")
    for name, secret in (("c9", "../../kube-system/secrets/c1-kubeconfig"), ("c10", f"..%2f..%2f{NAMESPACE}%2fsecrets%2fc1-kubeconfig")):
        site.platform(f"alpha-{name}", {}, {**own, "edge-connect.eu/source-name": name}, secret=secret)
    for name in ("c11", "c12"):
        site.platform(f"alpha-{name}", configs["alpha"], {**own, "edge-connect.eu/source-name": name}, owner=alpha.tenant.cluster)
    for name in ("c1", "c2", "c3", "c4", "c7", "c8", "c9", "c10", "c11", "c12"):
        alpha.create(CLUSTER, name, providerRef={"name": "kind"})
    for name in ("c1", "c2", "c5", "c6"):
        metadata = {"name": name, "namespace": "default", "labels": {"canary": theirs}, "annotations": {"canary": theirs}}
        head = {"apiVersion": f"{PLATFORM}/{VERSION}", "kind": CLUSTER, "metadata": metadata}
        bravo.client.create({**head, "spec": {"region": theirs, "providerRef": {"name": theirs}}})

    furnish(bravo, "edge", "c1", "c2")
    bravo.merge(BINDING, "edge", {"metadata": {"labels": {"canary": theirs}}})
    bravo.create(INTENT, theirs, **{**BASES[INTENT], "meshRef": {"name": "edge"}})
    furnish(alpha, "edge", "c1", "c2")
    for binding, clusters in {
        "unlabelled": ("c3", "c4"),
        "elsewhere": ("c5", "c6"),
        "secret": ("c7", "c8"),
        "path": ("c9", "c10"),
        "nowhere": ("c91", "c92"),
        "own": ("c11", "c12"),
    }.items():
        alpha.create(BINDING, binding, clusterRefs=alpha.refs(*clusters))
    site.wait_settled("all have their statuses", alpha, bravo)
    site.wait(lambda: all(post.tokens for post in posts.values()), "the clusters of those who have some were asked")

    assert reasons(alpha, BINDING, "edge", "unlabelled", "elsewhere", "secret", "path") == {
        **dict.fromkeys(("edge", "unlabelled", "elsewhere"), ("Pending", "ClusterNotFound")),
        **dict.fromkeys(("secret", "path"), ("Pending", "KubeconfigMissing")),
    }
    messages = {name: alpha.condition(BINDING, name)["message"] for name in ("edge", "nowhere", "unlabelled")}
    nothing = messages["nowhere"].replace("c91", "c1").replace("c92", "c2")
    assert messages["edge"] == nothing, "what another one has looks like what no tenant has"
    assert messages["unlabelled"] == nothing.replace("c1", "c3").replace("c2", "c4")
    assert reasons(alpha, SERVICE, "edge") == {"edge": ("Pending", "MeshNotConnected")}
    assert posts["alpha"].tokens == {tokens["alpha"]}, "with alpha's token alone, and it went nowhere else"
    assert posts["bravo"].tokens == {tokens["bravo"]}

    known_to = {"bravo": (theirs, bravo.tenant.cluster, bravo.tenant.path), "alpha": (alpha.tenant.cluster, alpha.tenant.path)}
    for reader, owner in ((alpha, "bravo"), (bravo, "alpha")):
        shown = json.dumps([*reader.resources().values(), *reader.client.list("/api/v1/events"), *site.log_of(reader)])
        assert [word for word in known_to[owner] if word in shown] == []
    assert theirs not in site.operator.log.read_text(encoding="utf-8")

    # What one tenant deletes is not missed by the other.
    before = {name: obj["metadata"]["uid"] for name, obj in bravo.resources().items()}
    record = bravo.record("edge")
    for name in alpha.resources():
        alpha.delete(*name.split("/"))
    site.wait(lambda: not alpha.resources(), "alpha is gone")
    assert {name: obj["metadata"]["uid"] for name, obj in bravo.resources().items()} == before
    assert not any("deletionTimestamp" in obj["metadata"] for obj in bravo.resources().values())
    assert record is None and bravo.record("edge") is None, "nothing was written for a mesh whose clusters refuse"
    assert not site.runs_of(bravo), "nothing is run for clusters that refuse to be read"


# Tenants whose clusters do not answer


def test_a_mesh_that_cannot_be_reached_is_looked_at_and_not_played_again(site: Site) -> None:
    tess, post = site.workspace("tess"), site.post()
    for name in ("c1", "c2"):
        token = site.secret_word("token-tess")
        site.platform(f"tess-{name}", post.kubeconfig(token=token), workspace_label(tess.tenant.cluster, name))
        tess.create(CLUSTER, name, providerRef={"name": "kind"})
    tess.create(INTENT, "probed", **{**items_of("edge")[INTENT], "probe": {"enabled": True}})
    furnish(tess, "edge", "c1", "c2")
    site.wait_settled("all have their statuses", tess)
    assert reasons(tess, BINDING, "edge") == {"edge": ("Error", "PrerequisiteNotMet")}
    assert reasons(tess, INTENT, "edge", "probed") == dict.fromkeys(("edge", "probed"), ("Pending", "MeshNotConnected"))
    plays, asked = site.runs_of(tess)["edge"], len(post.seen)
    site.wait(lambda: len(post.seen) >= asked + 4, "it was observed twice")
    assert site.runs_of(tess)["edge"] == plays, "nothing could be done or probed"


def test_a_tenant_who_scans_reads_the_same_of_every_address_and_the_platform_reads_why(site: Site, tmp_path: Path) -> None:
    scanner, template = site.workspace("scanner"), site.post().kubeconfig(token=site.secret_word("token-scanner"))
    with ExitStack() as ports:
        servers = {"denied": "https://203.0.113.7", "unresolvable": "https://no-such-name.invalid"}
        for state in ("closed", "silent", "another certificate"):  # the others: tests/unit/operator/test_withheld.py
            port = free_port("127.0.0.3")
            ports.enter_context(met_port(state, "127.0.0.3", port, tmp_path))
            servers[state] = f"https://127.0.0.3:{port}"
        bindings = {state: f"mesh-{number}" for number, state in enumerate(servers)}
        for state, server in servers.items():
            for name in (f"{bindings[state]}-a", f"{bindings[state]}-b"):
                found = copy.deepcopy(template)
                found["clusters"][0]["cluster"]["server"] = server
                site.platform(f"scanner-{name}", found, workspace_label(scanner.tenant.cluster, name))
                scanner.create(CLUSTER, name, providerRef={"name": "kind"})
            scanner.create(BINDING, bindings[state], clusterRefs=scanner.refs(f"{bindings[state]}-a", f"{bindings[state]}-b"))
        site.wait_settled("all have their statuses", scanner)
    statuses = {state: json.dumps(scanner.status(BINDING, name)).replace(name, "NAME") for state, name in bindings.items()}
    same = {re.sub(r"[0-9-]{10}T[0-9:]{8}Z", "TIME", status) for status in statuses.values()}
    assert len(same) == 1, statuses
    assert "cannot be reached" in same.pop()
    lines = [event for event in site.log_of(scanner) if event["event"] == "not_reached"]
    why = {state: " ".join(str(line["reason"]) for line in lines if line["name"] == name) for state, name in bindings.items()}
    assert all(why.values()), why
    assert "denied range" in why["denied"] and "resolved" in why["unresolvable"] and "refused" in why["closed"]


# Tenants who forge


def test_what_a_tenant_forges_moves_nothing(site: Site) -> None:
    mallory, victim = site.workspace("mallory"), site.workspace("victim")
    post = site.post()
    token = site.secret_word("token-victim")
    for name in ("c1", "c2"):
        site.platform(f"victim-{name}", post.kubeconfig(token=token), workspace_label(victim.tenant.cluster, name))
        victim.create(CLUSTER, name, providerRef={"name": "kind"})
    forged = {
        "namespace": "default",
        "labels": workspace_label(victim.tenant.cluster, "c1"),
        "annotations": {
            "kcp.io/cluster": victim.tenant.cluster,
            "kcp.io/path": victim.tenant.path,
            "networking.edge-portal.eu/abandon": "true",
            "networking.edge-portal.eu/workspace": victim.tenant.cluster,
        },
        "ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "0"}],
    }
    status = {"phase": "Connected", "observedGeneration": 1, "conditions": []}
    for name in ("c1", "c2"):
        head = {"apiVersion": f"{PLATFORM}/{VERSION}", "kind": CLUSTER, "metadata": {"name": name, **forged}}
        mallory.client.create({**head, "spec": {"providerRef": {"name": "kind"}}})
    specs = {BINDING: {"clusterRefs": mallory.refs("c1", "c2")}, **items_of("edge")}
    for kind, spec in specs.items():
        head = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": "edge", **forged}}
        mallory.client.create({**head, "spec": spec, "status": status})
    site.wait_settled("the forger has its statuses", mallory)
    assert reasons(mallory, BINDING, "edge") == {"edge": ("Pending", "ClusterNotFound")}
    assert {mallory.phase(kind, "edge") for kind in ITEM_KINDS} == {"Pending"}
    assert victim.resources() == {}
    assert post.seen == []

    # A status is not a tenant's to write; who may do it all the same (kcp's administrator) is overruled by the next dry run.
    path = f"/apis/{GROUP}/{VERSION}/namespaces/default/clustermeshbindings/edge/status"
    with pytest.raises(ApiError, match="403"):
        mallory.client.merge(path, {"status": status})
    site.lab.world.admin(mallory.tenant.path).merge(path, {"status": {**status, "meshStatus": [{"clusterName": "c1", "connected": True}]}})
    site.wait(lambda: reasons(mallory, BINDING, "edge") == {"edge": ("Pending", "ClusterNotFound")}, "the status is true again")
    assert "meshStatus" not in mallory.status(BINDING, "edge")

    # The word that releases clusters is none as long as nothing is deleted.
    assert mallory.get(BINDING, "edge") is not None
    for kind in specs:
        mallory.delete(kind, "edge")
    site.wait(lambda: not mallory.resources(), "what was never carried out goes")


def test_finalizers_that_are_not_the_operators_stay_and_forged_ones_do_not_hold_what_was_never_carried_out(site: Site) -> None:
    tenant = site.workspace("holder")
    theirs = "example.com/theirs"
    specs = {BINDING: {"clusterRefs": tenant.refs("c1", "c2")}, **items_of("edge")}
    lonely = items_of("nobody")
    for name, some in (("edge", specs), ("lonely", lonely)):
        for kind, spec in some.items():
            metadata = {"name": name, "namespace": "default", "finalizers": [theirs, BY_KIND[kind].finalizer, f"{GROUP}/other-cleanup"]}
            tenant.client.create({"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": spec})
    site.wait_settled("all have their statuses", tenant)
    assert reasons(tenant, INTENT, "lonely") == {"lonely": ("Error", "MeshNotFound")}
    for name in tenant.resources():
        tenant.delete(*name.split("/"))

    def held_by() -> set[str]:
        return {finalizer for obj in tenant.resources().values() for finalizer in obj["metadata"]["finalizers"]}

    site.wait(lambda: held_by() == {theirs, f"{GROUP}/other-cleanup"}, "the operator's finalizers are off, and no others")
    assert len(tenant.resources()) == len(specs) + len(lonely)
    for name in tenant.resources():
        kind, _, own = name.partition("/")
        tenant.merge(kind, own, {"metadata": {"finalizers": None}})
    assert tenant.resources() == {}
    site.wait(lambda: site.is_alive(), "the operator is alive")


# Tenants who want to run something


def hostile_texts(mark: Path) -> dict[str, str]:
    """Texts that would make ``mark`` if anybody took them for more than texts, and texts that break what they stand in."""
    touch = f"touch {mark}"
    return {
        "jinja": f"{{{{ lookup('ansible.builtin.pipe', '{touch}') }}}}",
        "jinja-statement": f"{{% set x = lookup('pipe', '{touch}') %}}{{# #}}",
        "yaml": f"x\n- hosts: localhost\n  tasks: [{{ansible.builtin.shell: {touch}}}]\n--- !unsafe\n...\n",
        "python": f"!!python/object/apply:os.system ['{touch}']",
        "json": '"}]}, {"__ansible_unsafe": "{{ 1 }}", "phase": "Connected", "x": "\\u0000\\ud800',
        "shell": f"$({touch}) `{touch}` ; {touch} | {touch} &",
        "terminal": "\x1b[2J\x1b]0;title\x07\r\x08\x7f\u202eesrever\u2066\u200b\ufeff\u2028\x85",
        "long": "{{" * 2048,
    }


def hostile_kubeconfigs(post: Post, mark: Path, token: str) -> dict[str, tuple[Mapping[str, Any] | str, str]]:
    """Contents of Secrets by name, and the reason that a binding is to give; "" where the cluster is contacted."""
    good = post.kubeconfig(token=token)
    cluster, run = (
        good["clusters"][0]["cluster"],
        {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(mark)]},
    )
    jinja = f"{{{{lookup('pipe','touch${{IFS}}{mark}')}}}}"  # a token has no spaces

    def as_user(user: Mapping[str, Any]) -> Object:
        return {**good, "users": [{"name": "k", "user": dict(user)}]}

    def in_cluster(key: str, value: str) -> Object:
        return {**good, "clusters": [{"name": "k", "cluster": {**cluster, key: value}}]}

    refused: dict[str, Mapping[str, Any] | str] = {
        "exec": as_user({"exec": run}),
        "exec-and-token": as_user({"exec": run, "token": token}),
        "provider": as_user({"auth-provider": {"name": "oidc", "config": {"idp-issuer-url": cluster["server"]}}}),
        "file": as_user({"tokenFile": "/etc/passwd"}),
        "key-file": as_user({"client-certificate": "/etc/passwd", "client-key": "/etc/passwd"}),
        "ca-file": in_cluster("certificate-authority", "/etc/passwd"),
        "proxy": in_cluster("proxy-url", f"http://127.0.0.1:{post.server_port}"),
        "server": in_cluster("server", f"https://{jinja}@127.0.0.1:{post.server_port}"),
        "metadata": in_cluster("server", "https://169.254.169.254"),
        "python": f"!!python/object/apply:os.system ['touch {mark}']",
        "bomb": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n",
        "deep": "[" * 60_000,
        "long": "x" * 70_000,
        "template": f"{{{{ lookup('pipe', 'touch {mark}') }}}}",
        "terminal": as_user({"token": f"\x1b[2J{token}\n"}),
        "key": as_user({"client-certificate-data": "e3sgMSB9fQ==", "client-key-data": base64.b64encode(token.encode()).decode()}),
    }
    return {**{name: (text, "KubeconfigRefused") for name, text in refused.items()}, "jinja-token": (as_user({"token": jinja}), "")}


def test_nothing_that_a_tenant_writes_is_run_or_breaks_a_status_a_log_line_or_another_tenant(site: Site, tmp_path: Path) -> None:
    mark = tmp_path / "MARK"
    hostile, post, token = hostile_texts(mark), site.post(), site.secret_word("token-hostile")
    post.says = "".join(hostile.values())
    eve, kate = site.workspace("eve"), site.workspace("kate")
    furnish(kate, "edge", "c1", "c2")

    def cluster(name: str, kubeconfig: Mapping[str, Any] | str, *, object_name: str = "", **annotations: str) -> None:
        kept = {f"example.com/{word}": text for word, text in hostile.items()} | {
            f"{GROUP}/{word}": text for word, text in annotations.items()
        }
        metadata = {"name": name, "namespace": "default", "annotations": kept}
        head = {"apiVersion": f"{PLATFORM}/{VERSION}", "kind": CLUSTER, "metadata": metadata}
        with pytest.raises(ApiError, match="422"):  # texts stand in annotations, as the schema keeps them out of the spec
            eve.client.create({**head, "spec": {"region": hostile["jinja"], "providerRef": {"name": hostile["yaml"]}}})
        eve.client.create({**head, "spec": {"region": "eu", "providerRef": {"name": "kind"}}})
        labels = workspace_label(eve.tenant.cluster, "" if object_name else name)
        site.platform(object_name or f"eve-{name}", kubeconfig, labels, reason=hostile["terminal"] + hostile["jinja"])

    # Names that mean something to Ansible, to YAML or to a shell, as far as Kubernetes takes them; and every form that a spec can have.
    good, long = post.kubeconfig(token=token), ".".join(["x" * 58] * 4)
    odd = ("hosts", "vars", "children", "null", "true", "1e3", "0x1f", "2026-11-21", "127.0.0.1")
    for name in odd:
        cluster(name, good)
    cluster(long, good, object_name=long)
    kubeconfigs = hostile_kubeconfigs(post, mark, token)
    for name, (content, _reason) in kubeconfigs.items():
        cluster(f"k-{name}", content)
    for word in hostile:
        cluster(f"e-{word}", good, **{"elb-id": hostile[word]})

    def create(kind: str, name: str, spec: Mapping[str, Any]) -> None:
        annotations = {f"{GROUP}/{word}": text for word, text in hostile.items()} | {
            "kubectl.kubernetes.io/last-applied-configuration": "{"
        }
        labels = {"ansible_connection": "ssh", "null": "", "true": "1e3", "x__x": "ansible_unsafe"}
        metadata = {"name": name, "namespace": "default", "annotations": annotations, "labels": labels}
        eve.client.create({"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": dict(spec)})

    liar = site.post()
    liar.answer = {
        "metadata": {"uid": [7], "name": None, "labels": "x"},
        "items": [None, 7, {"metadata": 7}],
        "spec": [],
        "data": "x",
        "status": 7,
    }
    for name in ("l1", "l2"):
        cluster(name, liar.kubeconfig(token=token))
    create(BINDING, "nonsense", {"clusterRefs": eve.refs("l1", "l2")})
    create(BINDING, "token", {"clusterRefs": eve.refs("k-jinja-token", "hosts")})
    for name, (_content, reason) in kubeconfigs.items():
        if reason:
            create(BINDING, f"k-{name}", {"clusterRefs": eve.refs("hosts", f"k-{name}")})
    for word in hostile:
        create(BINDING, f"e-{word}", {"clusterRefs": eve.refs("hosts", f"e-{word}")})
    taken = [example for example in examples() if example.schema and example.kind in ITEM_KINDS]
    for number, example in enumerate(taken):
        create(example.kind, f"{'true' if number % 2 else '1e3'}.{number}", {**example.spec, "meshRef": {"name": "null"}})
    probe = {"enabled": True, "method": "job", "command": [text[:512] for text in hostile.values()]}
    create(INTENT, "all", {**BASES[INTENT], "meshRef": {"name": "null"}, "probe": probe})
    # After all that belongs to it, so that its first dry run gets everything.
    create(BINDING, "null", {"clusterRefs": eve.refs(*odd, long), "topology": {"mode": "HubAndSpoke", "hubs": ["null"]}})
    create(FABRIC, "null", {"meshRefs": [{"name": "null"}, {"name": "token"}, {"name": "all"}]})

    site.wait_settled("all have their statuses", eve, kate)
    kate.change(SERVICE, "edge", shared=False)
    site.wait_settled("another tenant goes on", kate)

    def nothing_happened() -> None:
        assert not mark.exists()
        assert site.is_alive()
        for event in eve.client.list("/api/v1/events"):
            assert misshapen([event["message"], event["reason"]], 1000) == []
        lines = site.operator.log.read_text(encoding="utf-8").split("\n")
        assert lines.pop() == ""
        for line in lines:
            event = json.loads(line)
            assert set(event) <= {*FIELDS, "time", "level", "event", "error"} and misshapen(event, 200) == []
        assert {json.loads(line)["event"] for line in lines}.isdisjoint({"crashed", "thread_crashed", "library", "health_failed"})
        leaked = [secret for secret in site.secrets if secret in texts_for(eve) + "".join(lines)]
        assert leaked == [], "also where an API server repeats the token that it was given"

    nothing_happened()
    assert f"touch${{IFS}}{mark}" in "".join(post.tokens), "it was sent as what it is, a token"
    with pytest.raises(ApiError, match="inventory"):
        create(BINDING, "groups", {"clusterRefs": eve.refs("all", "ungrouped")})
    wanted = {f"k-{name}": ("Error", reason) for name, (_content, reason) in kubeconfigs.items() if reason}
    wanted |= {f"e-{word}": ("Error", "LoadBalancerIdInvalid") for word in hostile}
    assert reasons(eve, BINDING, *wanted) == wanted
    assert {eve.phase(BINDING, name) for name in ("null", "token", "nonsense")} == {"Error"}, "none of their clusters is of any use"
    for name, obj in eve.resources().items():
        assert misshapen(obj["status"], 1024) == [], name
        assert obj["metadata"]["finalizers"] if name in ("ClusterMeshBinding/null", "ClusterMeshBinding/token") else True

    # What was carried out once is removed by a run: all of these texts are variables and hosts of a playbook then.
    site.restart_as_if_carried_out(eve, "null", "token", "nonsense")
    for name in eve.resources():
        eve.delete(*name.split("/", 1))
    site.wait(lambda: not eve.resources(), "the deadline for teardowns releases clusters that answer nothing")
    assert site.runs_of(eve).keys() >= {"null", "token", "nonsense"}
    nothing_happened()


# Secrets


class Watcher(threading.Thread):
    """Looks at the arguments of every process of this machine, again and again: which words were ever among them."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self.looks, self.found, self.ended, self._words = 0, set[str](), threading.Event(), words

    def run(self) -> None:
        while not self.ended.wait(0.05):
            self.looks += 1
            for place in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    arguments = place.read_bytes().decode(errors="replace")
                    self.found |= {word for word in self._words if word in arguments}


def test_nothing_out_of_a_kubeconfig_is_ever_reported_or_kept(site: Site) -> None:
    sam = site.workspace("sam")
    post, tokens = site.post(), [site.secret_word(f"token-{number}") for number in range(4)]
    pair = site.authority.issue("client", "sam")
    site.secrets += key_words(pair.key.read_bytes())
    certificate = {
        "client-certificate-data": base64.b64encode(pair.cert.read_bytes()).decode(),
        "client-key-data": base64.b64encode(pair.key.read_bytes()).decode(),
    }
    site.platform("sam-c1", post.kubeconfig(token=tokens[0]), workspace_label(sam.tenant.cluster, "c1"))
    site.platform("sam-c2", post.kubeconfig(**certificate), workspace_label(sam.tenant.cluster, "c2"))
    site.platform("sam-c3", post.kubeconfig(token=tokens[1], password=tokens[1]), workspace_label(sam.tenant.cluster, "c3"))
    site.platform("sam-c4", f"token: [{tokens[2]}\n{{", workspace_label(sam.tenant.cluster, "c4"))
    own = yaml.safe_load(site.lab.management.kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]["client-key-data"]
    site.secrets += key_words(base64.b64decode(own))
    site.secrets.append(site.lab.world.operator().kubeconfig()["users"][0]["user"]["token"])
    watcher = Watcher(site.secrets)
    watcher.start()
    for name in ("c1", "c2", "c3", "c4"):
        sam.create(CLUSTER, name, providerRef={"name": "kind"})
    furnish(sam, "edge", "c1", "c2")
    furnish(sam, "refused", "c3", "c4")
    site.wait_settled("all have their statuses", sam)
    assert reasons(sam, BINDING, "refused") == {"refused": ("Error", "KubeconfigRefused")}

    rotated = base64.b64encode(yaml.safe_dump(post.kubeconfig(token=tokens[3])).encode()).decode()
    site.lab.management.api.patch(f"/api/v1/namespaces/{NAMESPACE}/secrets/sam-c1-kubeconfig", {"data": {"kubeconfig": rotated}})
    site.wait(lambda: tokens[3] in post.tokens, "the new token is used")
    assert post.tokens == {tokens[0], tokens[3], ""}, "of which the empty one is the certificate's; what is refused is not used"
    furnish(sam, "further", "c1", "c2")
    site.wait_settled("a further mesh has its statuses", sam)
    records = site.lab.management.api.list(f"/api/v1/namespaces/{NAMESPACE}/configmaps")
    assert [r for r in records if sam.tenant.cluster in str(r.get("data"))] == [], "nothing was written for meshes whose clusters refuse"
    before = site.operator.log.read_text(encoding="utf-8")
    site.restart_as_if_carried_out(sam, "further")
    sam.delete(BINDING, "further")
    site.wait(lambda: site.runs_of(sam)["further"], "a run that removes it has ended, and was given what clusters are reached with")
    watcher.ended.set()
    watcher.join()

    assert watcher.looks > 20 and watcher.found == set()
    records = site.lab.management.api.list(f"/api/v1/namespaces/{NAMESPACE}/configmaps")
    written = {
        "the log": before + site.operator.log.read_text(encoding="utf-8"),
        "a record": json.dumps(records),
        "what a tenant reads": texts_for(sam) + json.dumps(list(sam.resources().values())),
        "metrics": json.dumps(site.operator.metrics()),
    }
    assert [(place, word[:12]) for place, text in written.items() for word in site.secrets if word in text] == []
    assert found_in(site.private, site.secrets) == []
    for kept in (BINDING, *ITEM_KINDS):
        assert "networking.edge-portal.eu/" in "".join((sam.get(kept, "edge") or {})["metadata"]["finalizers"])
    # All runs are over when nothing is running; then no folder of theirs is left in memory either.
    site.wait(lambda: found_in(Path("/dev/shm"), site.secrets) == [], "what runs were given is gone")


# Loud tenants


class Noise(threading.Thread):
    """A tenant who edits all of his bindings all the time."""

    def __init__(self, workspace: Workspace, names: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self.edits, self.ended, self._workspace, self._names = 0, threading.Event(), workspace, names

    def run(self) -> None:
        while not self.ended.wait(0.15):
            kind = ("NodePort", "LoadBalancer")[self.edits // len(self._names) % 2]
            self._workspace.change(BINDING, self._names[self.edits % len(self._names)], meshConfig={"serviceType": kind})
            self.edits += 1


def ten_resources(workspace: Workspace) -> None:
    """Two meshes without clusters, and what belongs to them."""
    furnish(workspace, "edge", "c1", "c2")
    furnish(workspace, "core", "c1", "c2")


def edited(workspace: Workspace) -> None:
    workspace.change(BINDING, "edge", clusterRefs=workspace.refs("c1", "c3"))


@pytest.mark.parametrize("count", [4, pytest.param(28, marks=pytest.mark.full)])
def test_loud_tenants_do_not_keep_other_tenants_waiting(site: Site, count: int) -> None:
    """``count`` quiet tenants with ten resources each; with 28 of them there are 300 resources over 30 workspaces. Two more have clusters
    that refuse slowly, ten meshes each, and edit them without end: each turn of theirs takes seconds, and there are as many of them as
    meshes that are worked on at a time."""
    site.restart()
    with ThreadPoolExecutor(4) as pool:
        loud = list(pool.map(site.workspace, (f"loud-{count}-{number}" for number in range(2))))
        quiet = list(pool.map(site.workspace, (f"quiet-{count}-{number}" for number in range(count))))
        names = [f"mesh-{number}" for number in range(10)]
        post, tokens = site.post(), dict[str, str]()
        post.slow = 2.0
        for workspace in loud:
            for name in ("c1", "c2"):
                token = tokens[workspace.tenant.name] = site.secret_word("token-loud")
                labels = workspace_label(workspace.tenant.cluster, name)
                site.platform(f"{workspace.tenant.name}-{name}", post.kubeconfig(token=token), labels)
                workspace.create(CLUSTER, name, providerRef={"name": "kind"})
            for name in names:
                workspace.create(BINDING, name, clusterRefs=workspace.refs("c1", "c2"))
        noise = [Noise(workspace, names) for workspace in loud]
        for thread in noise:
            thread.start()
        list(pool.map(ten_resources, quiet))
        site.wait_settled("every quiet tenant has all of his statuses", *quiet)
        assert site.operator.metrics()["mesh_operator_queue_length"] >= 10, "the loud ones' meshes wait"

        turns = {name: post.visits(token) for name, token in tokens.items()}
        edits = [thread.edits for thread in noise]
        list(pool.map(edited, quiet))
        site.wait_settled("every quiet tenant's change is answered", *quiet)
        assert all(thread.edits > before for thread, before in zip(noise, edits, strict=True)), "they were loud all the time"
        meanwhile = {name: post.visits(token) - turns[name] for name, token in tokens.items()}
        # One that had begun, and one for each time that the queue had no other tenant.
        assert max(meanwhile.values()) <= scaled(5), f"{meanwhile}, of {len(names)} meshes each that were due all the time"
        for thread in noise:
            thread.ended.set()
            thread.join()

        wanted = {"Pending"}
        assert {workspace.phase(kind, "edge") for workspace in quiet for kind in OUR_KINDS} == wanted
        for workspace in quiet[:3]:
            assert "c3" in workspace.condition(BINDING, "edge")["message"]
        for workspace in loud:  # without clusters they are answered at once, instead of with twenty plays
            for name in ("c1", "c2"):
                site.lab.management.remove(f"{workspace.tenant.name}-{name}")
        site.wait_settled("the loud ones get their answers, too", *loud)
        site.wait(lambda: site.operator.metrics()["mesh_operator_queue_length"] == 0, "nothing waits any more")
    metrics = site.operator.metrics()
    assert {kind: metrics[f'mesh_operator_objects{{kind="{kind}"}}'] for kind in OUR_KINDS} == count_of_resources(site)
    assert metrics['mesh_operator_meshes{phase="Pending"}'] >= 2 * count
    assert metrics['mesh_operator_reconciles_total{kind="ClusterMeshBinding",outcome="done"}'] >= 2 * count + len(loud) * len(names)
    words = [word for workspace in (*loud, *quiet) for word in (workspace.tenant.cluster, workspace.tenant.name)]
    assert [word for word in words if word in json.dumps(metrics)] == [], "figures name no tenant"
    assert site.is_alive()


def count_of_resources(site: Site) -> dict[str, int]:
    """Of all tenants, as kcp shows them to the operator, by kind."""
    everywhere = site.lab.world.virtual("*")
    return {row.kind: len(everywhere.list(f"/apis/{row.group}/{VERSION}/{row.plural}")) for row in ROWS if row.kind != CLUSTER}


# Tenants that have just come


def test_a_workspace_that_lists_of_all_workspaces_do_not_show_yet_is_served(site: Site) -> None:
    double = site.lab.world.double
    assert double is not None
    double.lag(300)  # for longer than this test takes, so that the operator knows of these resources by its watches alone
    try:
        early = site.workspace("early")
        furnish(early, "edge", "c1", "c2")
        assert early.tenant.cluster not in str(site.lab.world.virtual("*").list(f"/apis/{GROUP}/{VERSION}/clustermeshbindings"))
        waits = {"edge": ("Pending", "ClusterNotFound")}
        site.wait(lambda: reasons(early, BINDING, "edge") == waits, "an operator that is at work sees the new workspace")
        site.restart()
        early.create(BINDING, "late", clusterRefs=early.refs("c1", "c2"))
        site.wait(lambda: reasons(early, BINDING, "late") == {"late": waits["edge"]}, "so does one that begins meanwhile")
        site.wait_settled("all of it has a status", early)
    finally:
        double.lag(0)
