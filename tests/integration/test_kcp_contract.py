# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the operator relies on in kcp: the same facts on the double and, where there is one, on a real kcp."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
import yaml

from mesh_operator.base.api import Connections
from mesh_operator.base.keys import ObjectKey
from mesh_operator.base.kinds import BINDING
from mesh_operator.crds import FLEET as PROFILE
from mesh_operator.crds import crds
from mesh_operator.manifests import kcp_manifests
from mesh_operator.source.events import EventRecorder
from mesh_operator.source.stored import Stored
from tests.integration.kcp_samples import (
    BINDINGS,
    CLUSTERS,
    INSIDE,
    PATH_OF_BINDING,
    WIDGETS,
    cluster_object,
    fleet_object,
    holding,
    mesh,
    widget_export,
)
from tests.lab.tools import ToolUnavailable
from tests.testing.kcp_client import JSON_PATCH, MERGE, Client, Object
from tests.testing.kcp_world import ACCOUNT, BACKENDS, EXPORT, FLEET, Tenant, World, apply, eventually, open_world

FLEET_KINDS = {crd["spec"]["names"]["kind"]: crd["spec"]["names"]["plural"] for crd in crds(PROFILE)}
ANSWERS = ("FleetWorkloadRevision", "ClusterMetrics")
STRATEGIC = "application/strategic-merge-patch+json"
EVENTS = "/api/v1/namespaces/default/events"
FINALIZER = "networking.edge-portal.eu/clustermeshbinding-cleanup"


@dataclass(frozen=True)
class Scene:
    """Two tenants with objects of equal names."""

    world: World
    shop: Tenant
    bank: Tenant

    @property
    def all(self) -> Client:
        return self.world.virtual("*")

    def of(self, tenant: Tenant) -> Client:
        return self.world.virtual(tenant.cluster)


@pytest.fixture(scope="module", params=BACKENDS)
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    try:
        # Without a claim on events no right to create is needed, and none is given.
        with open_world(request.param, events=False) as world:
            assert world.urls() == [], "no workspace has bound the export yet"
            shop, bank = world.tenant("shop"), world.tenant("bank")
            for tenant in (shop, bank):
                tenant.client.create(mesh("edge"))
                tenant.client.create(cluster_object("ffm"))
            yield Scene(world, shop, bank)
    except ToolUnavailable as error:
        pytest.skip(f"no {request.param}: {error}")


@pytest.fixture
def events_claimed(scene: Scene) -> Iterator[None]:
    """The export claims Events, for which the operator needs the right to create; afterwards it has neither."""
    scene.world.install(events=True)
    yield
    scene.world.install(events=False)
    eventually(lambda: scene.all.call("GET", "/api/v1").status == 404, "Events are not served any more")
    eventually(lambda: scene.of(scene.shop).call("POST", INSIDE, {}).status == 403, "the operator may not create any more")


def test_an_endpoint_is_published_only_while_a_workspace_binds(scene: Scene) -> None:
    world, name = scene.world, "widgets"
    apply(world.provider, widget_export(name, ACCOUNT))
    path = f"/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/{name}"
    slice_ = eventually(lambda: _with_conditions(world.provider, path), "the slice is made")
    assert {one["type"]: one["status"] for one in slice_["status"]["conditions"]} == {"APIExportValid": "True", "PartitionValid": "True"}
    assert "endpoints" not in slice_["status"]

    world.bind(scene.shop, [_binding_to(name)])
    url = world.wait_urls(1, name)[0]
    assert url.endswith(f"/{name}") and "/services/apiexport/" in url and "root:" not in url
    everywhere = world.virtual("*", url=url)
    assert eventually(lambda: everywhere.call("GET", WIDGETS).status == 200, "the resource is served")

    world.unbind(scene.shop, name)
    assert world.wait_urls(0, name) == []
    gone = eventually(lambda: _if_status(everywhere, WIDGETS, 404), "the resource is served no more")
    assert gone["reason"] == "NotFound"
    assert gone["details"]["causes"][0]["reason"] == "UnexpectedServerResponse"


def test_the_operator_sees_every_tenant_and_whose_each_object_is(scene: Scene) -> None:
    found = {(one["metadata"]["annotations"]["kcp.io/cluster"], one["metadata"]["name"]) for one in scene.all.list(BINDINGS)}
    assert found >= {(scene.shop.cluster, "edge"), (scene.bank.cluster, "edge")}
    one_by_one = scene.all.list(BINDINGS, limit=1)
    assert {(one["metadata"]["annotations"]["kcp.io/cluster"], one["metadata"]["name"]) for one in one_by_one} == found
    mine = scene.of(scene.shop).list(BINDINGS)
    assert {one["metadata"]["annotations"]["kcp.io/cluster"] for one in mine} == {scene.shop.cluster}


def test_the_cluster_annotation_cannot_be_forged(scene: Scene) -> None:
    forged = mesh("forged")
    forged["metadata"]["annotations"] = {"kcp.io/cluster": scene.bank.cluster}
    made = scene.shop.client.create(forged)
    assert made["metadata"]["annotations"]["kcp.io/cluster"] == scene.shop.cluster
    scene.shop.client.merge(f"{INSIDE}/forged", {"metadata": {"annotations": {"kcp.io/cluster": scene.bank.cluster}}})
    scene.shop.client.call("PATCH", f"{INSIDE}/forged", {"metadata": {"annotations": None}}, media=MERGE)
    seen = [one for one in scene.all.list(BINDINGS) if one["metadata"]["name"] == "forged"]
    assert [one["metadata"]["annotations"]["kcp.io/cluster"] for one in seen] == [scene.shop.cluster]
    assert scene.of(scene.bank).get(f"{INSIDE}/forged") is None
    scene.shop.client.delete(f"{INSIDE}/forged")


def test_a_tenant_can_enter_only_its_own_workspace(scene: Scene) -> None:
    for place in (scene.bank.path, scene.bank.cluster):
        base = scene.shop.client.base.rpartition("/")[0]
        assert scene.shop.client.at(f"{base}/{place}").call("GET", INSIDE).status == 403
    url = scene.world.wait_urls()[0]
    for cluster in ("*", scene.shop.cluster, scene.bank.cluster):
        assert scene.world.virtual(cluster, user=scene.shop.client, url=url).call("GET", BINDINGS).status == 403


def test_a_tenant_writes_the_spec_and_only_the_operator_the_status(scene: Scene) -> None:
    spec = {"spec": {"clusterRefs": [{"name": "ffm"}, {"name": "ham"}]}}
    assert scene.shop.client.call("PATCH", f"{INSIDE}/edge", spec, media=MERGE).status == 200
    status = {"status": {"phase": "Pending"}}
    assert scene.shop.client.call("PATCH", f"{INSIDE}/edge/status", status, media=MERGE).status == 403
    written = scene.of(scene.shop).merge(f"{INSIDE}/edge/status", status)
    assert written["status"]["phase"] == "Pending"
    assert (scene.shop.client.get(f"{INSIDE}/edge") or {})["status"]["phase"] == "Pending"
    inline = scene.of(scene.shop).merge(f"{INSIDE}/edge", {"status": {"phase": "Connected"}})
    assert inline["status"]["phase"] == "Pending", "a status is written through its subresource only"


def test_the_operator_creates_and_deletes_nothing_in_a_tenant(scene: Scene) -> None:
    inside = scene.of(scene.shop)
    assert inside.call("POST", INSIDE, mesh("made")).status == 403
    assert inside.call("DELETE", f"{INSIDE}/edge").status == 403
    base = scene.shop.client.base
    direct = scene.world.operator().at(base).call("GET", INSIDE)
    assert direct.status in (401, 403, 404), "it reaches tenants through the virtual workspace alone"


def test_claimed_clusters_are_read_and_not_written(scene: Scene) -> None:
    owners = {one["metadata"]["annotations"]["kcp.io/cluster"] for one in scene.all.list(CLUSTERS)}
    assert owners == {scene.shop.cluster, scene.bank.cluster}
    inside, path = scene.of(scene.shop), CLUSTERS.replace("kubernetesclusters", "namespaces/default/kubernetesclusters/ffm")
    assert (inside.get(path) or {})["metadata"]["name"] == "ffm"
    assert inside.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, media=MERGE).status == 403


def test_a_tenant_of_a_fleet_writes_its_kinds_and_the_operator_the_answers(scene: Scene) -> None:
    world, tenant = scene.world, scene.world.tenant("fleeting", bind=False)
    world.bind(tenant, kcp_manifests(world.fleet_values, ("binding",), events=False, profile=PROFILE))
    home = "/apis/platform.edge-portal.eu/v1alpha1/namespaces/default"
    for kind, plural in FLEET_KINDS.items():
        made = tenant.client.call("POST", f"{home}/{plural}", fleet_object(kind))
        assert made.status == (403 if kind in ANSWERS else 201), (kind, made.text)
    for plural in ("kubernetesclusters", "fleets", "placementpolicies", "fleetworkloads"):
        refused = tenant.client.call("PATCH", f"{home}/{plural}/x/status", {"status": {"phase": "Error"}}, media=MERGE)
        assert refused.status == 403, plural
    assert tenant.client.call("GET", f"{home}/fleetworkloadrevisions").status == 200
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ffm", "namespace": "default"}, "stringData": {"kubeconfig": "x"}}
    tenant.client.create(token)

    workspace = world.fleet_values["provider_path"]
    url = eventually(lambda: world.urls(FLEET, workspace=workspace), "the slice has a URL")[0]
    inside = world.virtual(tenant.cluster, user=world.account(ACCOUNT, workspace=workspace), url=url)
    for kind in ANSWERS:
        assert inside.call("POST", f"{home}/{FLEET_KINDS[kind]}", fleet_object(kind)).status == 201, kind
    written = inside.merge(f"{home}/fleetworkloads/x/status", {"status": {"phase": "Available"}})
    assert written["status"]["phase"] == "Available"
    assert inside.call("PATCH", f"{home}/clustermetrics/x/status", {"status": {"memberReady": True}}, media=MERGE).status == 200
    assert inside.get("/api/v1/namespaces/default/secrets/ffm") is not None, "the claim is accepted"
    assert inside.call("DELETE", "/api/v1/namespaces/default/secrets/ffm").status == 403, "a claim to read"

    path = f"{home}/fleetworkloadrevisions/x-r1"
    assert tenant.client.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, media=MERGE).status == 403
    assert tenant.client.call("DELETE", path).status == 403
    inside.delete(path)
    assert tenant.client.get(path) is None


def test_bindings_are_always_there_with_paths_and_read_only(scene: Scene) -> None:
    paths = {one["metadata"]["annotations"]["kcp.io/path"] for one in scene.all.list("/apis/apis.kcp.io/v1alpha2/apibindings")}
    assert paths >= {scene.shop.path, scene.bank.path}
    assert len(scene.all.list("/apis/apis.kcp.io/v1alpha1/apibindings")) >= 2
    body = {"metadata": {"labels": {"a": "b"}}}
    assert scene.of(scene.shop).call("PATCH", f"{PATH_OF_BINDING}/{EXPORT}", body, media=MERGE).status == 403


def test_a_workspace_path_is_no_cluster_name_in_the_virtual_workspace(scene: Scene) -> None:
    answer = scene.world.virtual(scene.shop.path).call("GET", BINDINGS)
    assert answer.status == 403 and "Path not resolved to a valid virtual workspace" in answer.text


def test_what_is_not_served_is_a_404_in_plain_text(scene: Scene) -> None:
    for client, path in (
        (scene.of(scene.shop), "/api/v1"),
        (scene.all, "/api/v1"),
        (scene.all, "/apis/networking.edge-portal.eu/v1alpha1/gadgets"),
    ):
        answer = client.call("GET", path)
        assert (answer.status, answer.text.strip()) == (404, "404 page not found"), path
        assert answer.content_type.startswith("text/plain")


def test_a_list_of_all_tenants_takes_no_namespace(scene: Scene) -> None:
    assert scene.all.call("GET", INSIDE).status == 400


def test_discovery_reports_what_the_export_has(scene: Scene) -> None:
    for client in (scene.all, scene.of(scene.shop)):
        groups = {group["name"] for group in client.call("GET", "/apis").json["groups"]}
        assert groups >= {"networking.edge-portal.eu", "platform.edge-portal.eu", "apis.kcp.io"}
        assert client.call("GET", "/api").json["versions"] == ["v1"]
        found = {one["name"] for one in client.call("GET", "/apis/networking.edge-portal.eu/v1alpha1").json["resources"]}
        assert found >= {"clustermeshbindings", "clustermeshbindings/status", "globalservices", "fabrics"}


def test_a_stale_version_conflicts_and_a_failed_test_is_invalid(scene: Scene) -> None:
    inside = scene.of(scene.bank)
    known = (inside.get(f"{INSIDE}/edge") or {})["metadata"]
    inside.merge(f"{INSIDE}/edge/status", {"metadata": {"resourceVersion": known["resourceVersion"]}, "status": {"phase": "Pending"}})
    stale = {"metadata": {"resourceVersion": known["resourceVersion"]}, "status": {"phase": "Degraded"}}
    assert inside.call("PATCH", f"{INSIDE}/edge/status", stale, media=MERGE).status == 409
    test = [{"op": "test", "path": "/metadata/uid", "value": "of an earlier one"}, {"op": "add", "path": "/metadata/labels", "value": {}}]
    assert inside.call("PATCH", f"{INSIDE}/edge", test, media=JSON_PATCH).status == 422
    assert inside.call("PATCH", f"{INSIDE}/edge", {"metadata": {}}, media=STRATEGIC).status == 415
    assert inside.call("PATCH", f"{INSIDE}/absent", {"metadata": {}}, media=MERGE).status == 404


def test_the_schema_is_enforced(scene: Scene) -> None:
    wrong = mesh("wrong")
    wrong["spec"]["clusterRefs"] = "all"
    answer = scene.shop.client.call("POST", INSIDE, wrong)
    assert answer.status == 422 and answer.reason == "Invalid"


def test_a_watch_brings_changes_of_all_tenants(scene: Scene) -> None:
    version = scene.all.call("GET", BINDINGS).json["metadata"]["resourceVersion"]
    for tenant in (scene.shop, scene.bank):
        tenant.client.merge(f"{INSIDE}/edge", {"metadata": {"labels": {"round": "1"}}})
    events = list(scene.all.watch(BINDINGS, version, seconds=2))
    seen = [(one["type"], one["object"]["metadata"]["annotations"]["kcp.io/cluster"]) for one in events]
    assert seen == [("MODIFIED", scene.shop.cluster), ("MODIFIED", scene.bank.cluster)]


def test_a_version_that_is_too_old_is_gone(scene: Scene) -> None:
    answer = scene.all.call("GET", BINDINGS, query={"watch": "true", "resourceVersion": "1", "timeoutSeconds": "2"})
    code = answer.status
    if code == 200 and answer.text:
        event = yaml.safe_load(answer.text.splitlines()[0])
        code = event["object"].get("code") if event["type"] == "ERROR" else 200
    assert code == 410


def test_metadata_alone_names_the_cluster_too(scene: Scene) -> None:
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    found = scene.all.call("GET", BINDINGS, accept=accept).json["items"]
    assert {one["metadata"]["annotations"]["kcp.io/cluster"] for one in found} == {scene.shop.cluster, scene.bank.cluster}
    assert not any("spec" in one for one in found)


def test_an_unknown_token_has_no_user(scene: Scene) -> None:
    ca, url = scene.shop.client.ca, scene.world.wait_urls()[0]
    assert Client(scene.shop.client.base, ca, "wrong").call("GET", INSIDE).status == 401
    assert Client(f"{url}/clusters/*", ca, "wrong").call("GET", BINDINGS).status == 401


def test_an_export_that_may_not_be_bound_is_not_bound(scene: Scene) -> None:
    apply(scene.world.provider, [one for one in widget_export("closed", ACCOUNT) if not one["metadata"]["name"].endswith(":bind")])
    answer = scene.shop.client.call("POST", PATH_OF_BINDING, _binding_to("closed"))
    assert answer.status == 403 and "no permission to bind to export" in answer.text


def test_what_a_provider_keeps_in_its_workspace_is_its_own(scene: Scene) -> None:
    metadata = {"name": "kept", "namespace": ACCOUNT}
    for version, kind, content in (
        ("v1", "ConfigMap", {"data": {"a": "b"}}),
        ("v1", "Secret", {"stringData": {"a": "b"}}),
        ("coordination.k8s.io/v1", "Lease", {"spec": {"holderIdentity": "me"}}),
    ):
        scene.world.provider.create({"apiVersion": version, "kind": kind, "metadata": metadata, **content})
    assert scene.shop.client.get(f"/api/v1/namespaces/{ACCOUNT}/configmaps/kept") is None
    names = {one["metadata"]["name"] for one in scene.shop.client.list("/api/v1/namespaces")}
    assert "default" in names and ACCOUNT not in names


def test_a_binding_waits_for_our_finalizers_and_we_can_still_work(scene: Scene) -> None:
    tenant = scene.world.tenant("leaver")
    tenant.client.create(mesh("last"))
    inside = scene.of(tenant)
    held = inside.merge(f"{INSIDE}/last", {"metadata": {"finalizers": [FINALIZER]}})

    scene.world.unbind(tenant)
    binding = eventually(lambda: holding(tenant.client.get(f"{PATH_OF_BINDING}/{EXPORT}")), "the binding says what it waits for")
    assert (binding["reason"], binding["status"]) == ("SomeFinalizersRemain", "False")
    shown = next(one for one in scene.all.list(BINDINGS) if one["metadata"]["uid"] == held["metadata"]["uid"])
    assert shown["metadata"]["deletionTimestamp"]
    assert tenant.client.call("POST", INSIDE, mesh("more")).status in (403, 404)

    test = {"op": "test", "path": "/metadata/uid", "value": held["metadata"]["uid"]}
    inside.json_patch(f"{INSIDE}/last", [test, {"op": "remove", "path": "/metadata/finalizers/0"}])
    eventually(lambda: tenant.client.get(f"{PATH_OF_BINDING}/{EXPORT}") is None, "the binding goes")
    eventually(lambda: inside.call("GET", f"{INSIDE}/last").status == 403, "without a binding nothing may be seen")
    assert tenant.cluster not in {one["metadata"]["annotations"]["kcp.io/cluster"] for one in scene.all.list(BINDINGS)}


def test_a_workspace_that_is_deleted_waits_for_our_finalizers(scene: Scene) -> None:
    tenant = scene.world.tenant("closing")
    tenant.client.create(mesh("last"))
    inside = scene.of(tenant)
    inside.merge(f"{INSIDE}/last", {"metadata": {"finalizers": [FINALIZER]}})
    place = f"/apis/tenancy.kcp.io/v1alpha1/workspaces/{tenant.name}"
    scene.world.admin().delete(place)
    eventually(lambda: (inside.get(f"{INSIDE}/last") or {})["metadata"].get("deletionTimestamp"), "the object is to go")
    inside.merge(f"{INSIDE}/last", {"metadata": {"finalizers": []}})
    eventually(lambda: scene.world.admin().get(place) is None, "the workspace goes")


def test_a_workspace_of_our_sample_type_has_everything_bound(scene: Scene) -> None:
    world = scene.world
    documents = kcp_manifests(world.values, ("workspacetype",), events=False)
    apply(world.admin(), documents)
    path = world.workspace("typed", kind=documents[-1]["metadata"]["name"])
    inside = world.admin(path)
    eventually(lambda: inside.call("GET", INSIDE).status == 200, "the resource is served")
    inside.create(mesh("typed"))
    inside.create(cluster_object("typed"))
    found = world.admin().get("/apis/tenancy.kcp.io/v1alpha1/workspaces/typed") or {}
    operator = world.virtual(found["spec"]["cluster"])
    assert eventually(lambda: operator.list(CLUSTERS), "the claim is accepted")[0]["metadata"]["name"] == "typed"
    world.admin().delete("/apis/tenancy.kcp.io/v1alpha1/workspaces/typed")
    eventually(lambda: world.admin().get("/apis/tenancy.kcp.io/v1alpha1/workspaces/typed") is None, "the workspace goes")


def test_events_are_refused_where_they_are_not_claimed(scene: Scene) -> None:
    assert scene.of(scene.shop).call("POST", EVENTS, _event("early")).status == 403


@pytest.mark.usefixtures("events_claimed")
def test_events_are_written_where_they_are_claimed(scene: Scene) -> None:
    tenant = scene.world.tenant("talker")
    inside = scene.of(tenant)
    eventually(lambda: inside.call("POST", EVENTS, _event("heard")).status in (201, 409), "the event is taken")
    assert tenant.client.get(f"{EVENTS}/heard") is not None
    assert scene.shop.client.get(f"{EVENTS}/heard") is None


@pytest.mark.usefixtures("events_claimed")
def test_the_operators_own_events_are_taken_and_an_object_without_its_kind_is_not(scene: Scene, tmp_path: Path) -> None:
    tenant = scene.world.tenant("narrator")
    kubeconfig = tmp_path / "operator.kubeconfig"
    kubeconfig.write_text(json.dumps(scene.world.operator().kubeconfig()), encoding="utf-8")
    url = eventually(scene.world.urls, "the slice has a URL")[0]
    edge = Stored(ObjectKey(BINDING, tenant.cluster, "default", "edge"), {"metadata": {"name": "edge", "uid": "1"}}, url)
    with Connections("kcp", str(kubeconfig), "--kcp-kubeconfig") as kcp:
        recorder = EventRecorder(kcp.at, clock=count(0, 1000).__next__)  # the claim may not be accepted yet, which pauses it

        def reasons() -> set[str]:
            recorder.record(edge, "Normal", "Tried", "it is written")
            return {event["reason"] for event in tenant.client.list("/api/v1/events")}

        eventually(lambda: "Tried" in reasons(), "the event is there")
    without = {"metadata": {"name": "bare"}, "involvedObject": {"namespace": "default"}, "type": "Normal", "reason": "Try"}
    assert scene.of(tenant).call("POST", EVENTS, without).status == 400


def test_everything_is_there_again_after_a_restart(scene: Scene) -> None:
    before = {one["metadata"]["uid"] for one in scene.all.list(BINDINGS)}
    scene.world.restart()
    after = eventually(lambda: {one["metadata"]["uid"] for one in scene.all.list(BINDINGS)}, "it is back")
    assert after == before


def _event(name: str) -> Object:
    about = {"kind": "ClusterMeshBinding", "name": "edge", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about, "type": "Normal", "reason": "Try"}


def _binding_to(name: str) -> Object:
    spec = {"reference": {"export": {"path": "root:networking", "name": name}}}
    return {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name}, "spec": spec}


def _with_conditions(client: Client, path: str) -> Object | None:
    found = client.get(path)
    return found if found and len(found.get("status", {}).get("conditions") or []) == 2 else None


def _if_status(client: Client, path: str, status: int) -> Object | None:
    answer = client.call("GET", path)
    return answer.json if answer.status == status else None
