# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs of the shapes that providers hand out are read, taken and refused as the table of docs/kubeconfigs.md says."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.chosen import choose
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.document import parse_kubeconfig
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.files import document_of
from mesh_operator.credentials.tenant_kubeconfigs import KubeconfigRefused, rebuild_kubeconfig
from tests.collection_path import CHECKOUT
from tests.testing.made_certificates import make

CA: Final = make("CA of a provider", ca=True)
CLIENT: Final = make("admin", issuer=CA)


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


PAIR: Final = {"client-certificate-data": _b64(CLIENT.pem), "client-key-data": _b64(CLIENT.key)}
VERIFIED: Final = {"certificate-authority-data": _b64(CA.pem)}


def _plugin(command: str, **more: Any) -> Mapping[str, Any]:
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": command, "provideClusterInfo": True, **more}}


@dataclass(frozen=True)
class Shape:
    """What one provider hands out. ``more``: contexts beside the current one, each a cluster of its own."""

    server: str
    user: Mapping[str, Any]
    cluster: Mapping[str, Any] = field(default_factory=lambda: VERIFIED)
    current: str = "main"
    more: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def text(self) -> bytes:
        clusters = {self.current: {"server": self.server, **self.cluster}, **self.more}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "preferences": {},
                "clusters": [{"name": f"{name}-cluster", "cluster": cluster} for name, cluster in clusters.items()],
                "contexts": [{"name": name, "context": {"cluster": f"{name}-cluster", "user": "user"}} for name in clusters],
                "current-context": self.current,
                "users": [{"name": "user", "user": dict(self.user)}],
            }
        ).encode()


INSIDE: Final = {"server": "https://192.168.0.10:5443", **VERIFIED}
OUTSIDE: Final = {"server": "https://198.51.100.7:5443", "insecure-skip-tls-verify": True}
OIDC: Final = {"name": "oidc", "config": {"idp-issuer-url": "https://dex.example.com/dex", "client-id": "kubermatic", "id-token": "a.b.c"}}
SHAPES: Final = {
    "kind": Shape("https://127.0.0.1:38211", PAIR),
    "kind, from a container": Shape("https://demo-control-plane:6443", PAIR),
    "OTC CCE, context `internal`": Shape(INSIDE["server"], PAIR, current="internal", more={"external": OUTSIDE}),
    "OTC CCE, context `external`": Shape(
        str(OUTSIDE["server"]), PAIR, cluster={"insecure-skip-tls-verify": True}, current="external", more={"internal": INSIDE}
    ),
    "OSC, Gardener": Shape("https://api.demo.garden.example.com", PAIR, more={"internal": {"server": "https://api.internal.example.com"}}),
    "KKP, with the token of the user cluster": Shape("https://abc.eu.kkp.example.com:30652", {"token": "abcdef.0123456789abcdef"}),
    "KKP, with OIDC": Shape("https://abc.eu.kkp.example.com:30652", {"auth-provider": OIDC}),
    "KKP, with OIDC-kubelogin": Shape(
        "https://abc.eu.kkp.example.com:30652", _plugin("kubectl", args=["oidc-login", "get-token"], interactiveMode="IfAvailable")
    ),
    "KubeOne, kubeadm": Shape("https://api.example.com:6443", PAIR),
    "k3s, RKE2": Shape("https://127.0.0.1:6443", PAIR, current="default"),
    "EKS": Shape("https://abc.gr7.eu-central-1.eks.amazonaws.com", _plugin("aws", args=["eks", "get-token"])),
    "GKE": Shape("https://198.51.100.8", _plugin("gke-gcloud-auth-plugin", installHint="Install it")),
    "AKS with Entra ID": Shape("https://demo.hcp.westeurope.azmk8s.io:443", _plugin("kubelogin", args=["get-token"], env=None)),
    "An imported cluster": Shape("https://198.51.100.9:6443", {"token": "e30.e30.c2ln"}),
}


def table() -> dict[str, tuple[str, str]]:
    """Return what the page says: by provider, what playbooks and what the operator do."""
    page = (CHECKOUT / "docs" / "kubeconfigs.md").read_text(encoding="utf-8")
    part = page.partition("## Where kubeconfigs come from\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][2:]
    return {row[0]: (row[3], row[4]) for row in rows}


def test_every_row_has_a_sample() -> None:
    assert list(table()) == list(SHAPES)


@pytest.mark.parametrize("provider", SHAPES)
def test_playbooks_read_what_the_page_says(provider: str) -> None:
    chosen = choose(parse_kubeconfig(document_of(SHAPES[provider].text()), "/"))
    assert chosen.cluster["server"] == SHAPES[provider].server
    assert table()[provider][0] == ("read, with its program" if "exec" in chosen.user else "read")


@pytest.mark.parametrize("provider", SHAPES)
def test_the_operator_takes_and_refuses_what_the_page_says(provider: str) -> None:
    said = table()[provider][1]
    if said == "taken":
        made = rebuild_kubeconfig(SHAPES[provider].text())
        assert made["clusters"][0]["cluster"]["server"] == SHAPES[provider].server
    else:
        with pytest.raises(KubeconfigRefused) as refused:
            rebuild_kubeconfig(SHAPES[provider].text())
        assert said.removeprefix("refused: ") in str(refused.value)
