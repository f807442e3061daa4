# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A test double of kcp in front of one real kube-apiserver: see docs/kcp-double.md."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.api import ApiError
from tests.lab.pki import Authority
from tests.testing.kcp_double.access import Access, User
from tests.testing.kcp_double.answers import Reply, Request, failure, plain_404, target_of
from tests.testing.kcp_double.controllers import Controllers
from tests.testing.kcp_double.faults import Faults, Live
from tests.testing.kcp_double.forward import Forwarder
from tests.testing.kcp_double.kcp_crds import install, own_definitions, wait_served
from tests.testing.kcp_double.places import ROOT, Places
from tests.testing.kcp_double.plain import PlainWorkspaces
from tests.testing.kcp_double.server import ShardServer
from tests.testing.kcp_double.upstream import Upstream
from tests.testing.kcp_double.virtual import VirtualWorkspaces
from tests.testing.one_server import OneServer

__all__ = ["KcpDouble", "User"]

_ACCESS_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:kcp:workspace:access"},
    "rules": [{"nonResourceURLs": ["/"], "verbs": ["access"]}],
}


class KcpDouble:
    """Use as a context manager. ``users``: by token. A second one on the same server goes on where the first one ended."""

    def __init__(self, server: OneServer, users: Mapping[str, User]) -> None:
        self.faults = Faults()
        # Called with each request of a virtual workspace and what answers it, by tests that stand in between.
        self.around: Callable[[Request, Callable[[], Reply]], Reply] = lambda _request, answer: answer()
        self._hidden: set[str] = set()
        self._shards: dict[str, ShardServer] = {}
        self._api = server.api
        self._folder = tempfile.TemporaryDirectory(prefix="kcp-double-")
        self._context = self._certificate(Path(self._folder.name))
        self._places = Places()
        self._upstream = Upstream(server.kubeconfig)
        self._access = Access(self._upstream, self._places, users)
        self._controllers = Controllers(self._api, self._places, self._urls)
        forwarder = Forwarder(self._upstream, self._places)
        self._virtual = VirtualWorkspaces(self._upstream, self._access, forwarder, self.faults, self._controllers)
        self._plain = PlainWorkspaces(self._api, self._upstream, self._places, self._access, forwarder, self.faults, self._controllers)

    def __enter__(self) -> Self:
        definitions = own_definitions()
        for definition in definitions:
            install(self._api, definition)
        for definition in definitions:
            wait_served(self._api, definition)
        with contextlib.suppress(ApiError):  # of an earlier double on this server
            self._api.create(_ACCESS_ROLE)
        self.add_shard(ROOT)
        self._controllers.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.faults.clear()
        self.faults.cut_watches(everywhere=True)
        for shard in self._shards.values():
            shard.stop()
        self._controllers.stop()
        self._upstream.close()
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """Where workspaces are: ``<url>/clusters/<path>``."""
        return self._shards[ROOT].url

    def add_shard(self, name: str) -> str:
        """Its URL. Workspaces whose ``spec.location.selector`` asks for ``name: <name>`` lie on it."""
        shard = self._shards[name] = ShardServer(name, self._context, self._answer, self._streaming)
        shard.start()
        return shard.url

    def lag(self, seconds: float) -> None:
        """For so long after a binding that is new from now on, lists of all workspaces are those from before it. 0 ends it for all."""
        self._controllers.lag = seconds

    def move_workspace(self, place: str, shard: str) -> None:
        """To another shard: its objects vanish from one URL and appear at the other."""
        workspace = self._places.find(place)
        assert workspace is not None and shard in self._shards, f"no workspace {place} or no shard {shard}"
        workspace.shard = shard
        for binding in self._controllers.state.bindings:
            if binding.workspace is workspace and binding.export is not None:
                claimed = self._controllers.state.accepted().get(workspace.cluster, set())
                self._controllers.touch(workspace.cluster, {*binding.export.resources, *claimed})
        self._controllers.nudge()

    def move_url(self, shard: str) -> str:
        """The shard gets another address; slices tell it."""
        self._shards[shard].stop()
        self._shards[shard].start(new_port=True)
        self._controllers.nudge()
        return self._shards[shard].url

    def hide_url(self, shard: str) -> None:
        """Out of the slices, although it still answers."""
        self._hidden.add(shard)
        self._controllers.nudge()

    def show_url(self, shard: str) -> None:
        self._hidden.discard(shard)
        self._controllers.nudge()

    def restart(self, down: float = 0.2) -> None:
        """All connections break, nothing answers for ``down`` seconds, then everything is as it was."""
        for shard in self._shards.values():
            shard.stop()
        self.faults.cut_watches(everywhere=True)
        time.sleep(down)
        for shard in self._shards.values():
            shard.start()

    def _urls(self) -> dict[str, str]:
        return {name: shard.url for name, shard in self._shards.items() if name not in self._hidden}

    def _answer(self, request: Request) -> Reply:
        if request.path in ("/readyz", "/livez", "/healthz"):
            return Reply(body=b"ok", content_type="text/plain")
        user = self._access.user_of(request.headers)
        if user is None:
            return failure(401, "Unauthorized")
        if request.path.startswith("/services/apiexport/"):
            return self.around(request, lambda: self._virtual.answer(request, user, request.path.removeprefix("/services/apiexport/")))
        if request.path.startswith("/clusters/"):
            return self._plain.answer(request, user, request.path.removeprefix("/clusters/"))
        return plain_404()

    @contextlib.contextmanager
    def _streaming(self, request: Request, reply: Reply) -> Iterator[Live]:
        virtual = request.path.startswith("/services/")
        tail = request.path.split("/", 7 if virtual else 3)[-1]
        live = Live(request, target_of(request, f"/{tail}"), virtual, reply)
        self.faults.begin(live)
        try:
            yield live
        finally:
            self.faults.finish(live)
            if reply.stop is not None:
                with contextlib.suppress(Exception):  # it has ended by itself
                    reply.stop()

    def _certificate(self, folder: Path) -> ssl.SSLContext:
        authority = Authority(folder, "kcp double")
        pair = authority.issue("server", "kcp-double", names=["127.0.0.1", "localhost"])
        self.ca = authority.cert.read_text(encoding="ascii")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(pair.cert), str(pair.key))
        return context
