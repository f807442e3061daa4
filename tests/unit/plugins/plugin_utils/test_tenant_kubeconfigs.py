# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A tenant's kubeconfig: what is kept of it, what is refused by name, where it may not lead, and that nothing of it is ever reported."""

from __future__ import annotations

import base64
import copy
import json
import traceback
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.credentials import load_credentials
from mesh_operator.credentials.tenant_addresses import AGAIN, KEPT, NETWORKS, SOON, DeniedNetworks, may_be_named
from mesh_operator.credentials.tenant_kubeconfigs import LIMIT, KubeconfigRefused, open_kubeconfig, rebuild_kubeconfig
from tests.testing.golden_files import PlainDumper
from tests.testing.made_certificates import make
from tests.testing.rows import in_one_test, one_test
from tests.testing.waiting import wait_for

CANARY = "c4n4ry-of-a-tenant"
CA = make("tenant CA", ca=True)
CLIENT = make("tenant admin", issuer=CA)


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def certificates() -> dict[str, Any]:
    return {"client-certificate-data": b64(CLIENT.pem), "client-key-data": b64(CLIENT.key)}


def document(
    *, server: str = "https://api.example.com:6443", cluster: Mapping[str, Any] = {}, user: Mapping[str, Any] | None = None
) -> Any:
    """With a second context, which is not the current one, and which nothing of may be left."""
    other = {"server": f"https://{CANARY}.example.com", "certificate-authority-data": b64(CA.pem)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": "shoot",
        "contexts": [
            {"name": "other", "context": {"cluster": "other", "user": "other"}},
            {"name": "shoot", "context": {"cluster": "c", "user": "u", "namespace": CANARY}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": server, "certificate-authority-data": b64(CA.pem), **cluster}},
            {"name": "other", "cluster": other},
        ],
        "users": [
            {"name": "u", "user": dict(certificates() if user is None else user)},
            {"name": "other", "user": {"exec": {"command": CANARY}}},
        ],
    }


def rebuild(given: Any, **options: Any) -> dict[str, Any]:
    text = given if isinstance(given, bytes) else yaml.dump(given, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)).encode()
    return rebuild_kubeconfig(text, **options)


def refused(given: Any, **options: Any) -> str:
    """The sentence, after making sure that neither it nor a traceback shows anything of the kubeconfig."""
    with pytest.raises(KubeconfigRefused) as caught:
        rebuild(given, **options)
    error = caught.value
    assert error.__cause__ is None and error.__context__ is None
    assert CANARY not in "".join(traceback.format_exception(error)) + repr(error)
    return str(error)


# What is kept


def test_only_what_reaches_and_convinces_the_server_is_kept() -> None:
    given = document(cluster={"tls-server-name": "kubernetes", "extensions": [{"name": CANARY}]}, user={**certificates(), "token": "t0ken"})
    assert rebuild(given) == {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "own",
        "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
        "clusters": [
            {
                "name": "own",
                "cluster": {
                    "server": "https://api.example.com:6443",
                    "tls-server-name": "kubernetes",
                    "certificate-authority-data": b64(CA.pem),
                },
            }
        ],
        "users": [{"name": "own", "user": {"token": "t0ken", **certificates()}}],
    }


def test_the_engine_opens_it() -> None:
    credentials = load_credentials("c1", rebuild(document(user={"token": "t0ken"})), None)
    assert (credentials.address, credentials.headers()) == ("api.example.com:6443", [("authorization", "Bearer t0ken")])
    assert load_credentials("c1", rebuild(document()), None).client_certificate_ends == CLIENT.certificate.not_valid_after_utc


def test_a_json_kubeconfig_is_yaml_too() -> None:
    assert rebuild(json.dumps(document()).encode()) == rebuild(document())


def test_an_only_context_needs_no_current_context() -> None:
    given = document()
    del given["current-context"], given["contexts"][0]
    assert rebuild(given) == rebuild(document())


def test_a_certificate_authority_of_the_system_need_not_be_named() -> None:
    given = document()
    del given["clusters"][0]["cluster"]["certificate-authority-data"]
    assert rebuild(given)["clusters"][0]["cluster"] == {"server": "https://api.example.com:6443"}


def test_keys_that_are_there_and_empty_do_no_harm() -> None:
    empty: dict[str, Any] = {"exec": None, "auth-provider": None, "tokenFile": "", "as-groups": []}
    given = document(cluster={"insecure-skip-tls-verify": False, "proxy-url": ""}, user={**empty, "token": "t0ken"})
    assert rebuild(given) == rebuild(document(user={"token": "t0ken"}))


def test_base64_may_be_wrapped() -> None:
    given = document(cluster={"certificate-authority-data": base64.encodebytes(CA.pem).decode()})
    assert rebuild(given) == rebuild(document())
    load_credentials("c1", rebuild(given), None)


# What is refused by name


@in_one_test
@pytest.mark.parametrize(
    "key", ["exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "username", "password", "as", "as-uid", "as-groups"]
)
@pytest.mark.parametrize("value", [CANARY, {"command": CANARY}, [CANARY]])
def test_what_a_user_may_not_hold_is_named(key: str, value: Any) -> None:
    said = refused(document(user={**certificates(), key: value}))
    assert f"The kubeconfig's {key} is refused" in said or f"a wrong value: {key} is no" in said


@pytest.mark.parametrize("key", ["certificate-authority", "proxy-url"])
def test_what_a_cluster_may_not_hold_is_named(key: str) -> None:
    assert f"The kubeconfig's {key} is refused" in refused(document(cluster={key: CANARY}))


@one_test("yes", "true", "yes", "on", "True", "1", "[]x", '"true"')
def test_a_server_whose_certificate_is_not_checked_is_refused_however_yes_is_spelled(yes: str) -> None:
    text = yaml.safe_dump(document(cluster={"insecure-skip-tls-verify": "YES"})).replace("YES", yes)
    assert "insecure-skip-tls-verify" in refused(text.encode())


@one_test(
    "server",
    *(f"http://{CANARY}.example.com", f"HTTPS://{CANARY}.example.com", f"https://{CANARY}@api.example.com"),
    *(f"https://user:{CANARY}@api.example.com:6443", f"https://api.example.com?{CANARY}", f"https://api.example.com#{CANARY}"),
    *(f"https://api.example.com\\@{CANARY}", f"https://api.example.com/{CANARY} x", "https://api.exämple.com", "https://127。0。0。1"),
    *("https://%31%32%37.0.0.1", "https://[fe80::1%25eth0]", "https://", "https:///x", "//api.example.com", "unix:///run/x.sock"),
    *("file:///etc/passwd", "https://api.example.com:6443\r\nx: y"),
    ["https://api.example.com"],
    12,
    None,
)
def test_a_server_that_is_no_plain_https_address_is_refused(server: Any) -> None:
    assert "server" in refused(document(server=server))


def test_a_port_that_no_server_has_is_refused() -> None:
    assert "server" in refused(document(server="https://api.example.com:99999"))


@one_test("token", f"{CANARY}\n", 123, f"{CANARY}\nx: y", f"{CANARY} x", f"{CANARY}\x7f", f"{CANARY}ä", [CANARY], {"x": CANARY})
def test_a_token_that_does_not_fit_in_a_header_is_refused(token: Any) -> None:
    assert "token" in refused(document(user={"token": token}))


@pytest.mark.parametrize("name", [f"{CANARY}/x", f"{CANARY} x", [CANARY]])
def test_a_tls_server_name_that_is_no_name_is_refused(name: Any) -> None:
    assert "tls-server-name" in refused(document(cluster={"tls-server-name": name}))


@one_test("value", CANARY, b64(CANARY.encode()), [CANARY], b64(CA.pem[:200]), f"/etc/{CANARY}", b64(CLIENT.key))
def test_a_certificate_authority_that_is_no_pem_is_refused(value: Any) -> None:
    assert "certificate-authority-data" in refused(document(cluster={"certificate-authority-data": value}))


def test_a_key_without_its_certificate_is_refused_and_so_is_another_ones_key() -> None:
    sealed = CLIENT.private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    for change in (
        {"client-certificate-data": None},
        {"client-key-data": None},
        {"client-key-data": b64(make("another").key)},
        {"client-key-data": b64(sealed)},
        {"client-key-data": b64(CLIENT.pem)},
        {"client-key-data": None, "token": "t0ken"},
    ):
        assert "client-key-data" in refused(document(user={**certificates(), **change}))


def test_a_kubeconfig_without_credentials_is_refused() -> None:
    assert "needs a server, and a token or" in refused(document(user={}))


@one_test(
    "says change",
    ("cannot be used: it lacks the context that its current-context names", {"current-context": CANARY}),
    ("cannot be used: it has contexts that are no list", {"contexts": CANARY}),
    ("cannot be used: a context is no mapping", {"contexts": [{"name": "shoot", "context": CANARY}]}),
    ("cannot be used: it has no current-context", {"current-context": None}),
    (
        "cannot be used: a context stands twice",
        {"contexts": [{"name": "shoot", "context": {"cluster": "c", "user": "u"}} for _ in range(2)]},
    ),
    ("cannot be used: a context names a cluster that is not there", {"clusters": []}),
    ("cannot be used: it has clusters that are no list", {"clusters": {CANARY: 1}}),
    ("cannot be used: entry 1 of its users is no mapping", {"users": [None, CANARY, {"name": "u"}]}),
    ("needs a server, and a token", {"contexts": [{"name": "shoot", "context": {"cluster": "c"}}]}),
)
def test_a_context_that_leads_nowhere_or_to_two_places_is_refused(says: str, change: dict[str, Any]) -> None:
    assert f"The kubeconfig {says}" in refused({**document(), **change})


# Text that was made to hurt


@one_test(
    "text",
    b"",
    b"- a\n- b\n",
    CANARY.encode(),
    b"a: " + CANARY.encode() + b": b",
    *(b"a: b\n--- \nc: d\n", b"\xff\xfe\x00", b"\x00", b"[" * 20_000, b"{a: " * 20_000, b"? [a]\n: b\n"),
    b"# " + b"x" * LIMIT,
)
def test_what_is_no_mapping_is_refused(text: bytes) -> None:
    assert "YAML mapping" in refused(text)


def test_aliases_are_refused_before_they_stand_for_anything() -> None:
    """Two towers of lists whose names are compared would take hours, and no other thread would run meanwhile."""
    towers = [f"{tower}{n}: &{tower}{n} [{', '.join([f'*{tower}{n - 1}'] * 10)}]" for n in range(1, 30) for tower in "ab"]
    compared = "contexts: [{name: x, context: {cluster: *a29, user: u}}]\nclusters: [{name: *b29, cluster: {}}]\ncurrent-context: x\n"
    assert "without aliases" in refused("\n".join(["a0: &a0 [x]", "b0: &b0 [x]", *towers, compared]).encode())
    assert "without aliases" in refused(b"clusters: &x [*x]")


@pytest.mark.parametrize("name", [[], {}, ["c"], {"c": "c"}])
def test_names_that_are_no_texts_are_refused(name: Any) -> None:
    kubeconfig = document()
    kubeconfig["clusters"][0]["name"] = name
    kubeconfig["contexts"][0]["context"]["cluster"] = name
    assert "the name of entry 1 of its clusters is no text" in refused(yaml.safe_load(yaml.dump(kubeconfig, Dumper=PlainDumper)))


def test_tags_of_python_make_no_objects() -> None:
    text = yaml.safe_dump(document(user={"token": "TOKEN"})).replace("TOKEN", '!!python/object/apply:os.system ["exit 1"]')
    assert "YAML mapping" in refused(text.encode())


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["~", "null", CANARY, "https://x", "c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.sampled_from(["name", "user", "exec"]), inner),
    max_leaves=6,
)
PATHS = [
    *[(key,) for key in ("current-context", "contexts", "clusters", "users")],
    *[(f"{kind}s", place, *rest) for kind in ("context", "cluster", "user") for place in (0, 1) for rest in ((), ("name",), (kind,))],
    *[("clusters", 0, "cluster", key) for key in ("server", "certificate-authority-data", "tls-server-name", "proxy-url")],
    *[("users", 0, "user", key) for key in ("token", "client-certificate-data", "client-key-data", "exec", "as")],
]


@given(st.lists(st.tuples(st.sampled_from(PATHS), JUNK), min_size=1, max_size=3))
def test_whatever_stands_in_a_kubeconfig_it_is_refused_or_opens_and_nothing_is_reported(changes: list[tuple[Any, Any]]) -> None:
    given = copy.deepcopy(document())
    for path, value in changes:
        where: Any = given
        try:
            for part in path[:-1]:
                where = where[part]
            where[path[-1]] = value
        except (TypeError, KeyError, IndexError):
            continue
    check(yaml.safe_dump(given, allow_unicode=True).encode("utf-8", "surrogateescape"))


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode()))
def test_whatever_bytes_they_are_they_are_refused_or_open(text: bytes) -> None:
    check(text)
    check(yaml.safe_dump(document()).encode() + text)


def check(text: bytes) -> None:
    try:
        made = rebuild(text)
    except KubeconfigRefused as error:
        assert error.__cause__ is None and error.__context__ is None
        assert CANARY not in str(error)
        return
    load_credentials("c1", made, None)
    assert [*made] == ["apiVersion", "kind", "current-context", "clusters", "users", "contexts"]
    assert made["clusters"][0]["cluster"].keys() <= {"server", "certificate-authority-data", "tls-server-name"}
    assert made["users"][0]["user"].keys() <= {"token", "client-certificate-data", "client-key-data"}


# Where it may lead


@one_test(
    "host",
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("100.100.100.200", "168.63.129.16", "[fd00:ec2::254]"),
    *("[::1]", "[::]", "[fe80::1]", "[fec0::1]", "[ff02::1]", "[::127.0.0.1]"),
    *(
        *("[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]"),
        "[2001:0:7f00:1::]",
    ),
    *("2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "127.0.1", "0177.0.0.1", "127.0.0.1.", "127.0.0.01", "1.2.3.4.5"),
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    *("a.b.svc", "a.b.SVC.", "a.b.svc.cluster.local", "cluster.local", ".", "[1:2:3]"),
)
def test_no_kubeconfig_leads_to_this_machine_to_our_own_cluster_or_to_a_clouds_metadata(host: str) -> None:
    assert "server" in refused(document(server=f"https://{host}:6443"))


@one_test(
    "host",
    *("192.0.2.10", "10.0.0.5", "172.18.0.2", "192.168.1.1", "100.64.0.1", "[2001:db8::1]", "[fd00::1]", "[64:ff9b::192.0.2.1]"),
    *("api.example.com", "kind-control-plane", "a.b.example.com", "svc.example.com", "0x7f.example.com", "unknown.example.com"),
    "grafana.monitoring",  # a name is judged by its addresses when it is dialled
)
def test_other_addresses_may_be_a_tenants(host: str) -> None:
    server = f"https://{host}:6443/k8s/clusters/c-m-1"
    assert rebuild(document(server=server))["clusters"][0]["cluster"]["server"] == server


def test_who_runs_the_operator_may_allow_addresses_and_only_these() -> None:
    lab = {"allowed": ["127.0.0.0/8", "::1/128"]}
    for host in ("127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost"):
        rebuild(document(server=f"https://{host}"), **lab)
    for host in ("169.254.169.254", "[::ffff:169.254.169.254]", "0.0.0.0"):
        refused(document(server=f"https://{host}"), **lab)


@given(st.ip_addresses())
def test_special_addresses_are_refused_unless_they_are_allowed(address: Any) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    assert may_be_named(host, ["::/0", "0.0.0.0/0"])
    if address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast:
        assert not may_be_named(host, ())


# What is denied where it is dialled


def test_the_operators_own_servers_are_denied_at_their_present_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    now, dns, asked = [0.0], {"kcp.example.com": ["203.0.113.7", "2001:db8::7", "alias.example.com"]}, []

    def resolver(name: str) -> list[str]:
        asked.append(name)
        if name not in dns:
            raise OSError("no such name")
        return dns[name]

    servers = ["kcp.example.com:6443", "198.51.100.9:443", "[2001:db8::9]:6443"]
    denied = DeniedNetworks(["10.244.0.0/16"], lambda: servers, resolver, lambda: now[0])
    first = denied()
    assert {"203.0.113.7/32", "2001:db8::7/128", "198.51.100.9/32", "2001:db8::9/128", "10.96.0.1/32", "10.244.0.0/16"} <= set(first)
    assert set(NETWORKS) <= set(first) and denied() == first and asked == ["kcp.example.com"]
    now[0], dns["kcp.example.com"] = AGAIN, ["203.0.113.8"]
    assert {"203.0.113.7/32"} <= set(denied()), "nothing waits for a name of which addresses are known"
    wait_for(lambda: "203.0.113.8/32" in denied(), what="the name is looked up again", every=0.01)
    assert "203.0.113.7/32" in denied(), "a load balancer shows some of its addresses at a time"
    now[0] = KEPT
    wait_for(lambda: "203.0.113.7/32" not in denied(), what="it has not had that address for an hour", every=0.01)
    assert "203.0.113.8/32" in denied()
    dns.clear()
    now[0] = 3 * KEPT
    assert "203.0.113.8/32" in denied(), "a name that does not resolve for a while keeps its addresses"
    dns["kcp.example.com"] = ["203.0.113.9"]
    assert "203.0.113.9/32" not in denied(), "a name server is asked now and then"
    now[0] += SOON
    assert "203.0.113.9/32" in denied() and "203.0.113.8/32" not in denied()


# Cluster Secrets of Argo CD


def argo(config: Any, server: str = "https://api.example.com:6443") -> str:
    text = config if isinstance(config, str) else json.dumps(config)
    return json.dumps({"server": b64(server.encode()), "config": b64(text.encode())})


TLS: dict[str, Any] = {"caData": b64(CA.pem), "serverName": "api.example.com"}


@pytest.mark.parametrize(
    ("config", "user"),
    [
        ({"bearerToken": "abc.def", "tlsClientConfig": TLS}, {"token": "abc.def"}),
        (
            {"tlsClientConfig": {**TLS, "certData": b64(CLIENT.pem), "keyData": b64(CLIENT.key), "insecure": False}},
            {"client-certificate-data": b64(CLIENT.pem), "client-key-data": b64(CLIENT.key)},
        ),
    ],
)
def test_a_cluster_of_argo_cd_is_used_with_its_token_or_its_certificate(config: dict[str, Any], user: dict[str, str]) -> None:
    made = open_kubeconfig(argo(config))
    assert made["users"][0]["user"] == user
    assert made["clusters"][0]["cluster"] == {
        "server": "https://api.example.com:6443",
        "tls-server-name": "api.example.com",
        "certificate-authority-data": b64(CA.pem),
    }


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"execProviderConfig": {"command": CANARY}}, "exec"),
        ({"awsAuthConfig": {"clusterName": CANARY}}, "awsAuthConfig"),
        ({"username": CANARY, "password": CANARY}, "username"),
        ({"bearerToken": "a", "tlsClientConfig": {"insecure": True}}, "insecure-skip-tls-verify"),
        ({"bearerToken": "a", "proxyUrl": "http://proxy.example.com"}, "proxy-url"),
    ],
)
def test_what_would_run_a_program_or_trust_any_server_is_refused_of_argo_cd_too(config: dict[str, Any], key: str) -> None:
    with pytest.raises(KubeconfigRefused, match=key) as refused:
        open_kubeconfig(argo(config))
    assert CANARY not in str(refused.value)


NONE_OF_ARGO = ("{", "{}", '{"server": 1, "config": 2}', *map(argo, ("[", "[]", "null", '"x"', {"tlsClientConfig": 1})))


@one_test("text", *NONE_OF_ARGO)
def test_a_secret_of_argo_cd_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(KubeconfigRefused):
        open_kubeconfig(text)


def test_a_cluster_of_argo_cd_may_lead_nowhere_else() -> None:
    with pytest.raises(KubeconfigRefused, match="does not contact"):
        open_kubeconfig(argo({"bearerToken": "a"}, server="https://127.0.0.1:6443"))
