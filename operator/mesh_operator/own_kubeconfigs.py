# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs of the platform's own control planes, whole in themselves, for plays that may read no other file.

They are read anew for each play, so that tokens and certificates that are renewed in files count from then on.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import CredentialsInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import load_yaml

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_FILES: Final = {"certificate-authority": "cluster", "client-certificate": "user", "client-key": "user"}
_RUNS: Final = ("exec", "auth-provider")  # a confined play starts no program of the platform


def whole_kubeconfig(path: str, flag: str) -> dict[str, Any]:
    """Return the current context of a kubeconfig, with the content of the files that it names in place of their names.

    :param path: of the file; "" is the service account of the pod.
    :param flag: that names the file, for messages.
    :raises CredentialsInvalid: when it cannot be read, or runs a program; the message quotes no value.
    """
    if not path:
        return _of_pod(flag)
    try:
        document: Any = load_yaml(Path(path).read_bytes())
        context = _named(document, "context", document.get("current-context"))
        entries = {kind: _with_files(kind, _named(document, kind, context[kind]), Path(path).parent) for kind in ("cluster", "user")}
    except CredentialsInvalid:
        raise
    except Exception:  # errors of the YAML reader quote lines
        raise CredentialsInvalid(f"The kubeconfig of {flag} cannot be read.", remedy=f"Correct {flag}.", cluster="") from None
    for key in _RUNS:
        if entries["user"].get(key):
            why = f"The kubeconfig of {flag} has a user with {key}, and plays of the operator start no program."
            raise CredentialsInvalid(why, remedy="Use a token, a token file or a client certificate.", cluster="")
    return _document(entries["cluster"], entries["user"])


def _of_pod(flag: str) -> dict[str, Any]:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        token = (_ACCOUNT / "token").read_text(encoding="utf-8").strip()
        authority = base64.b64encode((_ACCOUNT / "ca.crt").read_bytes()).decode()
    except OSError:
        raise CredentialsInvalid("The service account of the pod cannot be read.", remedy=f"Give {flag}.", cluster="") from None
    shown = f"[{host}]" if ":" in host else host
    return _document({"server": f"https://{shown}:{port}", "certificate-authority-data": authority}, {"token": token})


def _with_files(kind: str, entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    found = dict(entry)
    for key, owner in _FILES.items():
        if owner == kind and (name := found.pop(key, None)):
            found.setdefault(f"{key}-data", base64.b64encode((folder / str(name)).read_bytes()).decode())
    if kind == "user" and (name := found.pop("tokenFile", None)):
        found["token"] = (folder / str(name)).read_text(encoding="utf-8").strip()
    return found


def _named(document: Mapping[str, Any], kind: str, name: Any) -> dict[str, Any]:
    return dict(next(entry[kind] for entry in document[f"{kind}s"] if entry["name"] == name))


def _document(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> dict[str, Any]:
    context = {"cluster": "own", "user": "own"}
    lists: dict[str, Mapping[str, Any]] = {"cluster": cluster, "user": user, "context": context}
    named = {f"{kind}s": [{"name": "own", kind: dict(entry)}] for kind, entry in lists.items()}
    return {"apiVersion": "v1", "kind": "Config", "current-context": "own", **named}
