# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Exec plugin of a kubeconfig: what it gets, how it is run, and what it answers (Kubernetes, client.authentication.k8s.io).

The ``kubernetes`` package runs plugins too. Its runner gives them the terminal whenever there is one, waits for ever, writes what they
complain of to the log, and keeps a certificate authority in a file from them (kubernetes/config/exec_provider.py).
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ..base.json_reader import NotJson, load_json
from ..base.redact import one_line
from ..kubeconfig.fields import Entry

VARIABLE: Final = "KUBERNETES_EXEC_INFO"
EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Extension of a cluster that its plugin gets as ``config``."""
INSTALL: Final = "Install it where this runs, in the PATH of this user; with AWX in the execution environment."
SECONDS: Final = 60.0  # for a plugin; those of the clouds ask a server or two
ANSWER_LIMIT: Final = 1 << 20  # bytes
_PASSED: Final = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class PluginFailed(Exception):
    """Plugin that gave no credentials. The message names its command without folder and arguments; nothing that it wrote is in it."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class PluginCredentials:
    """What a plugin gave: a token, a client certificate with its key in PEM, or both, until ``ends``."""

    token: str = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    ends: datetime


@dataclass(frozen=True)
class ExecPlugin:
    """Plugin of a user, and the cluster for which it is run: entries of a kubeconfig."""

    plugin: Entry
    cluster: Entry

    def run(self) -> PluginCredentials:
        """Run the plugin. It gets no terminal: no person can be asked.

        :raises PluginFailed: when it gives no credentials.
        """
        command = [self.plugin["command"], *self.plugin.get("args", ())]
        own = {variable["name"]: variable.get("value", "") for variable in self.plugin.get("env", ())}
        exec_info = self.exec_info()
        try:
            environment = {**os.environ, **own, VARIABLE: json.dumps(exec_info)}
            done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
        except PermissionError:
            raise self._failed("is a file that this user may not run", "Make it executable for the user who runs this.") from None
        except (FileNotFoundError, NotADirectoryError):
            raise self._failed("is not installed", self.plugin.get("installHint") or INSTALL) from None
        except subprocess.TimeoutExpired:
            raise self._failed(f"did not end within {SECONDS:g} s") from None
        except TypeError:  # YAML has dates, which JSON has not
            raise self._failed("cannot be given the extension of its cluster, as a value is none of JSON", "Put dates in quotes.") from None
        except (OSError, ValueError):  # a NUL in a variable is a ValueError, which quotes nothing
            raise self._failed("cannot be run") from None
        if done.returncode:
            raise self._failed(f"ended with exit status {done.returncode}")
        return self.read(done.stdout)

    def exec_info(self) -> dict[str, Any]:
        """Return what the plugin finds in its environment, an ExecCredential.

        :raises PluginFailed: when the file of the cluster's authority cannot be read.
        """
        spec: dict[str, Any] = {"interactive": False}
        if self.plugin.get("provideClusterInfo"):
            spec["cluster"] = {key: self.cluster[key] for key in _PASSED if key in self.cluster}
            if authority := self._authority():
                spec["cluster"]["certificate-authority-data"] = base64.b64encode(authority).decode()
            for extension in self.cluster.get("extensions", ()):
                if extension.get("name") == EXTENSION:
                    spec["cluster"]["config"] = extension.get("extension")
        return {"apiVersion": self.plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}

    def _authority(self) -> bytes:
        if path := self.cluster.get("certificate-authority"):
            try:
                return Path(path).read_bytes()
            except OSError:
                raise self._failed("cannot get the certificate authority, whose file cannot be read") from None
        return bytes(self.cluster.get("certificate-authority-data", b""))

    def read(self, output: bytes) -> PluginCredentials:
        """Return the credentials of an answer.

        :raises PluginFailed: when it is none, or has none in it.
        """
        try:
            answer = load_json(output[: ANSWER_LIMIT + 1])
            version, status = answer["apiVersion"], answer["status"]
            token, certificate, key = (_text(status, name) for name in ("token", "clientCertificateData", "clientKeyData"))
            pair = certificate.encode(), key.encode()
            ends = _time(_text(status, "expirationTimestamp"))
        except (NotJson, LookupError, TypeError, ValueError):
            raise self._failed("did not answer with an ExecCredential") from None
        if version != self.plugin["apiVersion"]:
            raise self._failed("answered in another version of client.authentication.k8s.io than the kubeconfig asks for")
        if bool(certificate) != bool(key) or not (token or certificate):
            raise self._failed("gave neither a token nor a certificate with its key")
        return PluginCredentials(token, *pair, ends)

    def _failed(self, what: str, hint: str = "") -> PluginFailed:
        name = one_line(os.path.basename(self.plugin["command"]), 60)
        return PluginFailed(
            f'The exec plugin "{name}" of the kubeconfig {what}.', one_line(hint, 300) or "Run it by hand as the same user to see why."
        )


def _text(status: Any, name: str) -> str:
    if not isinstance(status, Mapping):
        raise TypeError
    found = status.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise TypeError
    return found


def _time(text: str) -> datetime:
    """Return the time of RFC 3339; the last there is for none."""
    found = datetime.fromisoformat(text) if text else _NEVER
    if found.tzinfo is None:
        raise ValueError
    return found
