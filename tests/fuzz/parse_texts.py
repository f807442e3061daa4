# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parsers of texts that tenants and members write: YAML, JSON in annotations and ConfigMaps, schedules."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.adopt.helm_values import clusters_value
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.dialling import Dialler, DialRule, NotDialled
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.sealed import SecretStore
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.yaml_reader import NotYaml, compose_yaml, load_yaml
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd.link_access import link_access
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.exec_plugin import ExecPlugin, PluginFailed
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.chosen import choose
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.document import parse_kubeconfig
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.invalid import KubeconfigInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.secret import ARGO_LABEL, kubeconfig_of_secret
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.leases.registry import (
    RegistryProblem,
    parse_registry,
    write_registry,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.adopted_values import adoption_record
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.users import edit_users
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.endpoints.address_moves import MOST_TIMES, held_until, read_moves
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.marks import (
    ADOPTED_ANNOTATION,
    PEERS_ANNOTATION,
    USERS_ANNOTATION,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.objects import written_peers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.ca_roll import MARK, has_invalid_mark, roll_of, write_roll
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.trust.issuing import next_run
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.peers import keep_values, peer_secret_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.users import parse_users
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services.record import read_record
from mesh_operator.credentials.tenant_addresses import NETWORKS
from mesh_operator.credentials.tenant_kubeconfigs import KubeconfigRefused, open_kubeconfig, rebuild_kubeconfig
from tests.fuzz.parser import Form, parser
from tests.testing.facts_builders import cluster_facts, mesh_of
from tests.testing.observed_objects import secret

NOW: Final = datetime(2026, 11, 1, 12, tzinfo=UTC)
_KEPT: Final = {"server", "tls-server-name", "certificate-authority-data", "token", "client-certificate-data", "client-key-data"}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass" if b"\xed" in data else "replace") if _decodes(data) else data.decode("utf-8", "replace")


def _decodes(data: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        data.decode("utf-8", "surrogatepass")
        return True
    return False


@parser("yaml", "tenants and members", "base/yaml_reader.py", form=Form.YAML, growth=100)
def yaml(data: bytes) -> object:
    """Read as text and as bytes, with both loaders: whatever one refuses, the others may not fail at."""
    found: list[Any] = []
    text = _text(data)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: load_yaml(data),
        lambda: load_yaml(data, "Base"),
        lambda: load_yaml(text),
        lambda: compose_yaml(text),
    )
    for read in ways:
        with suppress(NotYaml):
            found.append(read())
    return found[:2]


_TENANTS: Final = ("operator/mesh_operator/credentials/tenant_kubeconfigs.py", "operator/mesh_operator/credentials/tenant_addresses.py")


@parser("kubeconfig", "a tenant", *_TENANTS, "kubeconfig/fields.py", "kubeconfig/chosen.py", form=Form.YAML, raises=(KubeconfigRefused,))
def kubeconfig(data: bytes) -> object:
    """Rebuild it; nothing but the accepted fields may be left."""
    made = rebuild_kubeconfig(data)
    cluster, user = made["clusters"][0]["cluster"], made["users"][0]["user"]
    assert set(cluster) | set(user) <= _KEPT and cluster["server"].startswith("https://"), "a field that is not accepted came through"
    assert all(isinstance(value, str) for value in (*cluster.values(), *user.values())), "a value that is no text came through"
    return sorted(made)


@parser("argo-cluster", "a tenant", _TENANTS[0], form=Form.JSON, raises=(KubeconfigRefused,))
def argo_cluster(data: bytes) -> object:
    """Open a cluster Secret of Argo CD whose config is the data; nothing but the accepted fields may be left."""
    parts = {"server": b64encode(b"https://api.example.com:6443").decode(), "config": b64encode(data).decode()}
    made = open_kubeconfig(json.dumps(parts))
    cluster, user = made["clusters"][0]["cluster"], made["users"][0]["user"]
    assert set(cluster) | set(user) <= _KEPT, "a field that is not accepted came through"
    assert all(isinstance(value, str) for value in (*cluster.values(), *user.values())), "a value that is no text came through"
    return sorted(made)


@parser("secret-kubeconfig", "who may write Secrets in a management cluster", "kubeconfig/secret.py", form=Form.YAML)
def secret_kubeconfig(data: bytes) -> object:
    """Read a kubeconfig of a Secret, and as the config of one of Argo CD; nothing is left that reads a file or runs a program here."""
    text, found = b64encode(data).decode(), []
    argo = {"metadata": {"labels": {ARGO_LABEL: "cluster"}}, "data": {"server": b64encode(b"https://10.0.0.1").decode(), "config": text}}
    for given in ({"data": {"value": text}}, argo):
        with suppress(KubeconfigInvalid):
            found.append(kubeconfig_of_secret(given))
    for document in found:
        read = parse_kubeconfig(document, None)
        entries = [*read.clusters.values(), *read.users.values()]
        acting = {"exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "certificate-authority"}
        assert choose(read).cluster["server"] and not any(acting & set(entry) for entry in entries), (
            "what acts on this machine came through"
        )
    return [sorted(map(str, document)) for document in found]


@parser("exec-credential", "an exec plugin, and the server that answers it", "kube/exec_plugin.py", form=Form.JSON, raises=(PluginFailed,))
def exec_credential(data: bytes) -> object:
    """Read the answer of an exec plugin; what is taken of it says who sends a request, until a time that can be compared."""
    plugin = ExecPlugin({"command": "plugin", "apiVersion": "client.authentication.k8s.io/v1"}, {})
    found = plugin.read(data)
    assert found.token or (found.certificate and found.key), "nothing says who sends a request"
    assert found.ends.tzinfo is not None, "an end that cannot be compared"
    return found


@parser(
    "users",
    "those who edit ConfigMap clustermesh-remote-users of a member",
    *("links/users.py", "observe/users.py"),
    form=Form.YAML,
    seconds=6.0,  # the text is read six times
)
def users(data: bytes) -> object:
    """Read users.yaml, add a user and remove one: the others stay as they are."""
    text = _text(data)
    before, problem = parse_users(text)
    if problem:
        return problem
    try:
        edited = edit_users(text, add=["remote-new"], remove=["remote-c2"])
    except ValueError as error:
        return str(error)
    after, problem = parse_users(edited)
    wanted = {name: role for name, role in before.items() if name != "remote-c2"}
    assert not problem and {**after, **wanted} == after and set(after) == {*wanted, "remote-new"}, "editing users.yaml changed another user"
    return after


@parser(
    "peer-secret",
    "those who edit the Secrets with the peers of a member",
    *("observe/peers.py", "etcd/link_access.py", "adopt/helm_values.py"),
    form=Form.YAML,
    seconds=10.0,  # five keys hold the text
)
def peer_secret(data: bytes) -> object:
    """Read a Secret of peers whose every key holds the input, dial the peer and hand it back to Helm."""
    names = ("c2", "c2.etcd-client.crt", "c2.etcd-client-ca.crt", "c2.etcd-client.key", "notes")
    value = secret("cilium-kvstoremesh", dict.fromkeys(names, data))
    facts = peer_secret_facts(value, "cilium-kvstoremesh")
    cluster = replace(cluster_facts("c1"), kvstoremesh=facts)
    store = SecretStore()
    keep_values(store, "c1", "cilium-kvstoremesh", value)
    return facts.keys["c2"].config, link_access(cluster, "c2", store), clusters_value(cluster, {"c2": "c2"})


@parser("registry", "a member, in its copy of the leases", "leases/registry.py", form=Form.JSON, raises=(RegistryProblem,))
def registry(data: bytes) -> object:
    """Parse leases; the canonical text of what was read is read as the same."""
    found = parse_registry(_text(data))
    again = parse_registry(write_registry(found))
    assert again == found, "the leases that were read are not those that are written"
    return found.leases


@parser(
    "annotations",
    "those who edit objects of a member",
    *(
        "links/adopted_values.py",
        "mesh/endpoints/address_moves.py",
        "mesh/trust/ca_roll.py",
        "mesh/ownership/objects.py",
        "services/record.py",
    ),
    form=Form.JSON,
    growth=200,
)
def marks(data: bytes) -> object:
    """Read every annotation of JSON with which bindings mark objects, each holding the input."""
    text = _text(data)
    binding = mesh_of("c1", "c2").binding
    marked = {f"{prefix}/{binding.owner}": text for prefix in (PEERS_ANNOTATION, ADOPTED_ANNOTATION, USERS_ANNOTATION)}
    found: list[Any] = [read_record(text)]
    moves = read_moves(text)
    assert all(len(times) <= MOST_TIMES for times in moves.values()), "an annotation makes a long record"
    found.append([held_until(times, NOW) for times in moves.values()])
    value = secret("cilium-clustermesh", {}, annotations=marked)
    cluster = replace(cluster_facts("c1"), clustermesh=peer_secret_facts(value, "cilium-clustermesh"))
    record = adoption_record(binding, cluster)
    found += [written_peers(cluster.clustermesh, binding.owner), record, record.text]
    ca = SimpleNamespace(annotations={MARK: text})
    roll = roll_of(ca)  # type: ignore[arg-type]  # of its facts only the annotations are read
    assert roll is None or roll_of(SimpleNamespace(annotations={MARK: write_roll(roll)})) == roll or len(write_roll(roll)) > 60_000  # type: ignore[arg-type]  # of its facts only the annotations are read
    return [*found, roll, has_invalid_mark(ca)]  # type: ignore[arg-type]  # of its facts only the annotations are read


@parser("schedule", "those who edit certgen's CronJob")
def schedule(data: bytes) -> object:
    """Find the next time of certgen's CronJob."""
    return next_run(_text(data), NOW)


@parser("dns-answer", "a tenant, in a name and in what its name server answers", "base/dialling.py", raises=(NotDialled,))
def dns_answer(data: bytes) -> object:
    """Judge a name by an answer with one address or name a line: what is dialled is permitted."""
    name, *found = [*_text(data).splitlines()[:100], "name.example.com"]
    rule = DialRule(denied=NETWORKS, allowed=("192.0.2.0/24", "127.0.0.1/32"))
    dialler = Dialler(rule, lambda _name: found)
    addresses = dialler.addresses(name)
    assert addresses and all(rule.permits(address) for address in addresses), "an address in a denied range is dialled"
    return addresses
