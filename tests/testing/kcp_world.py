# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A kcp with our export, the fleet's export and tenants in it, for tests and the demo; double or real kcp, by the same requests.

with open_world("double") as world:
    shop = world.tenant("shop")
    shop.client.create({"apiVersion": "networking.edge-portal.eu/v1alpha1", "kind": "ClusterMeshBinding", ...})
    kubeconfig = world.operator().kubeconfig()
    world.virtual("*").list("/apis/networking.edge-portal.eu/v1alpha1/clustermeshbindings")
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import urllib3

from mesh_operator.crds import FLEET as FLEET_PROFILE
from mesh_operator.manifests import kcp_manifests
from tests.lab.api import ApiError
from tests.testing.kcp_client import Client, Object, path_of
from tests.testing.kcp_double import KcpDouble, User
from tests.testing.kcp_double.access import ADMINS
from tests.testing.kcp_double.faults import Faults
from tests.testing.kcp_process import KcpProcess
from tests.testing.one_server import OneServer
from tests.testing.waiting import wait_for

BACKENDS: Final = ("double", "kcp")
EXPORT: Final = "edge-portal-networking"
FLEET: Final = "edge-portal-fleet"
ACCOUNT: Final = "mesh-operator"  # of the operator; its namespace has the same name
PROVIDER: Final = "networking"
_USERS: Final = 64  # tenants of one world at most: a real kcp reads its users at start
_TOKEN: Final = 24 * 3600  # seconds
_T = TypeVar("_T")


@dataclass(frozen=True)
class Tenant:
    """A workspace with an administrator of its own. ``cluster`` is its logical cluster, ``home`` the namespace of its custom resources."""

    name: str
    path: str
    cluster: str
    client: Client
    home: str = "default"

    def namespace(self, name: str) -> None:
        self.client.ensure({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


class World:
    """See the module. ``kind`` is "double" or "kcp"; ``double`` is None for a real one, which knows no faults."""

    def __init__(self, kind: str, server: KcpDouble | KcpProcess, admin: Callable[[], Client], tokens: Mapping[str, str]) -> None:
        self.kind = kind
        self.double = server if isinstance(server, KcpDouble) else None
        self._server = server
        self._admin = admin
        self._tokens = iter(tokens.items())
        self.values: dict[str, str] = {}  # what the operator's manifests were filled with
        self.fleet_values: dict[str, str] = {}  # the same, of the export of fleets
        self._events = True
        self._operator: Client | None = None

    @property
    def faults(self) -> Faults:
        assert self.double is not None, "only the double has faults on demand"
        return self.double.faults

    def admin(self, path: str = "root") -> Client:
        """kcp's administrator in a workspace."""
        return self._admin().at(f"{self._server.url}/clusters/{path}")

    @property
    def provider(self) -> Client:
        """The administrator in the workspace of our export."""
        return self.admin(self.values["provider_path"])

    def install(self, *, events: bool = True) -> None:
        """Provider workspaces, both exports and the operator's rights, as the operator's manifests say; a second call changes what differs.

        :param events: claim them.
        """
        self._events = events
        fleet, provider = self.workspace("fleet"), self.workspace(PROVIDER)
        self.fleet_values = {"export_name": FLEET, "provider_path": fleet, "namespace": ACCOUNT, "service_account": ACCOUNT}
        apply(self.admin(fleet), kcp_manifests(self.fleet_values, ("export", "rbac"), events=events, profile=FLEET_PROFILE))
        self.values = {
            "export_name": EXPORT,
            "provider_path": provider,
            "fleet_export": FLEET,
            "fleet_path": fleet,
            "fleet_identity_hash": _identity(self.admin(fleet), FLEET),
            "namespace": ACCOUNT,
            "service_account": ACCOUNT,
        }
        wanted = kcp_manifests(self.values, ("export", "rbac"), events=events)
        apply(self.provider, wanted)
        for document in kcp_manifests(self.values, ("rbac",)):
            if document not in wanted:  # it is there when they were claimed before
                self.provider.delete(path_of(document))
        _identity(self.provider, EXPORT)

    def workspace(self, name: str, *, shard: str = "", kind: str = "universal") -> str:
        """A workspace below root, of a type that is in root; its path."""
        spec: Object = {"type": {"name": kind, "path": "root"}}
        if shard:
            spec["location"] = {"selector": {"matchLabels": {"name": shard}}}
        body: Object = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": spec}
        root = self.admin()
        eventually(lambda: root.ensure(body), f"workspace {name} is made")  # refused while its type is not there yet
        eventually(lambda: (root.get(path_of(body)) or {}).get("status", {}).get("phase") == "Ready", f"workspace {name} is ready")
        return f"root:{name}"

    def tenant(self, name: str, *, shard: str = "", bind: bool = True) -> Tenant:
        """A workspace, its administrator, and both exports bound with all claims accepted."""
        path = self.workspace(name, shard=shard)
        found = self.admin().get(f"/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}")
        assert found is not None
        token, user = next(self._tokens)
        inside = self.admin(path)
        roles = [_granted(user, role) for role in ("cluster-admin", "system:kcp:workspace:access")]
        eventually(lambda: apply(inside, roles), f"{path} has roles")
        tenant = Tenant(name, path, found["spec"]["cluster"], Client(f"{self._server.url}/clusters/{path}", inside.ca, token))
        eventually(lambda: tenant.client.get("/api/v1/namespaces/default"), f"{user} may enter {path}")
        if bind:
            self.bind(tenant)
        return tenant

    def bindings(self) -> list[Object]:
        """The APIBindings that a tenant needs."""
        return list(kcp_manifests(self.values, ("binding",), events=self._events))

    def bind(self, tenant: Tenant, bindings: Iterable[Object] | None = None) -> None:
        """The tenant itself binds, and waits until it is so."""
        for binding in self.bindings() if bindings is None else bindings:
            eventually(partial(tenant.client.ensure, binding), f"{tenant.name} may bind")  # refused until caches have caught up
            eventually(partial(_is_bound, tenant.client, path_of(binding)), f"{tenant.name} is bound")

    def unbind(self, tenant: Tenant, name: str = EXPORT) -> None:
        """Ask for the end of a binding; it goes when no finalizer is left."""
        tenant.client.delete(f"/apis/apis.kcp.io/v1alpha2/apibindings/{name}")

    def operator(self) -> Client:
        """The operator's ServiceAccount in the provider's workspace."""
        if self._operator is None:
            self._operator = self.account(ACCOUNT)
        return self._operator

    def account(self, name: str, *, workspace: str = "") -> Client:
        """A ServiceAccount of the operator's namespace, in the provider's workspace or another, made when it is not there."""
        home = self.admin(workspace) if workspace else self.provider
        metadata = {"name": name, "namespace": ACCOUNT}
        home.ensure({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _TOKEN}}
        answer = home.call("POST", f"/api/v1/namespaces/{ACCOUNT}/serviceaccounts/{name}/token", body)
        assert answer.status == 201, f"no token for {name}: {answer.text[:300]}"
        return Client(home.base, home.ca, answer.json["status"]["token"])

    def urls(self, export: str = EXPORT, *, workspace: str = "") -> list[str]:
        """What the slice of an export has, in the provider's workspace or another."""
        home = self.admin(workspace) if workspace else self.provider
        found = home.get(f"/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/{export}") or {}
        return [one["url"] for one in found.get("status", {}).get("endpoints") or []]

    def wait_urls(self, count: int = 1, export: str = EXPORT) -> list[str]:
        eventually(lambda: len(self.urls(export)) == count, f"the slice of {export} has {count} URLs")
        return self.urls(export)

    def virtual(self, cluster: str = "*", *, user: Client | None = None, url: str = "") -> Client:
        """The operator, or another user, in the virtual workspace of our export; at the first URL unless one is given."""
        return (user or self.operator()).at(f"{url or eventually(self.urls, 'the slice has a URL')[0]}/clusters/{cluster}")

    def restart(self) -> None:
        """All connections break; then everything is as it was."""
        self._server.restart()


@contextmanager
def open_world(kind: str, *, server: OneServer | None = None, events: bool = True) -> Iterator[World]:
    """``server``: where the double keeps everything; one of its own when None.

    :raises ToolUnavailable: a program is missing, for "kcp" kcp itself. The text says why.
    """
    tokens = {secrets.token_hex(16): f"user-{number}" for number in range(_USERS)}
    with ExitStack() as stack:
        if kind == "double":
            key = secrets.token_hex(16)
            users = {key: User("kcp-admin", (ADMINS,)), **{token: User(name) for token, name in tokens.items()}}
            double = stack.enter_context(KcpDouble(server or stack.enter_context(OneServer()), users))
            world = World(kind, double, lambda: Client(double.url, double.ca, key), tokens)
        else:
            process = stack.enter_context(KcpProcess(tokens))
            world = World(kind, process, process.admin, tokens)
        world.install(events=events)
        yield world


def apply(client: Client, documents: Iterable[Object]) -> bool:
    """Create what is not there, change what differs. True, so that `eventually` can repeat it."""
    for document in documents:
        answer = client.call("POST", path_of(document, collection=True), document)
        if answer.status == 409:
            client.merge(path_of(document), document)
        elif answer.status >= 300:
            raise ApiError("POST", path_of(document), answer.status, answer.reason, answer.text[:500])
    return True


def eventually(probe: Callable[[], _T | None], what: str) -> _T:
    """Return the first true value of ``probe``, as `wait_for` does. Refusals and broken connections count as not yet."""
    return wait_for(probe, what=what, passing=(ApiError, urllib3.exceptions.HTTPError), every=0.05)


def _identity(client: Client, export: str) -> str:
    path = f"/apis/apis.kcp.io/v1alpha2/apiexports/{export}"
    return str(eventually(lambda: (client.get(path) or {}).get("status", {}).get("identityHash"), f"export {export} has an identity"))


def _is_bound(client: Client, path: str) -> bool:
    status = (client.get(path) or {}).get("status") or {}
    good = {one["type"] for one in status.get("conditions") or [] if one["status"] == "True"}
    return status.get("phase") == "Bound" and "PermissionClaimsApplied" in good


def _granted(user: str, role: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{user}-{role.replace(':', '-')}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
