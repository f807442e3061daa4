# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The replay of Helm's upgrade does what a real Helm was seen to do (tests/integration/test_helm_upgrades.py)."""

from __future__ import annotations

import copy
from base64 import b64encode
from typing import Any

import pytest

from tests.lab.api import ApiError, path_of
from tests.lab.profiles import HelmPeer, HelmRefused, ProfileOptions, helm_upgrade, install, parse_set, with_values

SECRETS = "/api/v1/namespaces/kube-system/secrets"
USERS = "/api/v1/namespaces/kube-system/configmaps/clustermesh-remote-users"
APISERVER = "/apis/apps/v1/namespaces/kube-system/deployments/clustermesh-apiserver"
AGENTS = "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium"
PEER_SECRETS = (f"{SECRETS}/cilium-clustermesh", f"{SECRETS}/cilium-kvstoremesh")
OFF = {"clustermesh": {"config": {"enabled": False}}}


class FakeApi:
    """Objects by path, and who wrote them last. The lab's own tests meet real servers; here it is the order of things that matters."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.managers: dict[str, str] = {}
        self.writes = 0
        self.controllers: dict[str, int] = {}  # path -> how often a controller writes it just before the next PUT

    def get(self, path: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.objects.get(path))

    def create(self, obj: dict[str, Any], *, field_manager: str = "") -> dict[str, Any]:
        path = path_of(obj)
        assert path not in self.objects, f"{path} is there already"
        return self._write(path, obj, field_manager)

    def replace(self, path: str, obj: dict[str, Any], *, field_manager: str = "") -> dict[str, Any]:
        if self.controllers.get(path):
            self.controllers[path] -= 1
            self.annotate(path, **{"deployment.kubernetes.io/revision": "7"})
            self._write(path, self.objects[path], "kube-controller-manager")
        if obj["metadata"]["resourceVersion"] != self.objects[path]["metadata"]["resourceVersion"]:
            raise ApiError("PUT", path, 409, "Conflict", "the object has been modified")
        return self._write(path, obj, field_manager)

    def delete(self, path: str) -> None:
        del self.objects[path]

    def _write(self, path: str, obj: dict[str, Any], manager: str) -> dict[str, Any]:
        self.writes += 1
        stored = copy.deepcopy(obj)
        stored["metadata"]["resourceVersion"] = str(self.writes)
        self.objects[path], self.managers[path] = stored, manager
        return stored

    def data(self, path: str) -> dict[str, str]:
        data: dict[str, str] = self.objects[path]["data"]
        return data

    def annotate(self, path: str, **annotations: str) -> None:
        self.objects[path]["metadata"].setdefault("annotations", {}).update(annotations)

    def keep(self, *paths: str) -> None:
        for path in paths:
            self.annotate(path, **{"helm.sh/resource-policy": "keep"})


def options(**values: Any) -> ProfileOptions:
    return ProfileOptions(**{"cluster_name": "c1", "cluster_id": 1, "key_type": "ec", "config_enabled": True, **values})


def installed(asked: ProfileOptions) -> FakeApi:
    """A release with links that another tool added."""
    api = FakeApi()
    install(api, asked)
    for path in PEER_SECRETS:
        if path in api.objects:
            api.data(path)["c2"] = b64encode(b"endpoints: foreign").decode()
    if USERS in api.objects:
        api.data(USERS)["users.yaml"] += "- name: remote-c2\n  role: remote\n"
    for path in (APISERVER, AGENTS):
        api.objects[path]["spec"]["template"]["spec"]["hostAliases"] = [{"ip": "127.0.9.9", "hostnames": ["c2.mesh.cilium.io"]}]
    return api


PEER = HelmPeer(name="peer", ips=("127.0.9.1",))


def aliases(api: FakeApi, path: str) -> list[str]:
    return [entry["ip"] for entry in api.objects[path]["spec"]["template"]["spec"].get("hostAliases") or ()]


def test_an_upgrade_with_peers_in_its_values_keeps_foreign_keys_and_drops_foreign_users() -> None:
    asked = options(peers=(PEER,))
    api = installed(asked)
    upgrade = helm_upgrade(api, asked)
    assert [sorted(api.data(path)) for path in PEER_SECRETS] == [["c2", "peer"], ["c2", "peer"]]
    assert api.data(USERS) == {"users.yaml": "users:\n- name: remote-peer\n  role: remote\n"}
    assert {api.managers[path] for path in PEER_SECRETS} == {"cilium"}
    assert not (upgrade.created or upgrade.deleted or upgrade.kept)


def test_an_upgrade_without_peers_in_its_values_empties_the_secrets() -> None:
    asked = options()
    api = installed(asked)
    helm_upgrade(api, asked)
    assert [api.data(path) for path in PEER_SECRETS] == [{}, {}]
    assert api.data(USERS) == {"users.yaml": "users:\n"}


def test_a_peer_that_leaves_the_values_leaves_the_secrets_alone() -> None:
    other = HelmPeer(name="other", ips=("127.0.9.2",))
    asked = options(peers=(PEER, other), version="1.18")
    api = installed(asked)
    helm_upgrade(api, asked, values={"clustermesh.config.clusters": [{"name": "peer", "ips": ["127.0.9.1"]}]})
    assert [sorted(api.data(path)) for path in PEER_SECRETS] == [["c2", "peer"], ["c2", "peer"]]


@pytest.mark.parametrize("config_enabled", [True, False])
def test_foreign_host_aliases_stay_and_those_of_the_chart_are_its_own(config_enabled: bool) -> None:
    asked = options(version="1.18", config_enabled=config_enabled, peers=(PEER,))
    api = installed(asked)
    helm_upgrade(api, asked)
    assert aliases(api, APISERVER) == (["127.0.9.1", "127.0.9.9"] if config_enabled else ["127.0.9.9"])
    if config_enabled:
        helm_upgrade(api, asked, values=OFF)
        assert aliases(api, APISERVER) == [], "a list that leaves the manifest goes as a whole"


def test_a_forced_replacement_takes_everything_foreign_with_it() -> None:
    asked = options(peers=(PEER,), version="1.18")
    api = installed(asked)
    helm_upgrade(api, asked, force_replace=True)
    assert [sorted(api.data(path)) for path in PEER_SECRETS] == [["peer"], ["peer"]]
    assert aliases(api, APISERVER) == ["127.0.9.1"] and aliases(api, AGENTS) == []


def test_switching_config_off_deletes_the_three() -> None:
    asked = options()
    api = installed(asked)
    upgrade = helm_upgrade(api, asked, values=OFF)
    assert upgrade.deleted == ("ConfigMap clustermesh-remote-users", "Secret cilium-clustermesh", "Secret cilium-kvstoremesh")
    assert not api.objects.keys() & {USERS, *PEER_SECRETS}
    assert not upgrade.options.config_enabled


def test_kept_objects_stay_with_their_content_and_later_upgrades_leave_them_alone() -> None:
    asked = options()
    api = installed(asked)
    api.keep(USERS, *PEER_SECRETS)
    before = {path: copy.deepcopy(api.objects[path]) for path in (USERS, *PEER_SECRETS)}
    first = helm_upgrade(api, asked, values=OFF)
    assert first.kept == ("ConfigMap clustermesh-remote-users", "Secret cilium-clustermesh", "Secret cilium-kvstoremesh")
    second = helm_upgrade(api, first.options)
    assert not (second.kept or second.deleted)
    assert {path: api.objects[path] for path in before} == before


def test_a_118_chart_goes_on_owning_the_users_without_config_enabled() -> None:
    asked = options(version="1.18", auth_mode="migration")
    api = installed(asked)
    upgrade = helm_upgrade(api, asked, values=OFF)
    assert upgrade.deleted == ("Secret cilium-clustermesh", "Secret cilium-kvstoremesh")
    assert api.data(USERS) == {"users.yaml": "users:\n"}
    newer = helm_upgrade(api, upgrade.options, version="1.19")
    assert newer.deleted == ("ConfigMap clustermesh-remote-users",), "and the pod of 1.19 waits for it"


def test_helm_refuses_to_take_over_foreign_objects() -> None:
    asked = options(config_enabled=False)
    api = installed(asked)
    before = api.writes
    with pytest.raises(HelmRefused, match="ConfigMap clustermesh-remote-users exists and cannot be imported"):
        helm_upgrade(api, asked, values={"clustermesh.config.enabled": True})
    assert api.writes == before


def test_the_ca_survives_and_the_leaves_are_made_anew() -> None:
    asked = options()
    api = installed(asked)
    ca, leaf = (copy.deepcopy(api.data(f"{SECRETS}/{name}")) for name in ("cilium-ca", "clustermesh-apiserver-remote-cert"))
    helm_upgrade(api, asked)
    assert api.data(f"{SECRETS}/cilium-ca") == ca
    renewed = api.data(f"{SECRETS}/clustermesh-apiserver-remote-cert")
    assert renewed["tls.crt"] != leaf["tls.crt"]
    assert renewed["ca.crt"] == leaf["ca.crt"] == ca["ca.crt"]


@pytest.mark.parametrize("method", ["cronJob", "provided"])
def test_leaves_that_helm_does_not_make_are_left_alone(method: str) -> None:
    asked = options(tls_method=method)
    api = installed(asked)
    leaf = f"{SECRETS}/clustermesh-apiserver-remote-cert"
    assert api.managers[leaf] == ("cilium-certgen" if method == "cronJob" else "kubectl-create")
    before = copy.deepcopy(api.objects[leaf])
    helm_upgrade(api, asked)
    assert api.objects[leaf] == before


def test_foreign_annotations_of_an_object_survive() -> None:
    asked = options()
    api = installed(asked)
    api.annotate(APISERVER, **{"deployment.kubernetes.io/revision": "7"})
    helm_upgrade(api, asked)
    annotations = api.objects[APISERVER]["metadata"]["annotations"]
    assert annotations["deployment.kubernetes.io/revision"] == "7"
    assert annotations["meta.helm.sh/release-name"] == "cilium"


def test_an_upgrade_goes_on_from_what_a_controller_wrote_meanwhile() -> None:
    asked = options()
    api = installed(asked)
    api.controllers = {APISERVER: 3}
    helm_upgrade(api, asked)
    assert aliases(api, APISERVER) == ["127.0.9.9"]
    assert api.objects[APISERVER]["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "7"
    api.controllers = {APISERVER: 10**6}
    with pytest.raises(ApiError, match="409 Conflict"):
        helm_upgrade(api, asked)


def test_what_a_user_deleted_comes_back() -> None:
    asked = options()
    api = installed(asked)
    api.delete(PEER_SECRETS[0])
    assert helm_upgrade(api, asked).created == ("Secret cilium-clustermesh",)


def test_values_are_read_nested_dotted_or_as_set_flags() -> None:
    cluster = {"ips": ["127.0.9.1"], "port": 32380}
    nested = {"clustermesh": {"config": {"enabled": True, "clusters": {"c2": cluster}}}}
    dotted = {"clustermesh.config.enabled": True, "clustermesh.config.clusters": [{"name": "c2", **cluster}]}
    flags = parse_set(["clustermesh.config.enabled=true", "clustermesh.config.clusters=[{name: c2, ips: [127.0.9.1], port: 32380}]"])
    expected = options(peers=(HelmPeer(name="c2", ips=("127.0.9.1",), port=32380),))
    assert [with_values(options(config_enabled=False), values) for values in (nested, dotted, flags)] == [expected] * 3


def test_unknown_values_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'clustermesh\.config\.domain'"):
        with_values(options(), {"clustermesh": {"config": {"domain": "example.org"}}})
    with pytest.raises(ValueError, match="not KEY=VALUE"):
        parse_set(["clustermesh"])
