# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""No secret gets into an archive, wherever a cluster, a result or a log has it: a property over every place and form that is known."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.gather.archive import Guards, Heading, Packed, pack
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.gather.contents import Extras, cluster_documents, names_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.gather.document import Document, Missing
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.gather.harmless import ANNOTATIONS, CONFIG
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.gather.known_secrets import KnownSecrets
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.gather.pseudonyms import Pseudonyms
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.gather.redaction import redact, redact_lines
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding, Mesh
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.facts.cluster import ClusterFacts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.cilium_values import KEYS
from tests.lab.options import LabOptions
from tests.testing.profile_facts import answers_of, facts_from, facts_of
from tests.testing.properties import examples
from tests.testing.rows import in_one_test

MOST: Final = 2**25
HEADING: Final = Heading(made="2026-09-01T12:00:00+00:00", mesh="edge-mesh-eu", collection="edge_portal.cilium_mesh 0.1.0")
ALPHABET: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
Place = Callable[[str], Any]


def files_of(packed: Packed) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
        members = archive.getmembers()
        return {member.name: (archive.extractfile(member) or io.BytesIO()).read().decode() for member in members}


def whole(packed: Packed) -> str:
    """Everything in an archive as one text: the names, the contents, and the raw bytes of the tar file."""
    raw = gzip.decompress(packed.content).decode("utf-8", "replace")
    return "\n".join([raw, *(f"{name}\n{text}" for name, text in files_of(packed).items())])


def document(content: Any, path: str = "x.json") -> Document:
    return Document(path=path, what="what", why="why", source=("source",), content=content)


def packed_of(*contents: Any, guards: Guards | None = None, most: int = MOST) -> Packed:
    return pack([document(content, f"{number}.json") for number, content in enumerate(contents)], HEADING, guards or Guards(), most=most)


def pem(secret: str) -> str:
    return f"-----BEGIN EC PRIVATE KEY-----\n{secret}\n{secret}\n-----END EC PRIVATE KEY-----\n"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(secret: str) -> str:
    user = f'- name: admin\n  user:\n    token: {secret}\n    password: "{secret} and more"\n    client-key-data: {b64(secret)}\n'
    return f"apiVersion: v1\nkind: Config\nclusters:\n- name: a\n  cluster: {{server: https://10.0.0.1:6443}}\nusers:\n{user}"


def _field(name: str, secret: str) -> Any:
    return {"spec": {name: secret}}


APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

OBJECTS: Final[Mapping[str, Place]] = {
    "data of a Secret": lambda s: {"kind": "Secret", "metadata": {"name": "a"}, "data": {"note": b64(s)}},
    "stringData of a Secret": lambda s: {"kind": "Secret", "stringData": {"note": s}},
    "data of a Secret in a list": lambda s: {"items": [{"kind": "Secret", "data": {"a": {"nested": [b64(s)]}}}]},
    "data without a kind": lambda s: {"data": {"note": s}},
    "a ConfigMap": lambda s: {"kind": "ConfigMap", "data": {"app.conf": f"x\n{s}"}, "binaryData": {"b": b64(s)}},
    "data called name": lambda s: {"kind": "Secret", "data": {"name": b64(s)}, "stringData": {"name": s}},
    "a variable called name": lambda s: {"environment": {"cilium-agent": {"name": s}}},
    "an entry called name in data": lambda s: {"kind": "ConfigMap", "data": {"list": [{"name": s, "value": s}]}},
    "a value of the environment": lambda s: {"env": [{"name": "HARMLESS", "value": s}]},
    "a value of the environment, as a mapping": lambda s: {"environment": {"cilium-agent": {"HARMLESS": s}}},
    "an annotation": lambda s: {"metadata": {"annotations": {"example.com/note": s}}},
    "what kubectl applied": lambda s: {"annotations": {APPLIED: json.dumps({"kind": "Secret", "data": {"a": b64(s)}, "x": s})}},
    "annotations of a pod": lambda s: {"pod_annotations": {"example.com/note": s}},
    "a harmless annotation with a key": lambda s: {"annotations": {f"{ANNOTATIONS[0]}x": pem(s)}},
    "an unknown setting": lambda s: {"cilium-config": {"extra-setting": s}},
    "a known setting with a URL": lambda s: {"cilium-config": {"devices": f"https://u:{s}@host/x"}},
    "a flag": lambda s: {"args": ["--unknown-flag=" + s]},
    "a word after a flag": lambda s: {"command": ["run", "--unknown-flag", s]},
    "arguments of a container": lambda s: {"arguments": {"apiserver": [f"--kvstore-opt=etcd.password={s}", s]}},
    "a script": lambda s: {"command": ["sh", "-c", f"export A={s}; run"]},
    "JSON in a text": lambda s: {"diff": json.dumps({"kind": "Secret", "data": {"a": b64(s)}, "stringData": {"b": s}})},
    "JSON in JSON in a text": lambda s: {"diff": json.dumps([json.dumps({"token": s})])},
    **{
        f"field {name}": partial(_field, name)
        for name in ("password", "bearerToken", "clientSecret", "apiKey", "tls.key", "private_key", "client-key-data", "Authorization")
    },
    "a mapping below a field": lambda s: {"credentials": {"a": [{"b": s}]}},
    "a list below a field": lambda s: {"tokens": [s, {"b": s}]},
    "a number of a field": lambda s: {"pin_token": int.from_bytes(s.encode(), "big")},
}
"""Places that decide by themselves: whatever looks a value has."""

TEXTS: Final[Mapping[str, Callable[[str], str]]] = {
    "a private key": lambda s: f"x {pem(s)} y",
    "a private key that is cut": lambda s: f"x -----BEGIN PRIVATE KEY-----\n{s}",
    "a private key, escaped": lambda s: pem(s).replace("\n", "\\n"),
    "a private key, indented": lambda s: pem(s).replace("\n", "\n    "),
    "a bearer header": lambda s: f"Authorization: Bearer {s}",
    "a bearer header in lower case": lambda s: f"sent 'authorization': 'bearer {s}' to the server",
    "a bearer word alone": lambda s: f"the server refused bearer {s}",
    "a basic header": lambda s: f"proxy said: Basic {b64('u:' + s)}",
    "a URL with a user": lambda s: f"dial https://admin:{s}@10.0.0.1:2379/x failed",
    "a URL with a token for a user": lambda s: f"git clone https://{s}@example.com/a.git",
    "a URL with a slash in its password": lambda s: f"https://u:a/{s}@example.com/",
    "a query": lambda s: f"GET https://example.com/a?access_token={s}&x=1",
    "a password": lambda s: f"password={s}",
    "a password in quotes": lambda s: f'{{"password": "a {s}"}} trailing',
    "a password with blanks": lambda s: f"db_password: two words {s}",
    "a password of several lines": lambda s: f"password: |\n  {s}\n  {s}",
    "a password on the next line": lambda s: f"password:\n  {s}",
    "an escaped token": lambda s: f'said \\"token\\": \\"{s}\\" and more',
    "a kubeconfig": kubeconfig,
    "a kubeconfig in base64": lambda s: b64(kubeconfig(s)),
    "a web token": lambda s: f"saw eyJhbGciOiJSUzI1NiJ9.{s}.{s} there",
    "a token of a forge": lambda s: f"clone with ghp_{s} failed",
    "a token of a vault": lambda s: f"lease of hvs.{s}",
    "a long value in base64": lambda s: f"got {b64(s * 8)} back",
}
"""Forms that are found in any text."""


@st.composite
def secrets(draw: st.DrawFn) -> str:
    """A value that is in nothing else of an archive."""
    return "Zq" + draw(st.text(ALPHABET, min_size=14, max_size=40))


def within_base64(secret: str) -> set[str]:
    """The characters by which a value shows in base64 of any text around it: for each place of its first byte in a group of three."""
    found = {b64("x" * shift + secret)[4 if shift else 0 :] for shift in range(3)}
    return {text[: len(text) // 4 * 4 - 4] for text in found}


def leaks(packed: Packed, secret: str) -> list[str]:
    text = whole(packed)
    forms = {secret, json.dumps(secret)[1:-1], str(int.from_bytes(secret.encode(), "big")), *within_base64(secret)}
    return [form for form in forms if form in text]


@pytest.mark.parametrize("place", [*OBJECTS])
@examples(15)
@given(secret=secrets(), depth=st.integers(0, 3))
def test_a_place_that_may_hold_a_secret_is_empty_in_the_archive(place: str, secret: str, depth: int) -> None:
    found: Any = OBJECTS[place](secret)
    for number in range(depth):
        found = {"spec": found} if number % 2 else [found, "x"]
    packed = packed_of(found)
    assert leaks(packed, secret) == [], place
    assert packed.manifest["files"][0]["redacted"], "the manifest says that something was removed"


@pytest.mark.parametrize("form", [*TEXTS])
@examples(15)
@given(secret=secrets(), before=st.text(max_size=8))
def test_a_secret_is_found_in_any_text_by_its_form(form: str, secret: str, before: str) -> None:
    text = f"{before} {TEXTS[form](secret)}"
    contents: dict[str, Any] = {
        "value": {"message": text},
        "key": {text: "x"},
        "list": [[text]],
        "log": f"a\n{text}\nb\n",
        "json log": json.dumps({"level": "info", "msg": text}),
    }
    for at in (*contents, "path", "missing"):  # each form at each place: chance would leave some out
        missing = (Missing(cluster=text, what=text, reason=text),) if at == "missing" else ()
        path = f"results/{text}" if at == "path" else "x.json"
        heading = Heading(made="t", mesh="m", collection="c", missing=missing)
        packed = pack([document(contents.get(at, "x"), path)], heading, Guards(), most=MOST)
        assert leaks(packed, secret) == [], (form, at)


@in_one_test
@pytest.mark.parametrize(
    "opened", ["password:", "db_password = ", 'token: "', "secret: |", "secret: >-", "apiKey: |2+", "'client-secret' :"]
)
@pytest.mark.parametrize("lines", [["Zqa"], ["  Zqa", "  Zqb"], ["", "  Zqa", "", "\tZqb"], ["token:", "Zqa"]])
def test_a_value_on_later_lines_of_a_log_goes_and_what_comes_behind_it_stays(opened: str, lines: list[str]) -> None:
    found = redact_lines("\n".join(["before", f"x {opened}", *lines, "behind", "it"]))
    assert "Zq" not in found.value
    assert found.value.splitlines()[0] == "before" and found.value.splitlines()[-2:] == ["behind", "it"]
    assert {entry.at for entry in found.removed} >= {f"line {number}" for number, line in enumerate(lines, 3) if line}


@pytest.mark.parametrize("version", ["1.16", "1.20"])
@examples(10)
@given(secret=secrets(), place=st.integers(0, 10_000))
def test_a_secret_anywhere_in_the_objects_of_a_cluster_is_in_no_file(version: str, secret: str, place: int) -> None:
    options = LabOptions(clusters=1, cilium=version).cluster_options()[0]
    objects = {path: _with_secret(item, secret, place) for path, item in answers_of(options, None).items()}
    packed = pack(
        cluster_documents(facts_from(options, objects), Extras(services=[{"annotations": {"x/y": secret}}])), HEADING, Guards(), most=MOST
    )
    assert leaks(packed, secret) == []


def _with_secret(item: dict[str, Any], secret: str, place: int) -> dict[str, Any]:
    """An object of a cluster with the secret in every place where people have put one."""
    item["metadata"].setdefault("annotations", {}).update({APPLIED: json.dumps({"data": {"k": secret}}), f"example.com/a{place}": secret})
    if item["kind"] == "Secret":
        item["data"]["extra"] = b64(secret)
        item["data"]["note.key"] = b64(pem(secret))
    if item["kind"] == "ConfigMap":
        item["data"]["extra-setting"] = secret
        item["data"]["kvstore-opt"] = json.dumps({"etcd.password": secret})
    template = item.get("spec", {}).get("template", {})
    for container in template.get("spec", {}).get("containers", []):
        container.setdefault("env", []).append({"name": "SETTING", "value": secret})
        container.setdefault("args", []).extend([f"--setting={secret}", secret])
    if template:
        template["metadata"].setdefault("annotations", {})["example.com/b"] = f"Bearer {secret}"
    for entry in item.get("metadata", {}).get("managedFields", []):
        entry["manager"] = f"https://u:{secret}@host"
    return item


@examples(20)
@given(secret=secrets(), other=st.text(ALPHABET, min_size=30, max_size=60))
def test_a_value_of_a_secret_that_was_read_is_in_no_text_whatever_its_form(secret: str, other: str) -> None:
    key = pem(secret + other)
    guards = Guards(known=KnownSecrets([secret.encode(), key.encode(), b"-----BEGIN CERTIFICATE-----\npublic-certificate-line-of-text\n"]))
    said = {"message": f"the server said {secret}", "line": secret + other, "whole": b64(secret), "key": key, f"key {secret}": 1}
    packed = packed_of(said, "public-certificate-line-of-text stays", guards=guards)
    assert leaks(packed, secret) == [] and secret + other not in whole(packed)
    assert "public-certificate-line-of-text stays" in whole(packed)
    assert "known" in packed.manifest["rules"]


def test_what_a_maintainer_needs_of_a_cluster_is_kept() -> None:
    """Redaction that removes all would pass every test above."""
    (facts,) = facts_of(LabOptions(clusters=1, cilium="1.20")).values()
    packed = pack(cluster_documents(facts, Extras()), HEADING, Guards(), most=MOST)
    files = {name.rpartition("/")[2]: text for name, text in files_of(packed).items()}
    config = json.loads(files["config.json"])["cilium-config"]
    assert config == facts.config, "every setting that the chart leaves"
    assert set(config) <= CONFIG
    pairs = json.loads(files["certificates.json"])["pairs"]
    certificate = pairs["clustermesh-apiserver-server-cert"]["certificate"]
    assert facts.server_cert.certificate is not None
    assert certificate["fingerprint"] == facts.server_cert.certificate.fingerprint
    assert certificate["not_after"] and certificate["dns_names"] and pairs["clustermesh-apiserver-server-cert"]["key_matches"] is True
    workloads = json.loads(files["workloads.json"])
    arguments = workloads["clustermesh-apiserver"]["arguments"]["apiserver"]
    assert f"--cluster-id={facts.id}" in [argument.replace("$(CLUSTER_ID)", str(facts.id)) for argument in arguments]
    assert workloads["clustermesh-apiserver"]["containers"]["kvstoremesh"].endswith(facts.apiserver.containers["kvstoremesh"][-6:])  # type: ignore[union-attr]  # this cluster has an apiserver
    assert any("tls.key" in mount for mounts in workloads["clustermesh-apiserver"]["volumes"].values() for mount in mounts)
    nodes = json.loads(files["nodes.json"])["nodes"]
    assert [node["name"] for node in nodes] == [node.name for node in facts.nodes] and nodes[0]["internal_ips"]


def test_names_of_variables_stay_where_their_values_go() -> None:
    found = redact({"env": [{"name": "CLUSTER", "value": "x"}, {"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "a"}}}]})
    assert found.value["env"][0] == {"name": "CLUSTER", "value": "<redacted>"}


def test_ordinary_messages_are_kept_word_for_word() -> None:
    messages = [
        "Secret kube-system/cilium-clustermesh has no key for c2; run connect.",
        'secrets "cilium-ca" is forbidden: User "x" cannot get resource "secrets" in API group ""',
        "c1 -> c2: x509: certificate has expired or is not yet valid: current time 2026-09-01T12:00:00Z is after 2026-08-01T12:00:00Z",
        "dial tcp 172.18.0.4:2379: connect: connection refused",
        "endpoints:\n- https://c2.mesh.cilium.io:2379\nkey-file: /var/lib/cilium/clustermesh/local-etcd-client.key",
        "docs/runbooks/CM-CERT-01.md",
    ]
    found = redact({"messages": messages})
    assert found.value == {"messages": messages} and found.removed == ()
    assert redact_lines("\n".join(messages)).value.splitlines() == "\n".join(messages).splitlines()


@pytest.mark.slow
@examples(20)
@given(key=st.binary(min_size=16, max_size=16), numbers=st.lists(st.integers(1, 2**32 - 2), min_size=1, max_size=5, unique=True))
def test_no_name_and_no_address_is_left_where_pseudonyms_are_asked_for(key: bytes, numbers: list[int]) -> None:
    every = facts_of(LabOptions(clusters=2, cilium="1.20"))
    names = names_of(Mesh(binding=Binding(name="edge-mesh-eu", cluster_refs=tuple(every))), every, {})
    v4 = [f"{n >> 24}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in numbers if n >> 24 not in (0, 127)]
    v6 = [f"2001:db8::{n & 0xFFFF:x}" for n in numbers]
    said = {
        "text": f"c1 -> {', '.join([*v4, *v6])}/64, c2-node1; [{v6[0]}]:2379",
        "peers": dict.fromkeys(every, "c1"),
        "at": "2026-09-01T12:00:00Z",
    }
    documents = [document(said), *(d for facts in every.values() for d in cluster_documents(facts, Extras()))]
    first, second = (pack(documents, HEADING, Guards(pseudonyms=Pseudonyms(key=key, names=names)), most=MOST) for _time in range(2))
    text = "\n".join(f"{name}\n{content}" for name, content in files_of(first).items())
    left = [name for name in (*v4, *v6, *(name for facts in every.values() for name in _telling(facts))) if _stands_in(name, text)]
    assert left == []
    assert first.content == second.content, "the same key gives the same pseudonyms"
    assert "2026-09-01T12:00:00Z" in text and "1.20" in text, "times and versions are neither"
    other = pack(documents, HEADING, Guards(pseudonyms=Pseudonyms(key=key + b"x", names=names)), most=MOST)
    assert other.content != first.content


def _telling(facts: ClusterFacts) -> Iterable[str]:
    yield from (facts.host, facts.name, "edge-mesh-eu")
    yield from (node.name for node in facts.nodes)
    yield from (address for node in facts.nodes for address in (*node.internal_ips, *node.mesh_ips))
    yield from (pod.name for pod in facts.agent_pods if not pod.name.startswith("cilium"))


def _stands_in(name: str, text: str) -> bool:
    """Whether a name stands in a text by itself, and not as digits of a digest."""
    places = [i for i in range(len(text)) if text.startswith(name, i)] if name in text else []
    edges = [(text[i - 1 : i], text[i + len(name) : i + len(name) + 1]) for i in places]
    return any(not (before.isalnum() or after.isalnum()) for before, after in edges)


def test_an_archive_shows_every_setting_that_a_check_reads() -> None:
    assert set(KEYS) <= CONFIG
