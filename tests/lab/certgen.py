# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""certgen, played: a pod of Job or CronJob ``clustermesh-apiserver-generate-certs`` issues the leaves anew and ends.

It goes by what stands in the pod alone: the CA that ``--ca-secret-name`` names, with ``--ca-reuse-secret``, and the list in
CILIUM_CERTGEN_CONFIG. Leaves that exist are overwritten unconditionally, as cilium/certgen does (generate.go, StoreAsSecret).
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tests.lab.api import LabApi
from tests.lab.profiles.certgen import NAME
from tests.lab.profiles.objects import encoded
from tests.lab.profiles.options import CaPair
from tests.lab.profiles.pki import Usage, issue

Object = dict[str, Any]
ROLE = NAME
"""Value of label k8s-app of its pods."""
MANAGER = "cilium-certgen"
_CHAINS_SINCE = (0, 3, 1)  # before, several certificates in ca.crt are refused (cilium/certgen, changes of v0.3.1)


class CertgenError(Exception):
    """certgen would end with status 1; the text is what it would log."""


def run_certgen(api: LabApi, pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Issue everything that the pod's certgen is asked for; returns the names of the Secrets written. Raises CertgenError, ApiError."""
    container = pod["spec"]["containers"][0]
    arguments = dict(part.removeprefix("--").partition("=")[::2] for part in container.get("args") or [])
    variables = {variable["name"]: variable.get("value", "") for variable in container.get("env") or []}
    wanted = yaml.safe_load(variables.get("CILIUM_CERTGEN_CONFIG", "")) or {}
    ca, root = _authority(api, arguments, str(container["image"]))
    return tuple(_store(api, entry, ca, root) for entry in wanted.get("certs") or [])


def _authority(api: LabApi, arguments: Mapping[str, str], image: str) -> tuple[CaPair, str]:
    """Who signs, and what becomes ``ca.crt`` of the leaves: of a chain the first signs and the last is the root."""
    name, namespace = arguments["ca-secret-name"], arguments["ca-secret-namespace"]
    secret = api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
    if secret is None:
        raise CertgenError(f"the lab's certgen makes no CA, and there is no Secret {namespace}/{name}")
    data = {key: b64decode(value) for key, value in (secret.get("data") or {}).items()}
    certificates = x509.load_pem_x509_certificates(data.get("ca.crt", b""))
    if len(certificates) > 1 and _version(image) < _CHAINS_SINCE:
        raise CertgenError("failed to parse CA certificate: the PEM file should contain only one object")
    first, last = (certificate.public_bytes(Encoding.PEM).decode() for certificate in (certificates[0], certificates[-1]))
    return CaPair(first, data["ca.key"].decode()), last


def _version(image: str) -> tuple[int, ...]:
    found = re.search(r":v(\d+)\.(\d+)\.(\d+)", image)
    return tuple(int(part) for part in found.groups()) if found else (0, 0, 0)


def _store(api: LabApi, wanted: Mapping[str, Any], ca: CaPair, root: str) -> str:
    name, namespace = str(wanted["name"]), str(wanted["namespace"])
    hosts = [str(host) for host in wanted.get("hosts") or []]
    ips = [host for host in hosts if re.fullmatch(r"[0-9.]+|[0-9a-f:]+", host)]
    usages: list[Usage] = ["serverAuth"] if "server auth" in wanted["usage"] else ["clientAuth"]
    days = int(str(wanted["validity"]).partition("h")[0]) // 24
    dns = [host for host in hosts if host not in ips]
    made = issue(ca, str(wanted["commonName"]), dns=dns, ips=ips, eku=usages, days=days, key_type="ec", subject_key_id=True)
    path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
    body: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/tls",
        "data": encoded({"ca.crt": root, "tls.crt": made.cert_pem, "tls.key": made.key_pem}),
    }
    if api.get(path) is None:
        api.create(body, field_manager=MANAGER)
    else:
        api.patch(path, {"data": body["data"]}, field_manager=MANAGER)
    return name
