# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A kubeconfig of a Secret is used as it is, except for what would act on this machine; what cannot be used is named and not quoted."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.chosen import choose
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.document import parse_kubeconfig
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.invalid import KubeconfigInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.secret import ARGO_LABEL, kubeconfig_of_secret

CANARY = "c4n4ry"
TOKEN = {"token": CANARY}
PLUGIN = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}


def encoded(value: Any) -> str:
    return base64.b64encode((value if isinstance(value, str) else json.dumps(value)).encode()).decode()


def kubeconfig(
    user: Any = TOKEN, cluster: Mapping[str, Any] = {}, current: Any = "a", contexts: tuple[str, ...] = ("a",), **more: Any
) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in contexts],
        "current-context": current,
        **more,
    }


def secret(labels: dict[str, str] | None = None, **data: Any) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "data": {key: encoded(value) for key, value in data.items()}}


def argo(config: Any, server: str = "https://10.0.0.1") -> dict[str, Any]:
    return secret({ARGO_LABEL: "cluster"}, server=server, config=config)


def user_of(document: Any) -> dict[str, Any]:
    return dict(choose(parse_kubeconfig(document, None)).user)


@pytest.mark.parametrize(
    ("found", "key"),
    [
        (secret(kubeconfig=kubeconfig()), ""),
        (secret(value=kubeconfig()), ""),
        (secret(kubeconfig="no mapping", value=kubeconfig()), "value"),
        (secret(value=yaml.safe_dump(kubeconfig())), ""),
        (secret(value=kubeconfig(current=None)), ""),
        (secret({ARGO_LABEL: "cluster"}, own=kubeconfig()), "own"),
        (secret({ARGO_LABEL: "repository"}, value=kubeconfig()), ""),
    ],
)
def test_the_kubeconfig_of_a_secret_is_found_under_its_key(found: dict[str, Any], key: str) -> None:
    document = kubeconfig_of_secret(found, key)
    assert document["current-context"] == "a" and user_of(document) == TOKEN


@pytest.mark.parametrize(
    ("config", "user"),
    [
        ({"bearerToken": "t"}, {"token": "t"}),
        ({"username": "u", "password": "p"}, {"username": "u", "password": "p"}),
        (
            {"tlsClientConfig": {"certData": "eA==", "keyData": "eQ==", "insecure": False}},
            {"client-certificate-data": b"x", "client-key-data": b"y"},
        ),
        ({"bearerToken": "t", "tlsClientConfig": {"insecure": True}}, {"token": "t"}),
        (
            {"bearerToken": "t", "execProviderConfig": None, "awsAuthConfig": None, "username": "", "disableCompression": True},
            {"token": "t"},
        ),
        ({}, {}),
    ],
)
def test_what_a_secret_of_argo_cd_describes_is_a_kubeconfig(config: dict[str, Any], user: dict[str, Any]) -> None:
    assert user_of(kubeconfig_of_secret(argo(config))) == user


def test_every_field_of_argo_cd_about_the_server_counts() -> None:
    config = {"proxyUrl": "http://10.0.0.2:3128", "tlsClientConfig": {"caData": "eA==", "serverName": "api.example.com"}}
    chosen = choose(parse_kubeconfig(kubeconfig_of_secret(argo(config, "https://10.0.0.1:6443\n")), None))
    assert chosen.cluster == {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": b"x",
        "tls-server-name": "api.example.com",
        "proxy-url": "http://10.0.0.2:3128",
    }


def test_a_program_is_run_where_the_user_permits_it() -> None:
    config = {"execProviderConfig": {"command": "x", "args": ["a"], "env": {"A": "b"}, "apiVersion": PLUGIN["apiVersion"]}}
    plugin = user_of(kubeconfig_of_secret(argo(config), programs=True))["exec"]
    assert plugin == {**PLUGIN, "args": ["a"], "env": [{"name": "A", "value": "b"}]}
    assert user_of(kubeconfig_of_secret(secret(value=kubeconfig({"exec": PLUGIN})), programs=True)) == {"exec": PLUGIN}


FILES = (
    *({"tokenFile": "/etc/shadow"}, {"client-certificate": "/x", "client-key-data": "eA=="}),
    *({"client-certificate-data": "eA==", "client-key": "/x"}, {"auth-provider": {"name": "oidc", "config": {"client-id": CANARY}}}),
)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        *((kubeconfig(user), next(key for key in user if "data" not in key)) for user in FILES),
        (kubeconfig(cluster={"certificate-authority": "/x"}), "certificate-authority"),
        (kubeconfig({"exec": PLUGIN}), "exec"),
    ],
)
def test_what_acts_on_this_machine_is_refused_in_every_context(document: dict[str, Any], field: str) -> None:
    hidden = {
        "clusters": [*document["clusters"], {"name": "d", "cluster": {"server": "https://10.0.0.1"}}],
        "users": [*document["users"], {"name": "v", "user": TOKEN}],
        "contexts": [*document["contexts"], {"name": "b", "context": {"cluster": "d", "user": "v"}}],
        "current-context": "b",
    }
    for given in (document, hidden):
        with pytest.raises(KubeconfigInvalid, match=f"has {field}, which is not taken from a Secret") as refused:
            kubeconfig_of_secret(secret(value=given))
        assert CANARY not in refused.value.message + refused.value.remedy and refused.value.remedy


@pytest.mark.parametrize(
    ("found", "key", "says"),
    [
        ({}, "", "neither a key kubeconfig nor a key value"),
        ({"data": []}, "", "neither a key kubeconfig nor a key value"),
        (secret(other=kubeconfig()), "", "neither a key kubeconfig nor a key value"),
        (secret(value=kubeconfig()), "kubeconfig", "has no key kubeconfig"),
        ({"data": {"value": CANARY + "%"}}, "", "key value that is not base64"),
        ({"data": {"value": 7}}, "", "key value that is not base64"),
        (secret(value=f"users: [{CANARY}"), "", "no kubeconfig: it is not YAML"),
        (secret(value=CANARY), "", "no kubeconfig: it is no mapping"),
        (secret(value="a: &x b\nc: *x\n"), "", "alias"),
        (secret(value="x" * ((1 << 20) + 1)), "", "longer than"),
        (secret(value=kubeconfig(current="", contexts=("a", "b"))), "", "no current-context"),
        (secret(value=kubeconfig(cluster={"server": CANARY})), "", "no URL"),
        (secret(value=kubeconfig(cluster={"certificate-authority-data": CANARY + "%"})), "", "not valid base64"),
        (argo("["), "", "key config that Argo CD does not know"),
        (argo("[]"), "", "is no mapping"),
        (argo({"tlsClientConfig": CANARY}), "", "is no mapping"),
        (argo({"awsAuthConfig": {"clusterName": CANARY}}), "", "awsAuthConfig"),
        (argo({"execProviderConfig": {"command": CANARY, "apiVersion": PLUGIN["apiVersion"]}}), "", "has exec"),
        (argo({"execProviderConfig": CANARY}), "", "is no mapping"),
        (argo({"bearerToken": 7}), "", "is a number"),
        (argo({"bearerToken": "t", "tlsClientConfig": {"insecure": CANARY}}), "", "neither true nor false"),
        (argo({}, "https://kubernetes.default.svc"), "", "in which Argo CD itself runs"),
        (argo({"bearerToken": "t"}, ""), "", "has no key server"),
        (argo({"bearerToken": "t"}, "https://[10.0.0.1"), "", "no URL"),
    ],
)
def test_a_secret_that_cannot_be_used_says_why_and_quotes_nothing(found: dict[str, Any], key: str, says: str) -> None:
    with pytest.raises(KubeconfigInvalid, match=says) as refused:
        kubeconfig_of_secret(found, key)
    assert CANARY not in refused.value.message + refused.value.remedy
