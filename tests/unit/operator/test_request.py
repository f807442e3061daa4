# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""From custom resources to what a play is given: what waits, what goes on, what is taken away, and what never reaches a play."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import GlobalService
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.parse import parse
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline.participants import participating_members
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import Play, mesh_of
from mesh_operator.base.choices import TENANT_CHOICES, PlatformChoices
from mesh_operator.base.keys import CLUSTER_ANNOTATION, MeshKey, ObjectKey
from mesh_operator.base.kinds import BINDING, EXPOSURE, INTENT, ITEMS, SERVICE
from mesh_operator.credentials.management_plane import NotUsable, Usable
from mesh_operator.meshes.records import Record
from mesh_operator.meshes.request import MeshRequest, NoOp, Wait, request_of
from mesh_operator.source.stored import MeshObjects, Stored

KEY = MeshKey("2k5m8k3p1q7z", "default", "edge-mesh-eu")
CANARY = "c4n4ry-of-a-tenant"
GOING = "2026-09-01T12:00:00Z"
Clusters = dict[str, Usable | NotUsable]


def stored(kind: str, name: str, spec: dict[str, Any], *, missing: float | None = None, status: Any = None, **metadata: Any) -> Stored:
    annotations = {CLUSTER_ANNOTATION: KEY.workspace, "note": CANARY}
    given = {"name": name, "namespace": KEY.namespace, "annotations": annotations, "labels": {"note": CANARY}, "generation": 3, **metadata}
    obj = {"metadata": given, "spec": spec, **({"status": status} if status is not None else {})}
    return Stored(ObjectKey(kind, KEY.workspace, KEY.namespace, name), obj, "https://kcp/services/x", missing)


def binding(*clusters: str, **more: Any) -> Stored:
    config = {"meshConfig": {"serviceType": "NodePort"}}
    return stored(BINDING, KEY.name, {"clusterRefs": [{"name": name} for name in clusters or ("ffm", "ber")], **config}, **more)


def service(name: str = "nginx", mesh: str = KEY.name, **more: Any) -> Stored:
    return stored(SERVICE, name, {"meshRef": {"name": mesh}, "selector": {"namespace": "production", "name": "nginx"}}, **more)


def mesh(found: Stored | None, *items: Stored) -> MeshObjects:
    kinds = [row.kind for row in ITEMS]
    by_kind = {kind: tuple(item for item in items if item.key.kind == kind) for kind in kinds}
    return MeshObjects(key=KEY, listed=True, binding=found, items=by_kind)


def usable(*names: str, token: str = "t") -> Clusters:
    return {name: Usable(name=name, kubeconfig={"users": [{"name": name, "user": {"token": token}}]}) for name in names}


def waiting(name: str, *, fatal: bool = False) -> Clusters:
    reason = "CiliumNotReady" if fatal else "ClusterNotReady"
    return {name: NotUsable(name=name, reason=reason, message=f"Not ready: {reason}.", fatal=fatal)}


def recorded(*clusters: str, tombstone: bool = False) -> Record:
    return Record(key=KEY, uid="u", clusters=clusters or ("ffm", "ber"), tombstone=tombstone)


def asked_for(objects: MeshObjects, clusters: Clusters | None = None, record: Record | None = None) -> MeshRequest:
    found = request_of(objects, usable("ffm", "ber") if clusters is None else clusters, record)
    assert isinstance(found, MeshRequest)
    return found


def held(objects: MeshObjects, clusters: Clusters, record: Record | None = None) -> Wait:
    found = request_of(objects, clusters, record)
    assert isinstance(found, Wait)
    return found


# Without Jobs


def test_where_jobs_are_off_no_intent_asks_a_play_for_one() -> None:
    probe = {"enabled": True, "method": "job", "image": "evil", "command": ["sh"], "intervalSeconds": 60}
    spec = {"meshRef": {"name": KEY.name}, "action": "Allow"}
    objects = mesh(binding(), stored(INTENT, "a", {**spec, "probe": probe}), stored(INTENT, "b", spec), service())
    with_jobs = request_of(objects, usable("ffm", "ber"), None)
    without = request_of(objects, usable("ffm", "ber"), None, PlatformChoices(job_probes=False))
    assert isinstance(with_jobs, MeshRequest) and isinstance(without, MeshRequest)
    changed = {"enabled": True, "method": "hubble", "intervalSeconds": 60}
    listed = next(
        key for key, rows in with_jobs.cilium_mesh.items() if any(row.get("probe") == probe for row in rows if isinstance(row, dict))
    )
    assert [row.get("probe") for row in without.cilium_mesh[listed]] == [changed, None]
    assert {key: rows for key, rows in without.cilium_mesh.items() if key != listed} == {
        key: rows for key, rows in with_jobs.cilium_mesh.items() if key != listed
    }


# Without a binding


def test_where_there_is_nothing_there_is_nothing_to_do() -> None:
    assert request_of(mesh(None), {}, None) is None
    assert request_of(mesh(None), {}, recorded()) is None  # orphans.py


def test_an_item_that_names_a_binding_which_does_not_exist_is_reported_so() -> None:
    for record in (None, recorded()):
        found = held(mesh(None, service()), {}, record)
        assert (found.phase, found.reason, found.standing) == ("Error", "MeshNotFound", False)
        assert found.message == "ClusterMeshBinding edge-mesh-eu does not exist in this namespace"


def test_a_binding_that_is_not_seen_just_now_is_neither_carried_out_nor_taken_away() -> None:
    assert request_of(mesh(binding(missing=1.0), service()), usable("ffm", "ber"), recorded()) is None


# A mesh that was never carried out


def test_a_new_mesh_waits_for_its_clusters_and_says_for_which() -> None:
    found = held(mesh(binding(), service()), {**usable("ber"), **waiting("ffm")})
    assert (found.phase, found.reason, found.standing) == ("Pending", "ClusterNotReady", False)
    assert found.message == "ffm: Not ready: ClusterNotReady."


def test_a_cluster_that_waiting_does_not_cure_is_an_error() -> None:
    found = held(mesh(binding()), {**waiting("ffm"), **waiting("ber", fatal=True)})
    assert (found.phase, found.reason) == ("Error", "CiliumNotReady")
    assert found.message == "ffm: Not ready: ClusterNotReady. ber: Not ready: CiliumNotReady."


def test_a_cluster_ref_without_a_kubernetes_cluster_is_reported() -> None:
    found = held(mesh(binding()), usable("ffm"))
    assert (found.phase, found.reason) == ("Pending", "ClusterNotFound")
    assert found.message == "ber: There is no KubernetesCluster of this name in the namespace."


def test_what_a_deleted_mesh_left_behind_makes_a_new_one_of_its_name_no_old_one() -> None:
    assert not held(mesh(binding()), {**usable("ffm"), **waiting("ber")}, recorded("zrh", tombstone=True)).standing


# What a play is given


def test_a_play_is_given_names_generations_and_specs_and_nothing_else_of_the_objects() -> None:
    found = asked_for(mesh(binding(), service(labels={CANARY: CANARY})))
    assert found.cilium_mesh == {
        "binding": {
            "name": "edge-mesh-eu",
            "workspace": "2k5m8k3p1q7z",
            "namespace": "default",
            "generation": 3,
            "clusterRefs": [{"name": "ffm"}, {"name": "ber"}],
            "meshConfig": {"serviceType": "NodePort"},
        },
        "globalServices": [{"name": "nginx", "generation": 3, "selector": {"namespace": "production", "name": "nginx"}}],
        **{kind.value: [] for kind in ItemKind if kind is not ItemKind.GLOBAL_SERVICE},
    }
    assert CANARY not in json.dumps([found.variables, found.hosts])
    assert found.variables["cilium_mesh"] is found.cilium_mesh and not found.absent


def test_who_asked_for_a_hostname_first_is_what_the_server_says() -> None:
    spec = {"meshRef": {"name": KEY.name}, "service": {"namespace": "production", "name": "nginx"}, "createdAt": "1999-01-01T00:00:00Z"}
    made = stored(EXPOSURE, "shop", spec, creationTimestamp=GOING)
    assert asked_for(mesh(binding(), made)).cilium_mesh["exposedServices"][0]["createdAt"] == GOING


def test_the_engine_understands_what_a_play_is_given() -> None:
    found = asked_for(mesh(binding(), service()))
    read = parse(found.cilium_mesh, tuple(found.hosts))
    assert (read.binding.generation, read.binding.owner) == (3, found.owner)
    desired = desired_of(found.cilium_mesh, read)
    assert [item.generation for item in desired.each(GlobalService)] == [3] and not desired.refused
    assert desired.kinds == frozenset(ItemKind)  # of every kind it is known what there is


def test_hosts_have_their_credentials_and_no_repr_shows_them() -> None:
    clusters: Clusters = {
        **usable("ffm", token=CANARY),
        "ber": Usable(name="ber", kubeconfig={}, variables={"cilium_mesh_elb_id": "41fae315"}),
    }
    found = asked_for(mesh(binding()), clusters)
    assert found.hosts == {
        "ffm": {"cilium_mesh_kubeconfig": {"users": [{"name": "ffm", "user": {"token": CANARY}}]}},
        "ber": {"cilium_mesh_kubeconfig": {}, "cilium_mesh_elb_id": "41fae315"},
    }
    assert CANARY not in repr(found)


# Choices of the platform and of tenants


def test_a_play_gets_the_choices_of_the_platform() -> None:
    chosen = PlatformChoices(probe_image="registry.example.com/probe:1", assign_identities=True)
    found, without = (request_of(mesh(binding()), usable("ffm", "ber"), None, entry) for entry in (chosen, PlatformChoices()))
    assert isinstance(found, MeshRequest) and isinstance(without, MeshRequest)
    more = {"cilium_mesh_probe_image": "registry.example.com/probe:1", "cilium_mesh_assign_identities": True}
    assert found.variables == {**without.variables, **more}


WAIVED = {"reason": "a", "until": "2027-01-31T00:00:00Z"}
CHOICES: dict[str, Any] = {
    "accept": [{"code": "CM-CIDR-02", **WAIVED}, {"code": "CM-VER-01", **WAIVED}],
    "adopt": WAIVED,
    "nodeAddresses": "ExternalIP",
    "repair": WAIVED,
    "takeBack": [{"cluster": "ber", **WAIVED}],
    "trust": "Minted",
}


def choosing(**choices: Any) -> Stored:
    return stored(BINDING, KEY.name, {"clusterRefs": [{"name": "ffm"}, {"name": "ber"}], **choices})


@given(st.sets(st.sampled_from(sorted(CHOICES))), st.sets(st.sampled_from([*TENANT_CHOICES, "accept=CM-CIDR-02"])))
def test_a_tenant_has_the_choices_that_the_platform_permits_and_no_other(chosen: set[str], permitted: set[str]) -> None:
    found = request_of(
        mesh(choosing(**{name: CHOICES[name] for name in chosen})), usable("ffm", "ber"), None, PlatformChoices(permitted=tuple(permitted))
    )
    wanted = {"accept=CM-CIDR-02", "accept=CM-VER-01"} if "accept" in chosen else set()
    refused = {name for name in (chosen - {"accept"}) | wanted if name not in permitted and name.partition("=")[0] not in permitted}
    if refused:
        assert isinstance(found, Wait)
        assert (found.phase, found.reason) == ("Error", "NotPermitted")
        assert all(name in found.message for name in refused)
    else:
        assert isinstance(found, MeshRequest)
        assert {key: value for key, value in found.cilium_mesh["binding"].items() if key in CHOICES} == {n: CHOICES[n] for n in chosen}


def test_adopting_is_the_platform_s_choice_unless_it_permits_it() -> None:
    assert held(mesh(choosing(adopt=WAIVED)), usable("ffm", "ber")).reason == "NotPermitted"
    assert isinstance(request_of(mesh(choosing(adopt={})), usable("ffm", "ber"), None), MeshRequest)


def test_a_play_continues_the_statuses_of_the_resources() -> None:
    found = asked_for(mesh(binding(status={"phase": "Connected"}), service(status={"phase": "Exported"}), service("new")))
    assert found.variables["cilium_mesh_previous_status"] == {
        "binding": {"phase": "Connected"},
        "globalServices": [{"name": "nginx", "phase": "Exported"}, {"name": "new"}],
        **{kind.value: [] for kind in ItemKind if kind is not ItemKind.GLOBAL_SERVICE},
    }


def test_what_links_depend_on_has_one_digest_whatever_items_and_statuses_say() -> None:
    first = asked_for(mesh(binding(), service()))
    for same in (asked_for(mesh(binding(status={"phase": "Error"}), service("other"))), asked_for(mesh(binding()))):
        assert same.linked == first.linked
    others = [
        asked_for(mesh(binding(generation=4), service())),
        asked_for(mesh(binding(), service()), usable("ffm", "ber", token="renewed")),
        asked_for(mesh(binding(), service()), {**usable("ffm"), **waiting("ber")}, recorded()),
        asked_for(mesh(binding(), service()), {**usable("ffm", "ber"), **usable("left")}, recorded("ffm", "ber", "left")),
    ]
    assert len({first.linked, *(other.linked for other in others)}) == 5


def test_the_name_of_a_run_has_no_text_of_a_tenant() -> None:
    found = asked_for(mesh(binding()))
    assert found.owner == Binding(name=KEY.name, cluster_refs=(), workspace=KEY.workspace, namespace=KEY.namespace).owner
    assert KEY.name not in found.owner


# A mesh that stands


def test_a_mesh_goes_on_with_the_clusters_that_are_usable() -> None:
    found = asked_for(mesh(binding(), service()), {**usable("ffm"), **waiting("ber")}, recorded())
    assert found.hosts["ber"] == {"cilium_mesh_unavailable": "Not ready: ClusterNotReady."}
    assert list(found.unavailable) == ["ber"]
    assert "mesh_connect_max_failures" not in found.variables  # it is a member already, and may be down


def test_a_new_member_that_is_not_ready_yet_does_not_stop_the_others() -> None:
    clusters = {**usable("ffm"), **waiting("ber"), **waiting("zrh")}
    found = asked_for(mesh(binding("ffm", "ber", "zrh")), clusters, recorded())
    assert found.variables["mesh_connect_max_failures"] == 2


def test_a_mesh_of_which_no_cluster_is_usable_is_held_and_still_stands() -> None:
    found = held(mesh(binding()), {**waiting("ffm"), **waiting("ber")}, recorded())
    assert (found.phase, found.reason, found.standing) == ("Pending", "ClusterNotReady", True)


def test_a_cluster_that_left_is_cleaned_by_the_play_that_goes_on() -> None:
    found = asked_for(mesh(binding()), usable("ffm", "ber", "zrh"), recorded("ffm", "ber", "zrh", "gone"))
    assert found.variables["cilium_mesh_former"] == ["zrh", "gone"]
    assert "cilium_mesh_kubeconfig" in found.hosts["zrh"]
    assert all(variables.keys() & {"cilium_mesh_kubeconfig", "cilium_mesh_unavailable"} for variables in found.hosts.values())
    assert found.hosts["gone"] == {"cilium_mesh_unavailable": "There is no KubernetesCluster of this name in the namespace."}
    assert parse(found.cilium_mesh, tuple(found.hosts)).clusters == ("ffm", "ber")


# What goes


def test_a_deleted_item_is_left_out_of_its_list_and_leaves() -> None:
    found = asked_for(mesh(binding(), service(deletionTimestamp=GOING), service("stays")), record=recorded())
    assert [entry["name"] for entry in found.cilium_mesh["globalServices"]] == ["stays"]
    assert [item.key.name for item in found.leaving] == ["nginx"]
    assert [item.key.name for item in found.items] == ["stays"]


def test_an_item_that_names_another_mesh_now_leaves_this_one() -> None:
    found = asked_for(mesh(binding(), service(mesh="other")), record=recorded())
    assert found.cilium_mesh["globalServices"] == [] and len(found.leaving) == 1


def test_an_item_that_is_not_seen_just_now_stays_as_it_was() -> None:
    found = asked_for(mesh(binding(), service(missing=1.0)), record=recorded())
    assert len(found.cilium_mesh["globalServices"]) == len(found.items) == 1


def test_an_item_that_is_gone_for_good_is_waited_for_no_more() -> None:
    found = asked_for(mesh(binding(), service(missing=1.0, deletionTimestamp=GOING)), record=recorded())
    assert found.cilium_mesh["globalServices"] == [] and not found.leaving and not found.items


def test_deleting_a_binding_takes_everything_away_where_it_was_carried_out() -> None:
    clusters = {**usable("ffm"), **waiting("ber"), **waiting("new")}
    going = mesh(binding("ffm", "new", deletionTimestamp=GOING), service(), service("other", deletionTimestamp=GOING))
    found = asked_for(going, clusters, recorded("ffm", "ber"))
    assert found.absent and found.variables["cilium_mesh_state"] == "absent"
    assert list(found.hosts) == ["ffm", "ber"]  # nothing was made in the new one, so no run waits for it
    assert list(found.unavailable) == ["ber"]
    assert [item.key.name for item in found.leaving] == ["edge-mesh-eu", "nginx", "other"] and not found.items
    assert parse(found.cilium_mesh, tuple(found.hosts)).clusters == ("ffm", "ber")


def test_a_binding_that_was_never_carried_out_may_go_at_once() -> None:
    going = mesh(binding(deletionTimestamp=GOING), service())
    assert request_of(going, {**usable("ffm"), **waiting("ber")}, None) == NoOp()
    assert request_of(going, {}, replace(recorded(), clusters=())) == NoOp()


def test_the_last_cluster_of_a_mesh_can_be_cleaned_alone() -> None:
    found = asked_for(mesh(binding("ffm", deletionTimestamp=GOING)), usable("ffm"), recorded("ffm"))
    play = Play(hosts=tuple(found.hosts), inventory=tuple(found.hosts), limit="", hostvars=found.hosts)
    read = mesh_of(play, found.cilium_mesh, limited=True, leaving=True)
    assert (list(found.hosts), participating_members(play, read), dict(found.unavailable)) == (["ffm"], ("ffm",), {})


@pytest.mark.parametrize("name", ["{{ 1 }}", "!unsafe x", "name", "__ansible_unsafe"])
def test_text_of_a_tenant_is_handed_on_as_it_is(name: str) -> None:
    spec = {"meshRef": {"name": KEY.name}, "selector": {"labelSelector": {name: name}}, "generation": name, "name": name}
    entry = asked_for(mesh(binding(), stored(SERVICE, "nginx", spec))).cilium_mesh["globalServices"][0]
    assert entry == {"name": "nginx", "generation": 3, "selector": {"labelSelector": {name: name}}}
