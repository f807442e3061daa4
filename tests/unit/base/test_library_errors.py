# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whatever a library raises, at whichever call: one cluster has an error, and no run ends. Each call into a library fails here once."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.dialling import Dialler, DialRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import NotYaml, compose_yaml, load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.ca.signing import issue_again, new_authority
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.client import EtcdError, EtcdReader
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import Cluster, Timeouts, open_cluster
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509 import certificates as x509
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.x509.certificates import CertificateProblem, Issuer
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.tls_probe import TlsTarget, probe
from tests.testing.etcd_server import played_etcd
from tests.testing.library_faults import Odd, PanicException, Place, calls_in_sources, calls_into_libraries, failing
from tests.testing.made_certificates import Made, make
from tests.testing.scripted_server import CANARY, Answer, Asked, ScriptedServer

pytestmark = [
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.DependencyWarning"),
]

SEVERAL: Final = (Odd, ValueError, TypeError, KeyError, AttributeError, OSError, RuntimeError, RecursionError, MemoryError)
PORT: Final = (9889).to_bytes(2, "little")
PLUGIN: Final = (
    '#!/bin/sh\necho \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}\'\n'
)


@dataclass(frozen=True)
class Act:
    """What calls libraries, and the errors that it may end in."""

    name: str
    run: Callable[[], object]
    own: tuple[type[Exception], ...]


def answer(asked: Asked) -> Answer:
    path, _, query = asked.path.partition("?")
    if path.endswith("/exec"):
        return Answer(frames=[b"\x01out", b'\x03{"status":"Success"}'])
    if path.endswith("/portforward"):
        return Answer(frames=[b"\x00" + PORT, b"\x01" + PORT, b"\x00HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"])
    if path.endswith("/proxy/x"):
        return Answer(200, b"text")
    if "watch=true" in query:
        return Answer(200, json.dumps({"type": "ADDED", "object": {}}).encode() + b"\n")
    if path.endswith("/secrets") and asked.method == "GET":
        return Answer(200, {"items": [], "metadata": {}})
    return Answer(200, {"kind": "Secret", "metadata": {"name": "x"}})


SECRETS: Final = "/api/v1/namespaces/kube-system/secrets"
OBJECT: Final = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}
REQUESTS: Final[dict[str, Callable[[Cluster, Made], object]]] = {
    "get": lambda cluster, _: cluster.get(f"{SECRETS}/x"),
    "list": lambda cluster, _: cluster.list(SECRETS, label_selector="a=b"),
    "watch": lambda cluster, _: list(cluster.watch(SECRETS, version="1", seconds=1)),
    "create": lambda cluster, _: cluster.create(SECRETS, OBJECT, manager="m"),
    "apply": lambda cluster, _: cluster.apply(f"{SECRETS}/x", OBJECT, manager="m"),
    "patch": lambda cluster, _: cluster.merge_patch(f"{SECRETS}/x", OBJECT, manager="m"),
    "delete": lambda cluster, _: cluster.delete(f"{SECRETS}/x"),
    "text": lambda cluster, _: cluster.get_text("/api/v1/namespaces/kube-system/pods/p/proxy/x"),
    "exec": lambda cluster, _: cluster.exec("p", "c", ["true"]),
    "forward": lambda cluster, _: cluster.forward_get("p", 9889, "/x"),
    "handshake": lambda cluster, shown: cluster.forward_handshake("p", 2379, shown.pem, shown.key),
}


def users(folder: Path, me: Made) -> dict[str, dict[str, Any]]:
    (folder / "token").write_text("t\n", encoding="utf-8")
    (folder / "plugin").write_text(PLUGIN, encoding="utf-8")
    (folder / "plugin").chmod(0o700)
    claims = base64.urlsafe_b64encode(b'{"exp": 1}').decode()
    oidc = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "x", "id-token": f"e30.{claims}.x", "refresh-token": CANARY}
    return {
        "token": {"token": CANARY},
        "file": {"tokenFile": str(folder / "token")},
        "certificate": {
            "client-certificate-data": base64.b64encode(me.pem).decode(),
            "client-key-data": base64.b64encode(me.key).decode(),
        },
        "plugin": {
            "exec": {
                "command": str(folder / "plugin"),
                "apiVersion": "client.authentication.k8s.io/v1",
                "interactiveMode": "Never",
                "provideClusterInfo": True,
            }
        },
        "oidc": {"auth-provider": {"name": "oidc", "config": oidc}},
    }


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Act]]:
    folder = tmp_path_factory.mktemp("faults")
    ca, shown = make("some CA", ca=True), make("client")
    leaf = make("leaf", names=["127.0.0.1"], issuer=ca)
    bare = make("bare CA", ca=True, subject_key_id=False)
    old = make("old CA", ca=True, private=rsa.generate_private_key(public_exponent=65537, key_size=2048))
    with ExitStack() as open_:
        server = open_.enter_context(ScriptedServer(folder))
        server.answer = answer
        etcd = open_.enter_context(played_etcd({"cilium/a": b"1"}))

        def opened(kubeconfig: Any, act: Callable[[Cluster, Made], object], **more: Any) -> object:
            access = ClusterAccess(host="c1", kubeconfig=kubeconfig, context=None, **more)
            with open_cluster(access, timeouts=Timeouts(connect=2, read=2, answer=4)) as cluster:
                return act(cluster, shown)

        def in_file(name: str, document: Any) -> str:
            (folder / name).write_text(json.dumps(document), encoding="utf-8")
            return str(folder / name)

        found: dict[str, tuple[Callable[[], object], tuple[type[Exception], ...]]] = {}
        plain = server.kubeconfig()
        for name, request in REQUESTS.items():
            found[f"request: {name}"] = partial(opened, plain, request), (ClusterError,)
        for name, user in users(folder, shown).items():
            kubeconfig = in_file(f"{name}.yaml", server.kubeconfig(user))
            found[f"user: {name}"] = partial(opened, kubeconfig, REQUESTS["get"]), (ClusterError,)
        clusters: dict[str, Any] = {
            "proxy": server.kubeconfig(proxy_url="http://127.0.0.1:1"),
            "insecure": server.kubeconfig(certificate_authority_data=None, insecure_skip_tls_verify=True),
            "name": server.kubeconfig(tls_server_name="127.0.0.1"),
            "SOCKS": server.kubeconfig(proxy_url="socks5://127.0.0.1:1"),
            "no TLS": server.kubeconfig(certificate_authority_data=None, server="http://127.0.0.1:1"),
            "system": server.kubeconfig(certificate_authority_data=None),
        }
        for name, kubeconfig in clusters.items():
            for which in ("get", "exec"):
                found[f"cluster: {name}, {which}"] = partial(opened, kubeconfig, REQUESTS[which]), (ClusterError,)
        ranges = {"denied_networks": ("192.0.2.0/24",), "endpoint_networks": ("127.0.0.0/8",)}
        for which in ("get", "exec"):
            found[f"guarded: {which}"] = partial(opened, plain, REQUESTS[which], **ranges), (ClusterError,)

        def endpoint() -> object:
            return opened(plain, lambda cluster, _: cluster.endpoint)

        def read() -> object:
            with EtcdReader(etcd.access()) as reader:
                return reader.get("cilium/a"), reader.count("cilium/"), list(reader.scan("cilium/", most=2))

        def through_the_environment() -> object:
            with pytest.MonkeyPatch.context() as environment:
                environment.setenv("HTTP_PROXY", "http://127.0.0.1:1")
                environment.delenv("NO_PROXY", raising=False)
                return opened(server.kubeconfig(certificate_authority_data=None, server="http://192.0.2.1"), REQUESTS["get"])

        def judged() -> object:
            x509._parse_once.cache_clear()
            x509.is_signed_by.cache_clear()
            certificates = x509.load_certificates(leaf.pem + ca.pem)
            return (
                x509.parse(leaf.pem),
                x509.key_matches(leaf.pem, leaf.key),
                x509.chains_to(certificates[0], [certificates[1]], x509.load_certificates(ca.pem)),
                x509.load_der(certificates[0].public_bytes(serialization.Encoding.DER)),
            )

        now = datetime.now(UTC)
        place = TlsTarget(
            cluster="c1",
            address="127.0.0.1",
            port=int(server.url.rpartition(":")[2]),
            hostname="127.0.0.1",
            fingerprint="",
            authorities=server.authority.pem.decode(),
        )
        stranger = TlsTarget(**{**vars(place), "authorities": ca.pem.decode()})
        found |= {
            "endpoint": (endpoint, (ClusterError,)),
            "proxy of the environment": (through_the_environment, (ClusterError,)),
            "etcd": (read, (EtcdError,)),
            "certificates": (judged, (CertificateProblem,)),
            "issuer": (lambda: Issuer(ca.pem, ca.key).client_certificate("x", now=now, days=3), (CertificateProblem,)),
            "new CA": (lambda: new_authority(ca.pem, "x", now=now, days=3), (CertificateProblem,)),
            "new CA with RSA": (lambda: new_authority(old.pem, "x", now=now, days=3), (CertificateProblem,)),
            "issuer without key id": (lambda: Issuer(bare.pem, bare.key).client_certificate("x", now=now, days=3), (CertificateProblem,)),
            "issued again": (lambda: issue_again(leaf.pem, ca.pem, ca.key, now=now), (CertificateProblem,)),
            "YAML": (lambda: (load_yaml("a: [1, b]"), compose_yaml("a: b")), (NotYaml,)),
            "probe": (lambda: probe(place, timeout=2), ()),
            "probe of another CA": (lambda: probe(stranger, timeout=2), ()),
            "dialler": (lambda: Dialler(DialRule(denied=("192.0.2.0/24",))).addresses("localhost"), (OSError,)),
        }
        yield [Act(name, *how) for name, how in found.items()]


@pytest.fixture(scope="module")
def places(acts: list[Act]) -> list[tuple[Act, frozenset[Place]]]:
    """Every call into a library, by what calls it. What is kept between two calls is made before."""

    def run(act: Act) -> None:
        with suppress(*act.own):
            act.run()

    for act in acts:
        run(act)
    return [(act, frozenset(calls_into_libraries(partial(run, act)))) for act in acts]


def strike(act: Act, place: Place, kind: type[BaseException]) -> str | None:
    """Let one call fail, and return what is wrong with the result; None if the call was not made this time."""
    try:
        with failing(place, kind(CANARY)) as struck:
            act.run()
    except act.own as error:
        shown = f"{error} {getattr(error, 'remedy', '')} {error!r}"
        if CANARY in shown or error.__cause__ is not None:
            return f"{place}: {kind.__name__} is quoted in {act.name}"
    except BaseException as error:
        return f"{place}: {kind.__name__} ends {act.name} as {type(error).__name__}"
    return "" if struck else None


def judge(met: Iterable[tuple[Act, Place]], kind: type[BaseException]) -> int:
    """Let each call fail, and return how many did. How many bytes come at a time decides whether a few of them are made."""
    found = {}
    for act, place in met:
        tries = (strike(act, place, kind) for _again in range(4))
        found[act.name, place] = next((what for what in tries if what is not None), None)
    assert "\n".join(filter(None, found.values())) == ""
    assert [*found.values()].count(None) <= len(found) // 30, [name for name, what in found.items() if what is None]
    return len(found)


NOT_STRUCK: Final = {
    **dict.fromkeys(
        [
            ("apply/diff.py", "yaml.dump"),
            *((f"pipeline/{one}_diff.py", "yaml.safe_dump") for one in ("fleet", "member")),
            ("rbac/manifest.py", "yaml.safe_dump"),
        ],
        "writes what the engine made",
    ),
    ("links/users.py", "yaml.safe_dump"): "writes what was read a line before",
    ("lock/holder.py", "socket.gethostname"): "asks this machine for its name",
    ("kube/connections.py", "SOCKSProxyManager"): "PySocks is not installed",
    ("kube/credentials.py", "urllib3.disable_warnings"): "takes no input",
    ("kube/credentials.py", "urllib3.util.Url"): "takes no input",
    ("kube/tls.py", "ssl.MemoryBIO"): "takes no input",
}
"""File and call: why no fault is injected there."""


def assert_every_call_in_the_sources_is_met(met: set[Place]) -> None:
    lines = {(place.file, place.line) for place in met}
    calls = list(calls_in_sources())
    unmet = [call for call in calls if not any((call[0], line) in lines for line in range(call[1], call[2] + 1))]
    assert len(calls) > 100
    assert {(file, name) for file, _first, _last, name in unmet} - NOT_STRUCK.keys() == set()
    assert NOT_STRUCK.keys() - {(file, name) for file, _first, _last, name in calls} == set()


def test_what_a_library_raises_is_an_error_of_one_cluster(places: list[tuple[Act, frozenset[Place]]]) -> None:
    assert_every_call_in_the_sources_is_met({place for _act, met in places for place in met})
    first = {place: act for act, met in reversed(places) for place in met}
    assert judge(((act, place) for place, act in sorted(first.items())), Odd) > 150


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEVERAL)
def test_whatever_its_class_is_and_for_every_caller(places: list[tuple[Act, frozenset[Place]]], kind: type[BaseException]) -> None:
    every = [(act, place) for act, met in places for place in sorted(met)]
    assert judge(every, kind) > 500


@pytest.mark.slow
def test_a_panic_of_a_library_in_rust_is_one_too(places: list[tuple[Act, frozenset[Place]]]) -> None:
    rust = [(act, place) for act, met in places for place in sorted(met) if place.called.startswith("cryptography.")]
    assert judge(rust, PanicException) > 50
