# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Pool of connections to one API server: what is kept alive, what is tried again, and how a proxy is used."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any, Final, Self

from ..base.dialling import Dialler, connected
from ..base.errors import Unreachable
from ..base.optional_imports import optional
from .credentials import Credentials
from .deadlines import PlainDeadlineSocket
from .proxies import Proxy

if TYPE_CHECKING:
    import urllib3
else:
    urllib3 = optional("urllib3")

RETRY_AFTER: Final = 5.0  # seconds
KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))  # seconds, seconds, probes, where the system has them


class _Retry(urllib3.Retry):
    """Retry policy that waits no longer than RETRY_AFTER, whatever a server asks for, and repeats a read of which TLS fails.

    urllib3's own ``retry_after_max`` is younger than 2.0, and it counts failures of TLS among the "other" ones, for writes too.
    """

    def parse_retry_after(self, retry_after: str) -> float:
        """Return the seconds to wait, at most RETRY_AFTER."""
        return min(super().parse_retry_after(retry_after), RETRY_AFTER)

    def increment(self, method: str | None = None, *args: Any, **options: Any) -> Self:
        """Return the policy for the next try.

        :raises urllib3.exceptions.HTTPError: when there is none.
        """
        policy = self if method == "GET" else self.new(other=0)
        return super(_Retry, policy).increment(method, *args, **options)


def connection_pool(credentials: Credentials, *, connect: float, read: float, connections: int) -> urllib3.PoolManager:
    """Return a pool of connections to one API server, or to the proxy before it.

    :param connect: seconds for a connection, and for its handshake.
    :param read: seconds of silence.
    :param connections: how many are kept alive.
    :raises Unreachable: when the proxy needs a Python package that is missing.
    """
    settings: dict[str, Any] = {
        "maxsize": connections,
        "timeout": urllib3.Timeout(connect=connect, read=read),
        # Keep-alive detects within a minute that the server of a watch is gone, and not only when the watch should have ended.
        "socket_options": [
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in KEEPALIVE if hasattr(socket, name)),
        ],
        # urllib3 retries a failed connection for every method, but an answer only for the methods named: a write is sent at most once.
        "retries": _Retry(
            total=3,
            connect=1,
            read=1,
            status=3,
            redirect=0,
            other=1,
            allowed_methods=("GET",),
            status_forcelist=(429, 500, 502, 503, 504),
            backoff_factor=0.2,
            backoff_max=2.0,
            raise_on_status=False,
        ),
    }
    if credentials.tls is not None:
        settings["ssl_context"] = credentials.tls
        settings["server_hostname"] = credentials.tls_server_name
    if credentials.dialler is not None:  # without the proxy, which would resolve the name itself
        return _guarded(credentials.dialler, settings)
    if credentials.proxy is None:
        return _timed(urllib3.PoolManager(**settings))
    if credentials.proxy.scheme.startswith("socks"):
        return _socks(credentials.cluster, credentials.proxy, settings)
    own = {"proxy-authorization": credentials.proxy.authorization} if credentials.proxy.authorization else None
    # A proxy with TLS is convinced as the server is, and convinces as the server does (net/http, transport.go: addTLS).
    return _timed(urllib3.ProxyManager(credentials.proxy.url, proxy_headers=own, proxy_ssl_context=credentials.tls, **settings))


def _timed(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Return the pool, whose connections heed deadlines before TLS too: without it, and while a proxy is asked for a tunnel."""

    class Plain(urllib3.connection.HTTPConnection):
        def _new_conn(self) -> socket.socket:  # urllib3's hook for the socket
            return PlainDeadlineSocket.instead_of(super()._new_conn())

    class Secure(urllib3.connection.HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return PlainDeadlineSocket.instead_of(super()._new_conn())

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    manager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
    return manager


def _guarded(dialler: Dialler, settings: dict[str, Any]) -> urllib3.PoolManager:
    """Return a pool whose connections go to the addresses that the dialler permits; TLS and the Host header keep the name."""

    class Connection(urllib3.connection.HTTPSConnection):
        _place: tuple[str, float | None] = ("", None)

        def connect(self) -> None:
            try:
                dialler.first(self.host, self._connect_to, timeout=_seconds(self.timeout))
            except ssl.SSLError:
                raise
            except TimeoutError:
                raise urllib3.exceptions.ConnectTimeoutError(self, "no connection in time") from None
            except OSError as error:
                raise urllib3.exceptions.NewConnectionError(self, f"no connection: {type(error).__name__}") from error

        def _connect_to(self, address: str, seconds: float | None) -> None:
            """Connect to one address, with the handshake: a failure of either leads to the next one."""
            self._place = address, seconds
            try:
                super().connect()
            except BaseException:
                self.close()
                raise

        def _new_conn(self) -> socket.socket:  # urllib3's hook for the socket, which classes of other packages override too
            address, seconds = self._place
            return connected(address, self.port, seconds, self.socket_options or ())

    class Pool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Connection

    manager = urllib3.PoolManager(**settings)
    manager.pool_classes_by_scheme = {"https": Pool}  # anything but TLS is refused: urllib3 has no pool for it
    return manager


def _seconds(timeout: Any) -> float | None:
    return float(timeout) if isinstance(timeout, (int, float)) else None


def _socks(cluster: str, proxy: Proxy, settings: dict[str, Any]) -> urllib3.PoolManager:
    try:
        from urllib3.contrib.socks import SOCKSProxyManager  # needs PySocks, which few have
    except ImportError:
        raise Unreachable("The kubeconfig names a SOCKS proxy.", remedy="Install PySocks.", cluster=cluster) from None
    return SOCKSProxyManager(proxy.url, username=proxy.user, password=proxy.password, **settings)
