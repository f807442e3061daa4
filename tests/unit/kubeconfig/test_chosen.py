# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a context chooses is what kubectl would use, or the refusal says which entry is wrong, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.chosen import choose
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.document import parse_kubeconfig
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.invalid import KubeconfigInvalid

PLUGIN = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
PAIR = {"client-certificate-data": "eA==", "client-key-data": "eA=="}


def document(cluster: Mapping[str, Any] = {}, user: Mapping[str, Any] = {}, context: Mapping[str, Any] = {}, **more: Any) -> Any:
    return {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **context}}],
        "current-context": "x",
        **more,
    }


def refused(given: Any, context: str | None = None) -> KubeconfigInvalid:
    with pytest.raises(KubeconfigInvalid) as caught:
        choose(parse_kubeconfig(given, "/"), context)
    return caught.value


def test_the_current_context_is_used_unless_another_is_named() -> None:
    given = parse_kubeconfig(document(contexts=[{"name": n, "context": {"cluster": "c", "user": "u", "namespace": n}} for n in "xy"]), "/")
    assert (choose(given).namespace, choose(given, "y").namespace) == ("x", "y")
    assert (choose(given).cluster_name, choose(given).user_name, choose(given).context) == ("c", "u", "x")


@pytest.mark.parametrize(
    ("change", "context", "says", "remedy"),
    [
        ({"current-context": None}, None, "it has no current-context", "It has the contexts x."),
        ({"current-context": "z"}, None, "it lacks the context that its current-context names", "It has the contexts x."),
        ({}, "z", 'it has no context "z"', "It has the contexts x."),
        ({"contexts": None}, None, "it lacks the context that its current-context names", "It has no contexts."),
        ({"clusters": None}, None, 'context "x" names a cluster that is not there', ""),
        ({"users": []}, None, 'context "x" names a user that is not there', ""),
        ({"contexts": [{"name": "x", "context": {"user": "u"}}]}, None, 'context "x" names no cluster', ""),
        ({"contexts": [{"name": "x"}]}, None, 'context "x" names no cluster', ""),
    ],
)
def test_what_is_not_there_is_named_with_what_is(change: dict[str, Any], context: str | None, says: str, remedy: str) -> None:
    error = refused({**document(), **change}, context)
    assert (error.message, error.remedy) == (says, remedy)


@pytest.mark.parametrize(
    ("parts", "says", "remedy"),
    [
        ({"context": {"namespace": "A b"}}, 'context "x" has a namespace that cannot be one', ""),
        ({"cluster": {"server": ""}}, 'cluster "c" has no server', ""),
        ({"cluster": {"server": "10.0.0.1:6443"}}, 'cluster "c" has a server that is no URL with http or https', "Write one such as"),
        ({"cluster": {"server": "https://[::1"}}, 'cluster "c" has a server that is no URL', "Write one such as"),
        ({"cluster": {"server": "https://me:pw@10.0.0.1"}}, 'cluster "c" has a server with a user in its URL', "into the user"),
        ({"cluster": {"certificate-authority": "x", "certificate-authority-data": "eA=="}}, "has both certificate-authority and", "Remove"),
        ({"cluster": {"certificate-authority": "x", "insecure-skip-tls-verify": True}}, "which exclude each other", "Remove"),
        ({"cluster": {"proxy-url": "ftp://x"}}, "has a proxy-url that is no URL with one of the schemes http, https, socks5", ""),
        ({"user": {**PAIR, "client-key": "x"}}, 'user "u" has both client-key and client-key-data', "Remove"),
        ({"user": {"client-certificate": "x"}}, "has a client certificate and no client-key or client-key-data", ""),
        ({"user": {"token": "t", "username": "u"}}, "has a token and a username or password", "Remove"),
        ({"user": {"tokenFile": "t", "username": "p"}}, "has a token and a username or password", "Remove"),
        ({"user": {"as-uid": "7"}}, "has as-uid without as, the user to impersonate", ""),
        ({"user": {"as-groups": ["x"]}}, "has as-groups without as", ""),
        ({"user": {"as-user-extra": {"x": ["y"]}}}, "has as-user-extra without as", ""),
        ({"user": {"exec": PLUGIN, "auth-provider": {"name": "oidc"}}}, "has exec and auth-provider", "Remove"),
        ({"user": {"exec": {**PLUGIN, "command": ""}}}, "has an exec without command", ""),
        ({"user": {"exec": {**PLUGIN, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}}, "whose apiVersion is none", ""),
        ({"user": {"exec": {**PLUGIN, "interactiveMode": ""}}}, "has an exec without interactiveMode", "Write one of Never"),
        ({"user": {"exec": {**PLUGIN, "interactiveMode": "Often"}}}, "whose interactiveMode is none of Never", ""),
        ({"user": {"exec": {**PLUGIN, "interactiveMode": "Always"}}}, "and no person can be asked here", "needs no terminal"),
        ({"user": {"exec": {**PLUGIN, "env": [{"value": "x"}]}}}, "has an exec whose env has a variable without a name", ""),
        (
            {"user": {"auth-provider": {"name": "azure"}}},
            "has the auth-provider azure, which Kubernetes does not support any more",
            "kubelogin",
        ),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "has the auth-provider gcp, which", "gke-gcloud-auth-plugin"),
        ({"user": {"auth-provider": {}}}, "has an auth-provider that Kubernetes does not have; it has oidc", ""),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_contradicts_itself_or_lacks_a_part_is_refused_by_its_name(parts: dict[str, Any], says: str, remedy: str) -> None:
    error = refused(document(**parts))
    assert says in error.message and remedy in error.remedy
    assert '"' not in error.plain


def test_an_authority_is_not_asked_without_tls_and_excludes_nothing() -> None:
    cluster = {"server": "http://10.0.0.1", "certificate-authority": "/x", "insecure-skip-tls-verify": True}
    assert choose(parse_kubeconfig(document(cluster), "/")).cluster == cluster


def test_a_context_needs_no_user() -> None:
    given = document(contexts=[{"name": "x", "context": {"cluster": "c"}}])
    assert choose(parse_kubeconfig(given, "/")).user == {}


def test_what_no_context_chooses_may_be_wrong() -> None:
    given = document()
    given["clusters"].append({"name": "other", "cluster": {"server": ""}})
    given["users"].append({"name": "other", "user": {"auth-provider": {"name": "azure"}}})
    assert choose(parse_kubeconfig(given, "/")).cluster == {"server": "https://10.0.0.1"}


def test_nothing_shows_a_secret() -> None:
    given = parse_kubeconfig(document(user={"token": "s3cret"}), "/")
    assert "s3cret" not in repr(given) + repr(choose(given))


@pytest.mark.parametrize("beside", [{"token": "t"}, {"tokenFile": "t"}, {"username": "u"}, PAIR], ids=lambda beside: next(iter(beside)))
def test_a_plugin_that_never_runs_may_want_a_terminal(beside: dict[str, Any]) -> None:
    user = {**beside, "exec": {**PLUGIN, "interactiveMode": "Always"}}
    assert choose(parse_kubeconfig(document(user=user), "/")).user["exec"]["interactiveMode"] == "Always"
