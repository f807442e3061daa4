# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Credentials of a connection, loaded from a kubeconfig: address, TLS context, authorization header, proxy.

The kubeconfig is read by the ``kubernetes`` package's own loader, so that exec plugins, tokens, token files, client certificates and OIDC
work as its users know them. That loader hands over inlined keys as files; here they live in a private folder (in memory where there is
/dev/shm) for the millisecond until OpenSSL has read them. Nothing is left to ``atexit``: Ansible's workers end by ``os._exit``, which
does not run it.
"""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.dialling import Dialler
from ..base.errors import CredentialsInvalid, MeshError
from ..base.optional_imports import optional
from ..base.redact import one_line
from .deadlines import DeadlineSocket

if TYPE_CHECKING:
    import urllib3
    from cryptography import x509
    from kubernetes.client import Configuration
    from kubernetes.client.rest import should_bypass_proxies
    from kubernetes.config import load_incluster_config
    from kubernetes.config.dateutil import parse_rfc3339
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, ConfigNode, KubeConfigLoader, KubeConfigMerger
else:
    urllib3 = optional("urllib3")
    x509 = optional("cryptography.x509")
    Configuration = optional("kubernetes.client").Configuration
    should_bypass_proxies = optional("kubernetes.client.rest").should_bypass_proxies
    load_incluster_config = optional("kubernetes.config").load_incluster_config
    parse_rfc3339 = optional("kubernetes.config.dateutil").parse_rfc3339
    ExecProvider = optional("kubernetes.config.exec_provider").ExecProvider
    kube_config = optional("kubernetes.config.kube_config")
    KUBE_CONFIG_DEFAULT_LOCATION = kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    ConfigNode, KubeConfigLoader, KubeConfigMerger = kube_config.ConfigNode, kube_config.KubeConfigLoader, kube_config.KubeConfigMerger

_REMEDY = "Correct cilium_mesh_kubeconfig or cilium_mesh_context of this cluster."

# The loader keeps one process-wide table of files by content and is not made for threads; file writing is done one cluster at a time.
_files = threading.Lock()

# kubeconfigs with insecure-skip-tls-verify are their owner's decision; a warning per request would only bury the result.
if urllib3:
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)


class _Loader(KubeConfigLoader):  # type: ignore[misc]  # the package has no types
    """Kubeconfig loader with its own handling of the answer of an exec plugin.

    The inherited one logs a failure, with the plugin's stderr, and goes on without credentials; and it keeps certificates in the table of
    files. Running the plugin and checking its answer stays the package's work.
    """

    cluster = ""

    def _load_from_exec_plugin(self) -> bool:
        if "exec" not in self._user:
            return False
        try:
            provider = ExecProvider(self._user["exec"], self._get_base_path(self._cluster.path), self._cluster)
            return self._take(provider.run())
        except (FileNotFoundError, PermissionError):
            raise self._plugin_error("is not installed") from None
        except Exception:  # ConfigException with the plugin's stderr; any exception for an answer of another shape
            raise self._plugin_error("gave no credentials") from None

    def _take(self, status: Mapping[str, Any]) -> bool:
        """Store the status of an ExecCredential: a token or a certificate with its key, and their end (client.authentication.k8s.io/v1)."""
        if "token" in status:
            self.token = f"Bearer {status['token']}"
        else:
            self.cert_file = self._write("plugin.crt", status["clientCertificateData"])
            self.key_file = self._write("plugin.key", status["clientKeyData"])
        if "expirationTimestamp" in status:
            self.expiry = parse_rfc3339(status["expirationTimestamp"])
        return True

    def _write(self, name: str, content: str) -> str:
        path = os.path.join(self._temp_file_path, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(content)
        return path

    def _plugin_error(self, what: str) -> CredentialsInvalid:
        """Return an error that names the command, without its folder and arguments."""
        command = self._user["exec"].safe_get("command") if isinstance(self._user["exec"], ConfigNode) else ""
        name = one_line(os.path.basename(command), 60) if isinstance(command, str) else ""
        remedy = "Run it by hand as the same user to see why."
        return CredentialsInvalid(f'The exec plugin "{name}" of the kubeconfig {what}.', remedy=remedy, cluster=self.cluster)

    def authenticate(self) -> None:
        """Do the slow half of ``load_and_set``: it may run a plugin for seconds, so it is not done under ``_files``."""
        self._load_authentication()

    def finish(self, configuration: Configuration) -> None:
        """Do the other half of ``load_and_set``, under ``_files``: it writes the temporary files."""
        self._load_cluster_info()
        self._set_config(configuration)
        if "proxy-url" in self._cluster:  # the package reads it itself from 37 on
            configuration.proxy = self._cluster["proxy-url"]


class Credentials:
    """Address and credentials of one API server. It holds no file; thread-safe."""

    def __init__(self, cluster: str, name: str, configuration: Configuration, tls: ssl.SSLContext | None, ends: datetime | None) -> None:
        self.cluster = cluster
        self.server: str = configuration.host.rstrip("/")
        self.address = _address(cluster, name, self.server)
        self.tls = tls
        self.tls_server_name: str | None = configuration.tls_server_name
        self.client_certificate_ends = ends
        self.authority = b""  # PEM: the CA of the kubeconfig, as it is there
        self.verifies: bool = bool(configuration.verify_ssl)
        self.proxy = _proxy(configuration)
        self.dialler: Dialler | None = None  # for connections to the owner's server, where ranges are denied
        self._configuration = configuration
        self._lock = threading.Lock()

    def headers(self) -> dict[str, str]:
        """Return the authorization header; {} with a client certificate only.

        The loader's hook refreshes the token when it is about to expire.

        :raises CredentialsInvalid: when the token cannot be refreshed.
        """
        try:
            with self._lock:
                settings = self._configuration.auth_settings()
        except MeshError:
            raise
        except Exception:  # the hook runs plugins and OAuth libraries, whose errors may quote tokens
            raise CredentialsInvalid("The token of the kubeconfig cannot be refreshed.", remedy=_REMEDY, cluster=self.cluster) from None
        return {str(s["key"]): str(s["value"]) for s in settings.values() if s["in"] == "header" and s["value"]}

    def move_to(self, server: str) -> None:
        """Use the credentials for another base URL, to which the token will be sent: the owner of the credentials has to vouch for it.

        :raises CredentialsInvalid: when ``server`` is no URL.
        """
        before, self.server = self.address, server.rstrip("/")
        self.address = _address(self.cluster, "The address", self.server)
        if self.address != before:
            self.tls_server_name = None  # it is the name of the server in the kubeconfig
        self._configuration.host = self.server  # the proxy settings are evaluated for this host
        self.proxy = _proxy(self._configuration)

    def __repr__(self) -> str:
        return f"<Credentials of {self.cluster}>"


def load_credentials(cluster: str, kubeconfig: str | Mapping[str, Any] | None, context: str | None) -> Credentials:
    """Read a kubeconfig (path, several paths joined by ":", or mapping) and run its exec plugin if it names one. Contacts no API server.

    None means the default kubeconfig when a context is named, else the service account of the pod in which this process runs.

    :raises CredentialsInvalid: when it cannot be used; the message names the file and never quotes it.
    """
    if kubeconfig is None and context is None:
        return _in_cluster(cluster)
    source = KUBE_CONFIG_DEFAULT_LOCATION if kubeconfig is None else kubeconfig
    name, content = _read(cluster, source)
    folder = private_folder()
    try:
        return _load(cluster, name, content, context, Configuration(host=""), folder)
    finally:
        with _files:
            shutil.rmtree(folder, ignore_errors=True)


def _load(cluster: str, name: str, content: Any, context: str | None, configuration: Configuration, folder: str) -> Credentials:
    try:
        loader = _Loader(config_dict=content, active_context=context, config_base_path=None, temp_file_path=folder)
    except Exception:  # any error that a malformed document provokes; the loader's messages quote whole entries, tokens included
        which = f'context "{one_line(context, 80)}"' if context else "current context"
        raise CredentialsInvalid(f"{name} has no complete {which}.", remedy=_REMEDY, cluster=cluster) from None
    loader.cluster = cluster
    try:
        loader.authenticate()
        with _files:
            loader.finish(configuration)
            tls, ends = _tls_context(cluster, name, configuration)
            authority = Path(configuration.ssl_ca_cert).read_bytes() if configuration.ssl_ca_cert else b""
            shutil.rmtree(folder)  # before the next one may be given one of these files for its own
    except MeshError:
        raise
    except Exception:  # a ConfigException that quotes file names and values, or any error that an entry of another type provokes
        raise CredentialsInvalid(f"{name} is incomplete, or a file that it names is missing.", remedy=_REMEDY, cluster=cluster) from None
    credentials = Credentials(cluster, name, configuration, tls, ends)
    credentials.authority = authority
    return credentials


def _in_cluster(cluster: str) -> Credentials:
    if not os.environ.get("KUBERNETES_SERVICE_HOST"):
        raise CredentialsInvalid(
            "No kubeconfig is set for this cluster.", remedy="Set cilium_mesh_kubeconfig for this host.", cluster=cluster
        )
    name = "The pod's service account"
    configuration = Configuration(host="")
    try:
        load_incluster_config(client_configuration=configuration)
        tls, ends = _tls_context(cluster, name, configuration)
    except MeshError:
        raise
    except Exception:  # as above, for the files that the kubelet mounts
        raise CredentialsInvalid(f"{name} has no usable token or certificate authority.", cluster=cluster) from None
    return Credentials(cluster, name, configuration, tls, ends)


def _read(cluster: str, source: str | Mapping[str, Any]) -> tuple[str, Any]:
    """Return (the name for messages, the document in the loader's form)."""
    if isinstance(source, Mapping):
        return "The kubeconfig in the inventory", dict(source)
    if not isinstance(source, str) or "\n" in source or "\0" in source:
        raise CredentialsInvalid(
            "cilium_mesh_kubeconfig is neither a path nor a mapping.",
            remedy="Give the path of the file, or the parsed document.",
            cluster=cluster,
        )
    paths = [Path(p).expanduser() for p in source.split(os.pathsep) if p]
    name = f"Kubeconfig {one_line(source, 200)}"
    if not any(p.exists() for p in paths):
        raise CredentialsInvalid(f"{name} does not exist.", remedy=_REMEDY, cluster=cluster)
    try:
        content = KubeConfigMerger(source).config
    except OSError:
        raise CredentialsInvalid(f"{name} cannot be read.", remedy="Check the permissions of the file.", cluster=cluster) from None
    except Exception:  # YAML errors quote the line; a list where a mapping belongs gives a TypeError
        raise CredentialsInvalid(f"{name} is not a kubeconfig: it does not parse.", remedy=_REMEDY, cluster=cluster) from None
    return name, content


def private_folder() -> str:
    """Create a folder that only this user may enter, in memory where the system offers that, and return its path.

    A temporary folder that is in memory itself is preferred: it belongs to a run, which removes it, or is the only place to write in.
    """
    memory, own = "/dev/shm", tempfile.gettempdir()
    in_memory = os.path.realpath(own).startswith(f"{memory}/")
    base = memory if not in_memory and os.path.isdir(memory) and os.access(memory, os.W_OK | os.X_OK) else own
    return tempfile.mkdtemp(prefix="cilium-mesh-", dir=base)


def _tls_context(cluster: str, name: str, configuration: Configuration) -> tuple[ssl.SSLContext | None, datetime | None]:
    """Return the TLS context, and the end of the client certificate."""
    if not configuration.host.startswith("https://"):
        return None, None
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.sslsocket_class = DeadlineSocket
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 sets this flag; CAs made by k3s, kcp and openssl lack the extensions that it demands, and client-go takes them.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    elif configuration.ssl_ca_cert:
        _use(cluster, f"{name}: the certificate authority is not in PEM form.", tls.load_verify_locations, configuration.ssl_ca_cert)
    else:
        tls.load_default_certs()
    if not configuration.cert_file:
        return tls, None
    # An encrypted key would make OpenSSL ask on the terminal; an empty password makes it fail instead.
    chain = (configuration.cert_file, configuration.key_file, lambda: "")
    _use(cluster, f"{name}: the client certificate and key cannot be used together.", tls.load_cert_chain, *chain)
    return tls, x509.load_pem_x509_certificate(Path(configuration.cert_file).read_bytes()).not_valid_after_utc


def _use(cluster: str, otherwise: str, function: Callable[..., None], *arguments: Any) -> None:
    try:
        function(*arguments)
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        raise CredentialsInvalid(otherwise, remedy=_REMEDY, cluster=cluster) from None


def _address(cluster: str, name: str, server: str) -> str:
    """Return HOST:PORT of a server URL."""
    try:
        url = urllib3.util.parse_url(server)
    except urllib3.exceptions.LocationParseError:
        url = urllib3.util.Url()
    if url.scheme not in ("http", "https") or not url.host:
        raise CredentialsInvalid(f"{name} has no server URL.", remedy=_REMEDY, cluster=cluster)
    return f"{url.host}:{url.port or (443 if url.scheme == 'https' else 80)}"


def _proxy(configuration: Configuration) -> str | None:
    """Return proxy-url of the kubeconfig, else the environment's; None if no_proxy exempts the server."""
    if not configuration.proxy or should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        return None
    return str(configuration.proxy)
