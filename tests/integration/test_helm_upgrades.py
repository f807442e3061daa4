# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a real Helm does to keys, users and host aliases of others, by case: held against what findings say and what the lab plays.

The objects are those that Cilium's charts render for peers, put into a chart of their own as they are.
"""

from __future__ import annotations

import os
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.apply.apply import users_body
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.links.users import users_step
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.gitops import KEEP
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.ownership.helm_upgrade import HelmUpgrade, helm_upgrade
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.ownership import writers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.peers import peer_secret_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe.users import remote_users_facts
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.plan.steps import WriteUsers
from tests.lab.api import APPLY, ApiError, LabApi, path_of
from tests.lab.profiles import HelmPeer, ProfileOptions, build
from tests.lab.profiles.helm import as_rendered, merged, replaced
from tests.lab.tools import HELM, ToolUnavailable, ensure
from tests.testing.facts_builders import cluster_facts
from tests.testing.kcp_world import eventually
from tests.testing.one_server import OneServer

BINDING = Binding(name="edge-mesh-eu", cluster_refs=("c1", "c9"))
SECRETS = ("cilium-clustermesh", "cilium-kvstoremesh")
USERS = "clustermesh-remote-users"
APISERVER = "clustermesh-apiserver"
MERGE, SERVER_SIDE, REPLACE = ("--server-side=false",), ("--server-side=true",), ("--server-side=false", "--force-replace")
Object = dict[str, Any]


@pytest.fixture(scope="module")
def server(servers: None) -> Iterator[OneServer]:
    with OneServer() as server:
        for name in ("default", "kube-system"):
            eventually(partial(server.api.get, f"/api/v1/namespaces/{name}"), f"namespace {name} is there")
        yield server


@dataclass
class Release:
    """A release of Helm in a namespace of its own, whose chart is what Cilium's chart would render."""

    api: LabApi
    program: Path
    environment: Mapping[str, str]
    folder: Path
    namespace: str
    manifests: dict[str, Object]

    def render(self, *peers: str, users: bool = True, enabled: bool = True) -> None:
        """Make the chart for these peers in the values. ``enabled``: clustermesh.config.enabled."""
        given = tuple(HelmPeer(name=name, ips=(f"127.0.9.{number}",)) for number, name in enumerate(peers, 1))
        options = ProfileOptions(
            cluster_name="c1", cluster_id=1, version="1.19", key_type="ec", config_enabled=enabled, peers=given, namespace=self.namespace
        )
        wanted = {*SECRETS, APISERVER, *((USERS,) if users else ())}
        kinds = ("Secret", "ConfigMap", "Deployment")
        objects = [item for item in build(options) if item["kind"] in kinds and item["metadata"]["name"] in wanted]
        self.manifests = {item["metadata"]["name"]: as_rendered(item) for item in objects}
        (self.folder / "templates").mkdir(parents=True, exist_ok=True)
        (self.folder / "Chart.yaml").write_text("{apiVersion: v2, name: cilium, version: 1.19.5}\n", encoding="utf-8")
        (self.folder / "templates" / "all.yaml").write_text(yaml.safe_dump_all(self.manifests.values()), encoding="utf-8")

    def helm(self, verb: str, *arguments: str, fails: str = "") -> None:
        """Run Helm; ``fails`` is what it says where it is refused."""
        command = [str(self.program), verb, "cilium", str(self.folder), "--namespace", self.namespace, *arguments]
        done = subprocess.run(command, env=dict(self.environment), check=False, capture_output=True, text=True)
        assert (done.returncode != 0) is bool(fails) and fails in done.stderr, done.stdout + done.stderr

    def live(self, name: str) -> Object:
        found = self.api.get(path_of(self.manifests[name]))
        assert found is not None
        return found

    def write_as_others(self) -> None:
        """Add a key, a user and a host alias, as connect does."""
        data = {"c9": b64encode(b"endpoints: [https://c9.mesh.cilium.io:2379]").decode()}
        for name in SECRETS:
            self._apply("v1", "Secret", name, {"data": data})
        aliases = [{"ip": "127.23.9.9", "hostnames": ["c9.mesh.cilium.io"]}]
        self._apply("apps/v1", "Deployment", APISERVER, {"spec": {"template": {"spec": {"hostAliases": aliases}}}})
        users = self.live(USERS)
        users["data"]["users.yaml"] += "- name: remote-c9\n  role: remote\n"
        self.api.replace(path_of(users), users, field_manager=BINDING.manager)

    def _apply(self, version: str, kind: str, name: str, more: Object) -> None:
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": self.namespace}, **more}
        self.api.patch(path_of(body), body, kind=APPLY, field_manager=BINDING.manager)

    def kept(self) -> tuple[bool, bool, bool]:
        """Whether key, host alias and user of others are there."""
        keys = all("c9" in (self.live(name).get("data") or {}) for name in SECRETS)
        return keys, "127.23.9.9" in aliases_of(self.live(APISERVER)), "remote-c9" in self.live(USERS)["data"]["users.yaml"]

    def predicted(self) -> HelmUpgrade:
        """What the finding says of the next upgrade, from what is there."""
        secrets = {name: self.live(name) for name in SECRETS}
        facts = [peer_secret_facts(secrets[name], name) for name in SECRETS]
        ledgers = {f"Secret {name}": writers(found, whole=True) for name, found in secrets.items()}
        cluster = cluster_facts("c1", version="1.19.5", auth_mode="migration", users=remote_users_facts(self.live(USERS)))
        return helm_upgrade(replace(cluster, clustermesh=facts[0], kvstoremesh=facts[1], writers=ledgers))


def aliases_of(item: Object) -> list[str]:
    return [entry["ip"] for entry in item["spec"]["template"]["spec"].get("hostAliases") or ()]


def content(item: Object) -> Any:
    """What of an object is compared: the names of keys, the users, or the host aliases."""
    if item["kind"] == "Secret":
        return sorted(item.get("data") or {})
    return sorted(aliases_of(item)) if item["kind"] == "Deployment" else item["data"]


@pytest.fixture
def release(server: OneServer, tmp_path: Path, request: pytest.FixtureRequest) -> Release:
    try:
        tools = ensure([HELM], progress=print)
    except ToolUnavailable as error:
        pytest.skip(f"helm cannot be had: {error}")
    number = len(server.api.list("/api/v1/namespaces"))
    namespace = f"release-{number}"
    server.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(server.kubeconfig)}
    return Release(server.api, tools.path(HELM), environment, tmp_path / "chart", namespace, {})


@pytest.mark.parametrize(
    ("before", "after", "way", "kept"),
    [
        pytest.param(("p1",), ("p1",), MERGE, (True, True, False), id="peers in the values"),
        pytest.param((), (), MERGE, (False, True, False), id="no peer in the values"),
        pytest.param(("p1",), (), MERGE, (False, False, False), id="the last peer leaves the values"),
        pytest.param(("p1",), ("p1", "p2"), REPLACE, (False, False, False), id="a forced replacement"),
    ],
)
def test_an_upgrade_does_to_foreign_keys_what_the_finding_says_and_the_lab_plays(
    release: Release, before: tuple[str, ...], after: tuple[str, ...], way: tuple[str, ...], kept: tuple[bool, bool, bool]
) -> None:
    release.render(*before)
    release.helm("install", "--server-side=false")
    release.write_as_others()
    assert release.kept() == (True, True, True)
    said = release.predicted()
    live, old = {name: release.live(name) for name in release.manifests}, release.manifests

    release.render(*after)
    release.helm("upgrade", *way)

    assert release.kept() == kept
    assert not said.server_side and said.drops_users and said.peers == before
    if before == after and way == MERGE:
        assert said.empties_secrets is not kept[0]
    for name, manifest in release.manifests.items():
        played = replaced(manifest, live[name]) if way == REPLACE else merged(old[name], manifest, live[name])
        assert content(played) == content(release.live(name)), f"the lab plays another upgrade of {name}"


def test_a_server_side_upgrade_keeps_foreign_keys_and_fails_over_foreign_users(release: Release) -> None:
    release.render("p1")
    release.helm("install", *SERVER_SIDE)
    release.write_as_others()
    said = release.predicted()
    assert said.server_side and not (said.empties_secrets or said.drops_users or said.refuses_keys)
    assert "conflict over the users" in said.effect

    release.render("p1", "p2")
    release.helm("upgrade", *SERVER_SIDE, fails=f'conflict with "{BINDING.manager}"')
    assert release.kept() == (True, True, True)

    release.helm("upgrade", *SERVER_SIDE, "--force-conflicts")
    assert release.kept() == (True, True, False)


@pytest.mark.parametrize("way", [MERGE, SERVER_SIDE], ids=["merge", "server-side"])
def test_with_the_configuration_disabled_helm_deletes_what_is_not_marked_and_keeps_the_rest_as_it_is(
    release: Release, way: tuple[str, ...]
) -> None:
    release.render("p1")
    release.helm("install", *way)
    release.write_as_others()
    paths = {name: path_of(release.manifests[name]) for name in (*SECRETS, USERS)}
    marked = {name: paths[name] for name in ("cilium-kvstoremesh", USERS)}
    for path in marked.values():
        release.api.patch(path, {"metadata": {"annotations": {KEEP: "keep"}}}, field_manager=BINDING.manager)
    before = {name: release.api.get(path) for name, path in marked.items()}

    release.render(enabled=False, users=False)  # charts of 1.19 and newer render none then
    assert not {*SECRETS, USERS} & release.manifests.keys()
    release.helm("upgrade", *way)

    assert release.api.get(paths["cilium-clustermesh"]) is None
    assert {name: release.api.get(path) for name, path in marked.items()} == before


def test_without_peers_a_server_side_release_owns_the_data_as_a_whole(release: Release) -> None:
    release.render()
    release.helm("install", *SERVER_SIDE)

    assert release.predicted().refuses_keys
    with pytest.raises(ApiError, match=r'conflict with "helm": \.data'):
        release.write_as_others()


def test_helm_takes_over_the_users_that_connect_made_and_refuses_those_of_kubectl(release: Release) -> None:
    release.render(users=False)
    release.helm("install", *MERGE)
    marks = {"meta.helm.sh/release-name": "cilium", "meta.helm.sh/release-namespace": release.namespace}
    cluster = replace(
        cluster_facts("c1", version="1.19.5", auth_mode="migration", users=remote_users_facts(None)), config_annotations=marks
    )
    step = users_step(cluster, frozenset(), BINDING, wave=1, why="peers log in by name", create=True)
    assert step is not None and isinstance(step.action, WriteUsers)
    made = users_body(replace(step.action, namespace=release.namespace))
    assert made["data"] == {"users.yaml": "users: []\n"}

    by_hand = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": USERS, "namespace": release.namespace}, "data": made["data"]}
    release.api.create(by_hand, field_manager="kubectl-create")
    release.render("p1")
    release.helm("upgrade", *MERGE, fails="invalid ownership metadata")
    release.api.delete(path_of(by_hand))

    release.api.patch(path_of(made), made, kind=APPLY, field_manager=BINDING.manager)  # as connect does
    release.helm("upgrade", *MERGE)
    assert release.live(USERS)["data"] == {"users.yaml": "users:\n- name: remote-p1\n  role: remote\n"}
