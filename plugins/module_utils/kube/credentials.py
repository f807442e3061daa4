# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Credentials of a connection, as a kubeconfig has them: address, TLS context, headers, proxy.

OpenSSL reads a client certificate and its key from files alone; here these live in a private folder (in memory where there is /dev/shm)
for the millisecond until it has read them. Nothing is left to ``atexit``: Ansible's workers end by ``os._exit``, which does not run it.
"""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..base.dialling import Dialler
from ..base.errors import CredentialsInvalid
from ..base.library_errors import LibraryErrors, raised_by
from ..base.optional_imports import optional
from ..base.redact import one_line
from ..kubeconfig.chosen import Chosen, choose
from ..kubeconfig.document import parse_kubeconfig
from ..kubeconfig.fields import Entry
from ..kubeconfig.files import default_paths, read_kubeconfigs, split_paths
from ..kubeconfig.invalid import KubeconfigInvalid, KubeconfigUnreadable
from ..kubeconfig.pod import service_account
from .authorization import Authorization, Certificate, Headers
from .deadlines import DeadlineSocket
from .proxies import Proxy, proxy_of

if TYPE_CHECKING:
    import urllib3
    from cryptography import x509
else:
    urllib3 = optional("urllib3")
    x509 = optional("cryptography.x509")

_FILE_REMEDY: Final = "Correct cilium_mesh_kubeconfig or cilium_mesh_context of this cluster."
_REMEDY: Final = "Correct cilium_mesh_kubeconfig or cilium_mesh_context of this cluster, or cilium_mesh_auth where it has that."


class Credentials:
    """Address and credentials of one API server. It holds no file; thread-safe.

    :param cluster: inventory name.
    :param name: of the kubeconfig, for messages.
    :raises CredentialsInvalid: when the kubeconfig cannot be used.
    """

    def __init__(self, cluster: str, name: str, chosen: Chosen) -> None:
        self.cluster = cluster
        self.server: str = chosen.cluster["server"].rstrip("/")
        self.address = _address(cluster, name, self.server)
        self.tls_server_name: str | None = chosen.cluster.get("tls-server-name")
        self.authority = _authority(cluster, name, chosen.cluster)  # PEM: the CA of the kubeconfig, as it is there
        self.verifies = not chosen.cluster.get("insecure-skip-tls-verify", False)
        self.client_certificate_ends: datetime | None = None
        self.dialler: Dialler | None = None  # for connections to the owner's server, where ranges are denied
        self._own_proxy: str | None = chosen.cluster.get("proxy-url")
        self.proxy = _proxy(self.cluster, self.server, self._own_proxy)
        self._name = name
        self._lock = threading.Lock()
        self._shown: Certificate | None = None
        self.tls = self._tls_context()
        self._authorization = Authorization(chosen, cluster, secretly=self.tls is not None)
        self._show_certificate()

    @property
    def nameless(self) -> str:
        """Why requests do not say who sends them, as the beginning of a sentence; "" where they do."""
        if self.tls is None:
            return "The server of the kubeconfig has no TLS, so no credentials are sent to it"
        return "The kubeconfig has no credentials" if self._authorization.is_anonymous else ""

    def headers(self) -> Headers:
        """Return the headers that say who sends a request, those of impersonation among them; [] with a client certificate only.

        A token, or the certificate of a plugin, is renewed when it is about to end.

        :raises CredentialsInvalid: when it cannot be renewed.
        """
        with _readable(self.cluster):
            found = self._authorization.headers()
            self._show_certificate()
        return found

    def move_to(self, server: str) -> None:
        """Use the credentials for another base URL, to which the token will be sent: the owner of the credentials has to vouch for it.

        :raises CredentialsInvalid: when ``server`` is no URL.
        """
        before, self.server = self.address, server.rstrip("/")
        self.address = _address(self.cluster, "The address", self.server)
        if self.address != before:
            self.tls_server_name = None  # it is the name of the server in the kubeconfig
        self.proxy = _proxy(self.cluster, self.server, self._own_proxy)

    def __repr__(self) -> str:
        return f"<Credentials of {self.cluster}>"

    def _tls_context(self) -> ssl.SSLContext | None:
        if not self.server.startswith("https://"):
            return None
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.sslsocket_class = DeadlineSocket
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        # Python 3.13 sets this flag; CAs made by k3s, kcp and openssl lack the extensions that it demands, and client-go takes them.
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.verifies:
            # It is the owner's decision, and a warning per request would bury the result. Not when this file is imported: Ansible's loader
            # of plugins takes back what changes about warnings meanwhile (ansible-core 2.19, plugins/loader.py, catch_warnings).
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        elif self.authority:
            try:
                tls.load_verify_locations(cadata=self.authority.decode("ascii", "ignore"))
            except (OSError, ValueError):  # ssl.SSLError is an OSError
                raise CredentialsInvalid(
                    f"{self._name}: the certificate authority is not in PEM form.", remedy=_REMEDY, cluster=self.cluster
                ) from None
        else:
            tls.load_default_certs()
        return tls

    def _show_certificate(self) -> None:
        """Have new connections show the client certificate of now."""
        if self.tls is None:
            return
        now = self._authorization.certificate()
        with self._lock:
            if now is None or now == self._shown:
                return
            _load_certificate(self.cluster, self._name, self.tls, now)
            self._shown = now
            self.client_certificate_ends = _end(now.certificate)


def load_credentials(cluster: str, kubeconfig: str | Mapping[str, Any] | None, context: str | None) -> Credentials:
    """Read a kubeconfig (path, several paths joined by ":", or mapping) and run its exec plugin if it names one. Contacts no API server.

    None means the default kubeconfig when a context is named, else the service account of the pod in which this process runs.

    :raises CredentialsInvalid: when it cannot be used; the message names the file and never quotes it.
    """
    with _readable(cluster):
        return _loaded(cluster, kubeconfig, context)


def _loaded(cluster: str, kubeconfig: str | Mapping[str, Any] | None, context: str | None) -> Credentials:
    if kubeconfig is None and context is None:
        if (account := service_account()) is None:
            why, remedy = "No kubeconfig is set for this cluster.", "Set cilium_mesh_kubeconfig or cilium_mesh_auth for this host."
            raise CredentialsInvalid(why, remedy=remedy, cluster=cluster)
        return Credentials(cluster, "The pod's service account", account)
    name = "The kubeconfig in the inventory"
    try:
        if isinstance(kubeconfig, Mapping):
            return Credentials(cluster, name, choose(parse_kubeconfig(kubeconfig, None), context))
        paths = default_paths() if kubeconfig is None else _paths(cluster, kubeconfig)
        found, name = read_kubeconfigs(paths), f"Kubeconfig {one_line(os.pathsep.join(paths), 200)}"
        return Credentials(cluster, name, choose(found, context))
    except KubeconfigUnreadable as invalid:
        raise CredentialsInvalid(f"{invalid.message}.", remedy=invalid.remedy or _FILE_REMEDY, cluster=cluster) from None
    except KubeconfigInvalid as invalid:
        raise CredentialsInvalid(f"{name} cannot be used: {invalid.message}.", remedy=invalid.remedy or _REMEDY, cluster=cluster) from None


def _readable(cluster: str) -> LibraryErrors:
    """Raise CredentialsInvalid in place of whatever a library raises in the block."""

    def as_credentials_error(error: BaseException) -> CredentialsInvalid:
        why = f"A library failed with what the kubeconfig has: {raised_by(error)}."
        return CredentialsInvalid(why, remedy="Check its certificates, keys and tokens, for example with kubectl.", cluster=cluster)

    return LibraryErrors(as_credentials_error)


def _paths(cluster: str, source: Any) -> tuple[str, ...]:
    if not isinstance(source, str) or "\n" in source or "\0" in source:
        raise CredentialsInvalid(
            "cilium_mesh_kubeconfig is neither a path nor a mapping.",
            remedy="Give the path of the file, or the parsed document.",
            cluster=cluster,
        )
    return split_paths(source)


def private_folder() -> str:
    """Create a folder that only this user may enter, in memory where the system offers that, and return its path.

    A temporary folder that is in memory itself is preferred: it belongs to a run, which removes it, or is the only place to write in.
    """
    memory, own = "/dev/shm", tempfile.gettempdir()
    in_memory = os.path.realpath(own).startswith(f"{memory}/")
    base = memory if not in_memory and os.path.isdir(memory) and os.access(memory, os.W_OK | os.X_OK) else own
    return tempfile.mkdtemp(prefix="cilium-mesh-", dir=base)


def _load_certificate(cluster: str, name: str, tls: ssl.SSLContext, shown: Certificate) -> None:
    folder = private_folder()
    try:
        paths = []
        for file, content in (("crt", shown.certificate), ("key", shown.key)):
            paths.append(os.path.join(folder, file))
            with open(os.open(paths[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(content)
        # An encrypted key would make OpenSSL ask on the terminal; an empty password makes it fail instead.
        tls.load_cert_chain(paths[0], paths[1], lambda: "")
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        why = f"{name}: the client certificate and key cannot be used together."
        raise CredentialsInvalid(why, remedy=_REMEDY, cluster=cluster) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(certificate: bytes) -> datetime | None:
    """Return when a certificate ends; None where ``cryptography`` does not take what OpenSSL took, as it is for messages alone."""
    with suppress(ValueError), LibraryErrors(lambda _error: ValueError(), own=ValueError):
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return None


def _authority(cluster: str, name: str, entry: Entry) -> bytes:
    """Return the certificate authority in PEM; b"" for none."""
    if path := entry.get("certificate-authority"):
        try:
            return Path(path).read_bytes()
        except OSError as error:
            why = f"{name}: the file that its certificate-authority names cannot be read: {error.strerror}."
            raise CredentialsInvalid(why, remedy=_REMEDY, cluster=cluster) from None
    return bytes(entry.get("certificate-authority-data", b""))


def _address(cluster: str, name: str, server: str) -> str:
    """Return HOST:PORT of a server URL."""
    try:
        url = urllib3.util.parse_url(server)
    except urllib3.exceptions.LocationParseError:
        url = urllib3.util.Url()
    if url.scheme not in ("http", "https") or not url.host:
        raise CredentialsInvalid(f"{name} has no server URL.", remedy=_REMEDY, cluster=cluster)
    return f"{url.host}:{url.port or (443 if url.scheme == 'https' else 80)}"


def _proxy(cluster: str, server: str, own: str | None) -> Proxy | None:
    try:
        return proxy_of(server, own)
    except ValueError:
        why = "The proxy that the environment names is no URL with http, https or socks5."
        raise CredentialsInvalid(why, remedy="Correct HTTPS_PROXY, or HTTP_PROXY for a server without TLS.", cluster=cluster) from None
