# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Clusters become members of a real Karmada by the playbook, get new tokens, and leave it, whether they answer or not."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import Tenant, karmada_namespace, member_name
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.access import ClusterAccess
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.decide import Rules
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.models import TokenRules
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.names import EXPIRES_ANNOTATION, ISSUED_ANNOTATION
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.members.parse import parse_members
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.members import MembersRun, run_members
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.options import MembersOptions
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.outcome import Outcome
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.ports import real_ports
from tests.collection_path import CHECKOUT
from tests.integration.labs import KARMADA_MEMBERS
from tests.integration.mesh_lab import MeshLab
from tests.lab.api import LabApi
from tests.testing.karmada_members import CLUSTERS, unready
from tests.testing.playbooks import PlaybookRun
from tests.testing.waiting import wait_for

pytestmark = [pytest.mark.lab(KARMADA_MEMBERS), pytest.mark.usefixtures("karmada_programs")]

DOCUMENT: Final = CHECKOUT / "docs" / "fleet-clusters.md"
TENANT: Final = Tenant("shop", "default")
NAMESPACE: Final = karmada_namespace(TENANT)
NOTES: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/notes"  # of a local user of a cluster
SECRETS: Final = "/api/v1/namespaces/karmada-cluster/secrets"
POLICIES: Final = "/apis/policy.karmada.io/v1alpha1"
TRACES: Final = ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")


class Hosts:
    """Variables of the hosts, with kubeconfigs of users who have the documented rights and no others."""

    def __init__(self, lab: MeshLab, folder: Path) -> None:
        self._lab = lab
        rules = dict(re.findall(r"```yaml\n# (karmada|member)\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL))
        self.hosts: tuple[str, ...] = ("karmada", *lab.names)
        self.limit = ""
        self.every = {"karmada": self._user(LabApi.from_kubeconfig(lab.lab.karmada), lab.lab.karmada, rules["karmada"], folder / "karmada")}
        for name in lab.names:
            self.every[name] = self._user(lab.api(name), lab.lab.clusters[name].kubeconfig, rules["member"], folder / name)

    def access(self, names: Sequence[str]) -> tuple[ClusterAccess, ...]:
        """How the engine reaches the hosts."""
        loopback = ("127.0.0.0/8",)
        files = {name: str(self.every[name]["cilium_mesh_kubeconfig"]) for name in names}
        return tuple(ClusterAccess(host=name, kubeconfig=files[name], context=None, endpoint_networks=loopback) for name in names)

    def _user(self, api: LabApi, kubeconfig: Path, rules: str, place: Path) -> dict[str, Any]:
        group, name, where = "rbac.authorization.k8s.io", "fleet-joiner", {"namespace": "default"}
        for role in yaml.safe_load_all(rules):
            api.create(role)
            subject = {"kind": "ServiceAccount", "name": name, **where}
            reference = {"apiGroup": group, "kind": role["kind"], "name": role["metadata"]["name"]}
            binding = {"apiVersion": f"{group}/v1", "kind": f"{role['kind']}Binding", "metadata": role["metadata"]}
            api.create({**binding, "roleRef": reference, "subjects": [subject]})
        api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, **where}})
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        token = api.post(f"/api/v1/namespaces/default/serviceaccounts/{name}/token", asked)["status"]["token"]
        document = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        document["users"][0]["user"] = {"token": token}
        place.write_text(yaml.safe_dump(document), encoding="utf-8")
        return {"cilium_mesh_kubeconfig": str(place)}

    def play(self, fleet: Mapping[str, Any], *arguments: str, silent: str = "", **variables: Any) -> PlaybookRun:
        """Run the playbook. ``silent``: a host that cannot be reached."""
        hosts = {**self.every, **({silent: {"cilium_mesh_unavailable": "powered off"}} if silent else {})}
        return self._lab.play("fleet_clusters", hosts=hosts, arguments=arguments, fleet={"karmada": "karmada", **fleet}, **variables)


@pytest.fixture(scope="module")
def hosts(module_lab: MeshLab, tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    return Hosts(module_lab, tmp_path_factory.mktemp("kubeconfigs"))


@pytest.fixture(scope="module")
def karmada(module_lab: MeshLab) -> Iterator[LabApi]:
    """Karmada's API, with the tenant's namespace, which Karmada brings to the tenant's members as on the workload side."""
    api = LabApi.from_kubeconfig(module_lab.lab.karmada)
    labels = {**TENANT.labels, "namespace.karmada.io/skip-auto-propagation": "true"}
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    place(api, "Namespace", NAMESPACE, {"labelSelector": {"matchLabels": TENANT.labels}})
    yield api


def place(karmada: LabApi, kind: str, name: str, affinity: Mapping[str, Any]) -> None:
    """Have Karmada bring an object of the core group to clusters."""
    selected = {"apiVersion": "v1", "kind": kind, "name": name}
    spec: dict[str, Any] = {"resourceSelectors": [selected], "placement": {"clusterAffinity": affinity}}
    if kind == "Namespace":  # as fleet/writes.py: one that is there without Karmada's labels could never be given up again
        spec |= {"preserveResourcesOnDeletion": True, "conflictResolution": "Overwrite"}
    head, scope = ("ClusterPropagationPolicy", "") if kind == "Namespace" else ("PropagationPolicy", f"/namespaces/{NAMESPACE}")
    body = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": head, "metadata": {"name": name}, "spec": spec}
    karmada.post(f"{POLICIES}{scope}/{head.lower().replace('policy', 'policies')}", body)


def fleet(*names: str) -> dict[str, Any]:
    return {"workspace": "shop", "clusters": [{"name": name, "region": f"eu-{name}"} for name in names]}


def members(karmada: LabApi) -> list[str]:
    return sorted(cluster["metadata"]["name"] for cluster in karmada.list(CLUSTERS))


def traces(lab: MeshLab, name: str) -> list[str]:
    """What of Karmada is in a cluster."""
    api = lab.api(name)
    found = [entry["metadata"]["name"] for path in TRACES for entry in api.list(path) if "karmada" in entry["metadata"]["name"]]
    return found + [path for path in ("karmada-cluster", NAMESPACE) if api.get(f"/api/v1/namespaces/{path}") is not None]


def names_of(lab: MeshLab) -> list[str]:
    return sorted(member_name(TENANT, name) for name in lab.names)


@pytest.fixture
def no_members(module_lab: MeshLab, karmada: LabApi, hosts: Hosts) -> None:
    """No cluster is a member, and nothing of one is left in it, whatever another test did."""
    for name in module_lab.names:
        module_lab.api(name).delete(NOTES)
    if members(karmada):
        run = hosts.play(fleet(*module_lab.names), fleet_cluster_state="absent")
        assert (run.rc, members(karmada)) == (0, []), run.output
    for name in module_lab.names:
        module_lab.api(name).delete(f"/api/v1/namespaces/{NAMESPACE}")
        wait_for(partial(traces, module_lab, name), lambda found: not found, what="nothing of Karmada is left")


@pytest.fixture
def joined(module_lab: MeshLab, karmada: LabApi, hosts: Hosts) -> None:
    """Both clusters are members with tokens that are not due."""
    run = hosts.play(fleet(*module_lab.names))
    assert (run.rc, members(karmada), unready(karmada)) == (0, names_of(module_lab), []), run.output


@pytest.mark.usefixtures("no_members")
def test_two_clusters_join_as_check_mode_says_and_a_second_run_changes_nothing(module_lab: MeshLab, karmada: LabApi, hosts: Hosts) -> None:
    planned = hosts.play(fleet(*module_lab.names), "--check")
    assert members(karmada) == [] and [traces(module_lab, name) for name in module_lab.names] == [[], []]
    done = hosts.play(fleet(*module_lab.names), "--diff")
    assert done.rc == 0, done.output
    assert done.result["plan"] == planned.result["plan"]
    assert (members(karmada), unready(karmada)) == (names_of(module_lab), [])
    assert [row["phase"] for row in done.result["clusters"]] == ["Ready", "Ready"]
    assert [row["nodes"] for row in done.result["metrics"]] == [{"total": 1, "ready": 1}] * 2
    for row in done.result["metrics"]:
        assert all(row[name].keys() == {"allocatable", "requested", "pending"} for name in ("cpu", "memory", "pods")), row
    tokens = [base64.b64decode(secret["data"]["token"]).decode() for secret in karmada.list(SECRETS)]
    assert len(tokens) == 4 and not [token for token in tokens if token in done.output or token in str(done.mesh_result)]
    again = hosts.play(fleet(*module_lab.names))
    assert (again.rc, again.changed, again.result["plan"]["steps"]) == (0, 0, [])


@pytest.mark.usefixtures("no_members", "joined")
def test_new_tokens_come_while_karmada_goes_on(module_lab: MeshLab, karmada: LabApi, hosts: Hosts) -> None:
    before = {secret["metadata"]["name"]: secret["data"]["token"] for secret in karmada.list(SECRETS)}
    since = {cluster["metadata"]["name"]: ready_since(cluster) for cluster in karmada.list(CLUSTERS)}
    soon = {ISSUED_ANNOTATION: "2020-01-01T00:00:00Z", EXPIRES_ANNOTATION: "2020-12-31T00:00:00Z"}
    for name in members(karmada):
        karmada.patch(f"{CLUSTERS}/{name}", {"metadata": {"annotations": soon}})
    run = hosts.play(fleet(*module_lab.names))
    assert run.rc == 0, run.output
    after = {secret["metadata"]["name"]: secret["data"]["token"] for secret in karmada.list(SECRETS)}
    assert len(after) == 8 and not set(before.values()) & set(after.values())
    found = karmada.list(CLUSTERS)
    assert {cluster["spec"]["secretRef"]["name"] for cluster in found} == {f"{name}.2" for name in names_of(module_lab)}
    assert {cluster["metadata"]["name"]: ready_since(cluster) for cluster in found} == since  # never not ready
    assert hosts.play(fleet(*module_lab.names)).changed == 0


def ready_since(cluster: Mapping[str, Any]) -> str:
    return next(str(entry["lastTransitionTime"]) for entry in cluster["status"]["conditions"] if entry["type"] == "Ready")


@pytest.mark.usefixtures("joined")
def test_a_cluster_that_is_a_member_of_another_tenant_is_refused(module_lab: MeshLab, karmada: LabApi, hosts: Hosts) -> None:
    run = hosts.play({"workspace": "bank", "clusters": [{"name": "vault", "host": module_lab.names[0]}]})
    assert (run.rc, run.changed, run.finding_codes()) == (2, 0, ["CM-MEMBER-01"])
    assert members(karmada) == names_of(module_lab)


class Brief(MembersRun):
    """A run whose tokens live as briefly as an API server permits, and are renewed two seconds later."""

    rules = Rules(tokens=TokenRules(lifetime=600, renew_before=598))


def brief(hosts: Hosts, lab: MeshLab) -> Outcome:
    request = parse_members({"karmada": "karmada", **fleet(*lab.names)}, tuple(hosts.every))
    ports = real_ports()
    return run_members(Brief(request=request, options=MembersOptions(), who=hosts, ports=ports, now=ports.now()))


def ends(karmada: LabApi) -> dict[str, int]:
    """Second at which the token of each Secret ends, by the token itself."""
    found = {}
    for secret in karmada.list(SECRETS):
        claims = base64.b64decode(secret["data"]["token"]).split(b".")[1]
        found[secret["metadata"]["name"]] = int(json.loads(base64.urlsafe_b64decode(claims + b"=="))["exp"])
    return found


@pytest.mark.usefixtures("joined")
def test_tokens_of_ten_minutes_are_renewed_before_their_end_and_karmada_goes_on_with_the_new_ones(
    module_lab: MeshLab, karmada: LabApi, hosts: Hosts
) -> None:
    """The shortest that an API server issues. karmada-controller-manager has to restart until the earlier ones end (CM-MEMBER-13)."""
    for name in members(karmada):
        karmada.patch(f"{CLUSTERS}/{name}", {"metadata": {"annotations": {EXPIRES_ANNOTATION: None}}})
    assert brief(hosts, module_lab).changed
    first = ends(karmada)
    assert max(first.values()) - time.time() <= 601
    wait_for(lambda: time.time() > max(first.values()) - 598, what="the tokens are due")
    renewed = brief(hosts, module_lab)
    second = ends(karmada)
    assert renewed.changed and second.keys() >= first.keys() and min(second.values()) > max(first.values())
    assert "CM-MEMBER-13" in hosts.play(fleet(*module_lab.names), "--check").finding_codes()
    noted = {cluster["metadata"]["annotations"][EXPIRES_ANNOTATION] for cluster in karmada.list(CLUSTERS)}
    assert {datetime.fromisoformat(text).timestamp() for text in noted} <= set(second.values()), "what is noted is what the tokens say"
    lab = module_lab.lab
    lab.kill_karmada("controller-manager")
    wait_for(lambda: lab.status()["karmada"]["dead"], bool, what="it is dead")
    lab.revive_karmada("controller-manager")
    late = f"/api/v1/namespaces/{NAMESPACE}/configmaps/late"
    karmada.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": NAMESPACE}, "data": {}})
    place(karmada, "ConfigMap", "late", {"clusterNames": members(karmada)})
    for name in module_lab.names:
        wait_for(partial(module_lab.api(name).get, late), what="Karmada writes with the new tokens")
    karmada.delete(late)
    for name in module_lab.names:
        wait_for(partial(module_lab.api(name).get, late), lambda found: found is None, what="and deletes with them")


@pytest.mark.usefixtures("joined")
def test_clusters_leave_when_no_workload_is_there_and_only_what_local_users_put_beside_stays(
    module_lab: MeshLab, karmada: LabApi, hosts: Hosts
) -> None:
    """One of them is dead: its Cluster goes when it is given up, and it is cleaned when it is back. Karmada takes 20 s for any number."""
    first, second = module_lab.names
    api, dead = module_lab.api(first), member_name(TENANT, second)
    both, gone = fleet(first, second), {"fleet_cluster_state": "absent"}
    conf = f"/api/v1/namespaces/{NAMESPACE}/configmaps/conf"
    karmada.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf", "namespace": NAMESPACE}, "data": {"key": "value"}}
    )
    place(karmada, "ConfigMap", "conf", {"clusterNames": [member_name(TENANT, first)]})
    wait_for(lambda: api.get(conf), what="the ConfigMap is in the first cluster")
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": NAMESPACE}, "data": {}})
    # A port at which nothing listens: a server that is frozen keeps Karmada for half a minute.
    karmada.patch(f"{CLUSTERS}/{dead}", {"spec": {"apiEndpoint": "https://127.0.0.1:1"}})
    wait_for(lambda: unready(karmada), lambda names: names == [dead], what="Karmada knows that the member is dead")

    early = hosts.play(both, silent=second, **gone)
    assert (early.rc, early.finding_codes()) == (2, ["CM-MEMBER-06", "CM-MEMBER-09"])
    assert members(karmada) == names_of(module_lab)

    karmada.delete(f"/api/v1/namespaces/{NAMESPACE}/configmaps/conf")
    wait_for(lambda: api.get(conf) is None, what="the ConfigMap is gone from the first cluster")
    left = hosts.play(both, silent=second, fleet_cluster_abandon=[second], **gone)
    assert (left.rc, sorted(left.finding_codes())) == (0, ["CM-MEMBER-10", "CM-MEMBER-12"]), left.output
    assert (members(karmada), secret_names(karmada)) == ([], [])
    assert api.get(NOTES) is not None
    wait_for(lambda: traces(module_lab, first), lambda found: found == [NAMESPACE], what="nothing of Karmada is in the first cluster")

    assert traces(module_lab, second)
    again = hosts.play(fleet(second))
    assert (again.rc, [row["phase"] for row in again.result["clusters"]]) == (0, ["Ready"]), again.output
    assert karmada.get(f"/api/v1/namespaces/karmada-cluster/configmaps/tombstone-{dead}") is None
    back = hosts.play(fleet(second), **gone)
    assert (back.rc, back.finding_codes()) == (0, []), back.output
    wait_for(lambda: traces(module_lab, second), lambda found: not found, what="nothing of Karmada is in the second cluster")
    assert karmada.get(f"/api/v1/namespaces/karmada-cluster/configmaps/tombstone-{dead}") is None
    assert hosts.play(both, **gone).changed == 0


@pytest.mark.usefixtures("no_members", "joined")
def test_a_cluster_in_which_finalizers_hold_something_has_not_left_until_they_are_gone(
    module_lab: MeshLab, karmada: LabApi, hosts: Hosts
) -> None:
    """Finalizers of a local user. Karmada's own 20 s are a part of the time of the first run."""
    first, gone = module_lab.names[0], {"fleet_cluster_state": "absent"}
    api, member = module_lab.api(first), member_name(TENANT, first)
    role, namespace = f"{TRACES[1]}/karmada-controller-manager:karmada-{member}", f"/api/v1/namespaces/{NAMESPACE}"
    stone = f"/api/v1/namespaces/karmada-cluster/configmaps/tombstone-{member}"
    wait_for(partial(api.get, namespace), what="the tenant's namespace is in the cluster")
    for path in (role, namespace):
        api.patch(path, {"metadata": {"finalizers": ["example.com/local"]}})

    held = hosts.play(fleet(first), fleet_cluster_wait_timeout=45, **gone)
    assert (held.rc, held.finding_codes(), [row["phase"] for row in held.result["clusters"]]) == (2, ["CM-MEMBER-14"], ["Deleting"])
    (found,) = held.result["findings"]
    assert f"Namespace {NAMESPACE} and ClusterRoleBinding {role.rpartition('/')[2]} of {first} are still there" in found["summary"]
    assert found["evidence"].count('finalizers "example.com/local"') == 2, found["evidence"]
    assert member not in members(karmada) and karmada.get(stone) is not None

    again = hosts.play(fleet(first), fleet_cluster_wait_timeout=1, **gone)
    assert (again.rc, again.changed, again.finding_codes()) == (2, 0, ["CM-MEMBER-14"]), again.output
    for path in (role, namespace):
        api.patch(path, {"metadata": {"finalizers": None}})
    last = hosts.play(fleet(first), **gone)
    assert (last.rc, last.finding_codes(), karmada.get(stone)) == (0, [], None), last.output
    assert not {NAMESPACE, "karmada-cluster", role.rpartition("/")[2]} & set(traces(module_lab, first))
    final = hosts.play(fleet(first), **gone)
    assert (final.rc, final.changed, final.result["clusters"]) == (0, 0, [])


def secret_names(karmada: LabApi) -> list[str]:
    return [secret["metadata"]["name"] for secret in karmada.list(SECRETS)]
