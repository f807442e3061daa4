# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Options of kubernetes.core mean a kubeconfig: each is honoured or refused by its name, and none is without effect."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.chosen import Chosen, choose
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.core_options import (
    ALIASES,
    NAMES,
    PREFIX,
    REFUSED,
    AuthOptions,
    OptionsInvalid,
    given_by,
    given_in,
    kubeconfig_with,
    read_options,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.document import parse_kubeconfig
from ansible_collections.kubernetes.core.plugins.doc_fragments.k8s_auth_options import ModuleDocFragment
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_MAP, AUTH_ARG_SPEC, AUTH_PROXY_HEADERS_SPEC

TOKEN: Mapping[str, Any] = {"host": "https://10.0.0.1:6443", "api_key": "canary"}
PEM = "-----BEGIN CERTIFICATE-----\ncanary\n-----END CERTIFICATE-----\n"
ONE_EACH: Mapping[str, Any] = {
    "host": "https://10.0.0.2",
    "api_key": "t",
    "ca_cert": "ca.crt",
    "client_cert": "tls.crt",
    "client_key": "tls.key",
    "context": "x",
    "impersonate_groups": ["g"],
    "impersonate_user": "me",
    "kubeconfig": "/k",
    "no_proxy": ".example.com",
    "password": "p",
    "persist_config": True,
    "proxy": "http://proxy:3128",
    "proxy_headers": {"user_agent": "x"},
    "tls_server_name": "api.example.com",
    "username": "u",
    "validate_certs": False,
}
"""A value of each option that says something."""


def options(**values: Any) -> AuthOptions:
    return read_options(given_in(values, "cilium_mesh_auth"))


def chosen(base: Chosen | None = None, **values: Any) -> Chosen:
    """What the reader of kubeconfigs makes of the options."""
    return choose(parse_kubeconfig(kubeconfig_with(options(**values), base, lambda path: f"/inventory/{path}"), None))


def refused(**values: Any) -> str:
    with pytest.raises(OptionsInvalid) as caught:
        chosen(**values)
    assert "canary" not in str(caught.value)
    return str(caught.value)


def test_every_option_of_kubernetes_core_is_known_by_each_of_its_names_and_there_is_one_more() -> None:
    documented = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]
    assert documented.keys() == AUTH_ARG_SPEC.keys() == NAMES - {"tls_server_name"} == ONE_EACH.keys() - {"tls_server_name"}
    aliases = {alias: name for name, option in documented.items() for alias in option.get("aliases", ())}
    assert aliases == ALIASES
    assert {name: ALIASES.get(name, name) for name in AUTH_ARG_MAP} == AUTH_ARG_MAP


@pytest.mark.parametrize("name", sorted(ONE_EACH))
def test_every_option_changes_the_kubeconfig_or_is_refused_by_its_name(name: str) -> None:
    base = Chosen("x", {"server": "https://10.0.0.1"}, {"token": "old"})
    beside = {
        pair: ONE_EACH[pair] for pairs in (("username", "password"), ("client_cert", "client_key")) if name in pairs for pair in pairs
    }
    beside |= {"impersonate_user": "me"} if name == "impersonate_groups" else {}
    values = {"kubeconfig": "/other", "context": "y", **beside, name: ONE_EACH[name]}
    if name in REFUSED:
        assert f"cilium_mesh_auth.{name} cannot be used: " in refused(**values)
    elif name in ("kubeconfig", "context"):
        assert getattr(options(**values), name) == ONE_EACH[name]
    else:
        without = {key: value for key, value in beside.items() if key != name} if name == "impersonate_groups" else {}
        assert chosen(base, **values) != chosen(base, kubeconfig="/other", context="y", **without)


@pytest.mark.parametrize("name", sorted(ONE_EACH))
def test_a_variable_of_the_environment_means_the_option_and_is_named_as_it_is_written(name: str) -> None:
    for spelling in (name, *(alias for alias, meant in ALIASES.items() if meant == name)):
        variable = f"{PREFIX}{spelling.upper()}"
        (found,) = given_by({variable: "7", "OTHER": "x", f"{PREFIX}EMPTY": ""})
        assert (found.shown, ALIASES.get(found.name, found.name)) == (variable, name)
    headers = given_by({f"{PREFIX}PROXY_HEADERS_{name.upper()}": "x" for name in AUTH_PROXY_HEADERS_SPEC})
    assert {one.name for one in headers} == {"proxy_headers"}
    with pytest.raises(OptionsInvalid, match="K8S_AUTH_PROXY_HEADERS_USER_AGENT cannot be used: no headers"):
        read_options(headers)


def test_a_credential_of_awx_is_a_kubeconfig() -> None:
    """AWX's type "OpenShift or Kubernetes API Bearer Token" sets these (awx_plugins, credentials/injectors.py)."""
    bearer = {
        "K8S_AUTH_HOST": "https://10.0.0.1:6443/",
        "K8S_AUTH_API_KEY": "t",
        "K8S_AUTH_VERIFY_SSL": "True",
        "K8S_AUTH_SSL_CA_CERT": "/ca",
    }
    document = kubeconfig_with(read_options(given_by(bearer)), None, str)
    found = choose(parse_kubeconfig(document, None))
    assert found.cluster == {"server": "https://10.0.0.1:6443", "certificate-authority": "/ca"}
    assert found.user == {"token": "t"}
    del bearer["K8S_AUTH_SSL_CA_CERT"]
    document = kubeconfig_with(read_options(given_by({**bearer, "K8S_AUTH_VERIFY_SSL": "False"})), None, str)
    assert choose(parse_kubeconfig(document, None)).cluster == {"server": "https://10.0.0.1:6443", "insecure-skip-tls-verify": True}


def test_files_start_at_the_inventory_and_contents_may_stand_in_the_option() -> None:
    found = chosen(host="https://x", ca_cert=PEM, client_cert="tls.crt", client_key="tls.key")
    assert (found.cluster["certificate-authority-data"], found.user["client-key"]) == (PEM.encode(), "/inventory/tls.key")
    whole = kubeconfig_with(options(host="https://x", client_cert="a", client_key="b"), None, lambda path: path.encode())
    assert whole["users"][0]["user"] == {
        f"client-{n}-data": base64.b64encode(v).decode() for n, v in (("certificate", b"a"), ("key", b"b"))
    }


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "it names no cluster: host is missing, and so are kubeconfig and context"),
        ({"validate_certs": False}, "it names no cluster"),
        ({"host": "https://10.0.0.1"}, "host is there without credentials: add api_key"),
        ({**TOKEN, "api_kee": "canary"}, "cilium_mesh_auth.api_kee is not known; did you mean api_key?"),
        ({**TOKEN, "api_key": 7}, "cilium_mesh_auth.api_key is a number or a truth value where a text belongs; put it in quotes"),
        ({**TOKEN, "host": ["canary"]}, "cilium_mesh_auth.host is no text"),
        ({**TOKEN, "host": "10.0.0.1:6443"}, "it has a server that is no URL with http or https (server is host)"),
        ({**TOKEN, "host": "https://me:canary@10.0.0.1"}, "it has a server with a user in its URL"),
        ({**TOKEN, "validate_certs": "canary"}, "cilium_mesh_auth.validate_certs is neither true nor false"),
        ({**TOKEN, "validate_certs": "no", "ca_cert": "/ca"}, "which exclude each other (insecure-skip-tls-verify is validate_certs)"),
        ({**TOKEN, "ca_cert": "a", "ssl_ca_cert": "b"}, "cilium_mesh_auth.ssl_ca_cert and another name of the same option have two values"),
        ({**TOKEN, "username": "u"}, "username is there without password"),
        ({**TOKEN, "username": "u", "password": "canary"}, "has a token and a username or password"),
        ({**TOKEN, "client_key": "k"}, "client_key is there without client_cert"),
        ({**TOKEN, "impersonate_groups": "a,b"}, "it has as-groups without as, the user to impersonate (as-groups is impersonate_groups)"),
        ({**TOKEN, "impersonate_groups": ["a", 7]}, "cilium_mesh_auth.impersonate_groups[2] is a number"),
        (
            {**TOKEN, "proxy": "ftp://canary"},
            "it has a proxy-url that is no URL with one of the schemes http, https, socks5 (proxy-url is proxy)",
        ),
        ({"kubeconfig": 7}, "cilium_mesh_auth.kubeconfig must be a path, a text or a mapping"),
        ({**TOKEN, "no_proxy": "x", "persist_config": "yes"}, "cilium_mesh_auth.persist_config cannot be used"),
        ({7: "canary"}, "cilium_mesh_auth.7 is not known"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_named_by_its_option(values: Any, says: str) -> None:
    with pytest.raises(OptionsInvalid) as caught:
        kubeconfig_with(read_options(given_in(values, "cilium_mesh_auth")), None, str)
    assert says in str(caught.value) and "canary" not in str(caught.value)


def test_what_is_empty_says_nothing_and_what_happens_anyhow_may_be_said() -> None:
    found = chosen(**TOKEN, no_proxy="", username="", ca_cert=None, proxy_headers={}, persist_config=False)
    assert (found.cluster, found.user) == ({"server": TOKEN["host"]}, {"token": "canary"})
    assert chosen(host="http://127.0.0.1:8001").user == {}, "as with kubectl proxy"
    assert chosen(**TOKEN, impersonate_user="me", impersonate_groups="a, b,").user == {
        "token": "canary",
        "as": "me",
        "as-groups": ["a", "b"],
    }


def test_options_beside_a_kubeconfig_replace_what_the_flags_of_kubectl_replace() -> None:
    cluster = {"server": "https://old", "certificate-authority-data": b"x", "tls-server-name": "old", "proxy-url": "http://old"}
    user = {
        "exec": {"command": "/x", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"},
        "as": "a",
        "as-uid": "1",
    }
    base = Chosen("x", cluster, user)
    both: Mapping[str, Any] = {"kubeconfig": "/k"}
    moved = chosen(base, **both, host="https://new")
    assert moved.cluster == {key: value for key, value in cluster.items() if key != "tls-server-name"} | {"server": "https://new"}
    assert moved.user == user
    insecure = chosen(base, **both, validate_certs=False).cluster
    assert insecure == {key: value for key, value in cluster.items() if key[:4] != "cert"} | {"insecure-skip-tls-verify": True}
    careless = Chosen("x", {"server": "https://old", "insecure-skip-tls-verify": True}, user)
    assert chosen(careless, **both, validate_certs=True).cluster == {"server": "https://old"}
    assert chosen(careless, **both, ca_cert="ca").cluster == {"server": "https://old", "certificate-authority": "/inventory/ca"}
    assert chosen(base, **both, api_key="t").user == {"token": "t", "as": "a", "as-uid": "1"}
    assert chosen(base, **both, impersonate_user="b").user == {"exec": user["exec"], "as": "b"}


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.lists(st.text(max_size=4) | st.integers(), max_size=2)


@given(
    st.dictionaries(st.sampled_from(sorted({*NAMES, *ALIASES, "hosts", "KUBECONFIG"})), VALUES | st.sampled_from(list(ONE_EACH.values())))
)
def test_any_mapping_is_a_kubeconfig_that_the_reader_takes_or_is_refused(values: dict[str, Any]) -> None:
    try:
        document = kubeconfig_with(options(**values), None, lambda path: f"/inventory/{path}")
    except OptionsInvalid as invalid:
        assert invalid.problems and all(problem.isprintable() for problem in invalid.problems)
    else:
        assert choose(parse_kubeconfig(document, None)).cluster["server"]
