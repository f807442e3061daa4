# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a tenant chooses in a binding reaches the clusters, until its end and within what the platform permits."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.waivers import LONGEST
from mesh_operator.base.kinds import BINDING, BY_KIND, INTENT
from tests.integration import shop
from tests.integration.labs import replace_mesh_pods, unready
from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.integration.operator_lab import OperatorLab, Workspace
from tests.integration.peer_objects import SECRETS, contents, give_away, managers_of, objects, secret_path, watched
from tests.lab import profiles
from tests.lab.cluster import profile_options
from tests.lab.install import install
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals, wait_for

pytestmark = pytest.mark.xdist_group("other-operator")

CONFIG: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/cilium-config"
SECRET: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/cilium-kvstoremesh"
FOREIGN: Final = "endpoints:\n- https://192.0.2.66:2379\n"
PROVIDER: Final = "kcp-cilium-mesh-provider"
FINALIZER: Final = "networking.edge-portal.eu/provider"
IMAGE: Final = "registry.example/probe:1.0"
PLATFORM: Final = "networking.edge-portal.eu"
ELSEWHERE: Final = "cilium"  # a namespace of Cilium
NOWHERE: Final = "10.250.0.1"  # an address that leads to no node


def waiver(**ends_in: float) -> dict[str, str]:
    return {"reason": "the platform team knows", "until": (datetime.now(UTC) + timedelta(**ends_in)).isoformat(timespec="seconds")}


def codes(tenant: Workspace) -> list[str]:
    return [row["code"] for row in tenant.status(BINDING, "edge").get("findings") or ()]


def refusal(tenant: Workspace) -> str:
    ready = tenant.condition(BINDING, "edge")
    return f"{ready.get('reason')}: {ready.get('message')}"


def test_choices_of_a_tenant_have_their_effect_and_end_when_they_say(operator_lab: OperatorLab) -> None:
    lab = operator_lab.clusters
    api = lab.api("c1")
    tenant = operator_lab.workspace("chooser", "c1", "c2")

    def until(operator: OperatorProcess, what: str, read: Callable[[], Any], wanted: Callable[[Any], bool]) -> None:
        operator.wait(read, what, until=wanted, explain=lambda: str(tenant.status(BINDING, "edge")))

    phase, why = partial(tenant.phase, BINDING, "edge"), partial(refusal, tenant)
    with operator_lab.operator("--no-leader-elect", "--permit=accept", "--permit=repair", "--permit=trust") as operator:
        # A finding that blocks stops the mesh until its owner accepts it, for a time and with the reason.
        api.patch(CONFIG, {"data": {"enable-wireguard": "true"}})
        try:
            tenant.create(BINDING, "edge", clusterRefs=tenant.refs())
            until(operator, "encryption differs", why, lambda text: "CM-ENC-01" in text)
            tenant.change(BINDING, "edge", accept=[{"code": "CM-ENC-01", **waiver(days=1)}], trust="Copied")
            until(operator, "the mesh is connected", phase, equals("Connected"))
            (accepted,) = [row for row in tenant.status(BINDING, "edge")["findings"] if row["code"] == "CM-ENC-01"]
            assert accepted["accepted"] is True and accepted["page"].endswith("CM-ENC-01.md")
            until(operator, "the waiver is reported", partial(codes, tenant), lambda found: "CM-WAIV-02" in found)
            assert "CM-TRUST-02" in codes(tenant), "the certificate is a copied one"

            # A waiver that ends has no effect any more, and one that would last too long has none at all.
            tenant.change(BINDING, "edge", accept=[{"code": "CM-ENC-01", **waiver(seconds=-1)}])
            until(operator, "the finding blocks again", why, lambda text: "CM-ENC-01" in text)
            until(operator, "the waiver has ended", partial(codes, tenant), lambda found: "CM-WAIV-01" in found)
            assert phase() == "Degraded", "the links are ready, and nothing new is written"
            tenant.change(BINDING, "edge", accept=[{"code": "CM-ENC-01", **waiver(days=LONGEST.days + 1)}])
            until(operator, "the waiver is too long", partial(codes, tenant), lambda found: "CM-WAIV-03" in found)
        finally:
            api.patch(CONFIG, {"data": {"enable-wireguard": None}})
        tenant.change(BINDING, "edge", accept=[])
        until(operator, "the mesh is connected", phase, equals("Connected"))

        # Keys that another writer changed are written again for an owner who says so.
        written = lab.secret("c1", "cilium-kvstoremesh")["c2"]
        api.patch(SECRET, {"data": {"c2": base64.b64encode(FOREIGN.encode()).decode()}})
        until(operator, "the change is reported", partial(codes, tenant), lambda found: "CM-DRIFT-02" in found)
        assert lab.secret("c1", "cilium-kvstoremesh")["c2"] == FOREIGN.encode()
        tenant.change(BINDING, "edge", repair=waiver(hours=1))
        until(operator, "the mesh is connected", phase, equals("Connected"))
        assert lab.secret("c1", "cilium-kvstoremesh")["c2"] == written

        # What the platform does not permit has no effect, and says so.
        tenant.change(BINDING, "edge", adopt=waiver(days=1), nodeAddresses="ExternalIP")
        until(operator, "the choice is refused", why, lambda text: text.startswith("NotPermitted: ") and "adopt, nodeAddresses" in text)
        assert phase() == "Degraded"
        tenant.change(BINDING, "edge", adopt=None, nodeAddresses=None)
        until(operator, "the mesh is connected", phase, equals("Connected"))

        # The platform says where other clusters reach a cluster, and its tenant cannot.
        place = f"/apis/platform.edge-portal.eu/v1alpha1/namespaces/default/clusters/{tenant.clusters['c2']}"
        cluster = operator_lab.management.api
        cluster.patch(place, {"metadata": {"annotations": {"networking.edge-portal.eu/endpoint": "192.0.2.20:2379"}}})
        until(
            operator, "the endpoint is dialled", partial(lab.secret, "c1", "cilium-kvstoremesh"), lambda keys: b"192.0.2.20" in keys["c2"]
        )
        cluster.patch(place, {"metadata": {"annotations": {"networking.edge-portal.eu/endpoint": None}}})
        until(operator, "the mesh is connected", phase, equals("Connected"))

        tenant.delete(BINDING, "edge")
        operator.wait(lambda: tenant.get(BINDING, "edge") is None, "the mesh is gone")


@contextmanager
def cilium_elsewhere(lab: MeshLab, cluster: str) -> Iterator[str]:
    """Install a second Cilium into another namespace of a cluster, with a Service of type NodePort and nodes whose ports peers reach at
    their ExternalIP alone. Agents reach each other at the address of the CiliumNode. Yields the ExternalIP."""
    api, given = lab.api(cluster), lab.lab.options.cluster_options()[lab.names.index(cluster)]
    options = replace(profile_options(given, None), namespace=ELSEWHERE, service_type="NodePort")
    node = f"/api/v1/nodes/{cluster}-node1"
    addresses = (api.get(node) or {})["status"]["addresses"]
    (address,) = [entry["address"] for entry in addresses if entry["type"] == "InternalIP"]
    moved = [entry | {"address": NOWHERE} if entry["type"] == "InternalIP" else entry for entry in addresses]
    api.patch(f"{node}/status", {"status": {"addresses": [*moved, {"type": "ExternalIP", "address": address}]}})
    # The lab has one ClusterIP for the mesh's own Service of a cluster, and the other installation gives it up meanwhile.
    service = f"/api/v1/namespaces/{NAMESPACE}/services/clustermesh-apiserver"
    ports = (api.get(service) or {})["spec"]["ports"]
    api.patch(service, {"spec": {"ports": [entry | {"port": entry["port"] + 1} for entry in ports]}})
    try:
        install(api, options, [_beside_another(obj) for obj in profiles.build(options)], ())
        yield address
    finally:
        api.delete(f"/api/v1/namespaces/{ELSEWHERE}")
        api.patch(f"{node}/status", {"status": {"addresses": addresses}})
        api.patch(service, {"spec": {"ports": ports}})
        wait_for(lambda: api.get(f"/api/v1/namespaces/{ELSEWHERE}") is None, what="the second Cilium is gone")


def _beside_another(obj: dict[str, Any]) -> dict[str, Any]:
    """A node has each port once: pods of the second Cilium that use the network of their node name none."""
    pod = obj.get("spec", {}).get("template", {}).get("spec", {})
    for container in pod["containers"] if pod.get("hostNetwork") else ():
        container.pop("ports", None)
    return obj


@contextmanager
def answering_pod(lab: MeshLab, source: str, target: str) -> Iterator[None]:
    """What pods of one cluster connect to at the address of the shop's pod in another one takes connections."""
    (pod,) = lab.api(target).list(f"/api/v1/namespaces/{shop.NAMESPACE}/pods", label_selector="app=nginx")
    with socket.create_server(("127.0.0.1", 0)) as server:
        lab.lab.trials(source).lead({f"{pod['status']['podIP']}:8080": f"127.0.0.1:{server.getsockname()[1]}"})
        yield
    lab.lab.trials(source).lead({})


def test_a_tenant_adopts_a_mesh_probes_and_takes_back_a_cluster_whose_cilium_is_elsewhere(operator_lab: OperatorLab) -> None:
    lab = operator_lab.clusters
    two = lab.part(2)
    management = operator_lab.management.api
    tenant = operator_lab.workspace("taker", "c1", "c2", "c3")
    assert two.play("connect").rc == 0
    two.wait_connected()
    give_away(two, PROVIDER)
    made = contents(two)

    def annotate(cluster: str, **annotations: str) -> None:
        path = f"/apis/platform.edge-portal.eu/v1alpha1/namespaces/default/clusters/{tenant.clusters[cluster]}"
        management.patch(path, {"metadata": {"annotations": {f"{PLATFORM}/{key.replace('_', '-')}": v for key, v in annotations.items()}}})

    def until(what: str, read: Callable[[], Any], wanted: Callable[[Any], bool]) -> None:
        operator.wait(read, what, until=wanted, explain=lambda: str(tenant.status(BINDING, "edge")))

    def links() -> tuple[str, int]:
        status = tenant.status(BINDING, "edge")
        return status["phase"], len(status.get("links") or ())

    phase, why = partial(tenant.phase, BINDING, "edge"), partial(refusal, tenant)
    flags = ("--permit=adopt", "--permit=nodeAddresses", "--permit=takeBack", f"--probe-image={IMAGE}", f"--provider-finalizer={FINALIZER}")
    tenant.create(BINDING, "edge", clusterRefs=tenant.refs("c1", "c2"))
    tenant.merge(BINDING, "edge", {"metadata": {"finalizers": [FINALIZER]}})
    annotate("c3", cilium_namespace=ELSEWHERE)
    with cilium_elsewhere(lab, "c3") as address, operator_lab.operator("--no-leader-elect", *flags) as operator:
        # Links that another program made are its own until the tenant adopts them. No value changes, and no link drops.
        with watched(two, {"c1": ("c2",), "c2": ("c1",)}) as dropped:
            until("the links are another program's", why, lambda text: "CM-OWN-02" in text)
            tenant.change(BINDING, "edge", adopt=waiver(days=1))
            until("the mesh is connected", phase, equals("Connected"))
        assert dropped == [] and contents(two) == made
        assert (tenant.get(BINDING, "edge") or {})["metadata"]["finalizers"] == [BY_KIND[BINDING].finalizer], "the provider's is replaced"
        for cluster, peer in (("c1", "c2"), ("c2", "c1")):
            (owner,) = managers_of(objects(two, cluster)["cilium-kvstoremesh"], peer)
            assert owner.startswith("cilium-mesh.edge-portal.eu/") and owner != PROVIDER

        # An intent that names no image is probed with the platform's.
        jobs = partial(lab.api("c1").list, "/apis/batch/v1/jobs")
        ends: dict[str, Any] = {
            side: {"namespace": shop.NAMESPACE, "name": "nginx", "clusters": [name]}
            for side, name in (("source", "c1"), ("destination", "c2"))
        }
        ports = [{"protocol": "TCP", "port": 8080}]
        with answering_pod(lab, "c1", "c2"):
            tenant.create(INTENT, "front", meshRef={"name": "edge"}, action="Allow", ports=ports, probe={"enabled": True}, **ends)
            operator.wait(jobs, "a Job probes", every=0.1)
            (job,) = jobs()
            assert job["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
            operator.wait(lambda: tenant.status(INTENT, "front").get("probeStatus"), "the probe has a result")
        probed = tenant.status(INTENT, "front")["probeStatus"]
        assert (probed["result"], probed["method"], probed["success"]) == ("proven", "job", True)
        tenant.delete(INTENT, "front")

        # The platform says where the Cilium of a cluster is, and the tenant at which addresses its nodes are reached.
        tenant.change(BINDING, "edge", clusterRefs=tenant.refs(), nodeAddresses="ExternalIP", adopt=None)
        until("the mesh is connected", links, equals(("Connected", 6)))
        dialled = lab.secret("c1", "cilium-kvstoremesh")["c3"]
        assert address.encode() in dialled and NOWHERE.encode() not in dialled
        secret = lab.api("c3").get(f"/api/v1/namespaces/{ELSEWHERE}/secrets/cilium-kvstoremesh")
        assert secret is not None and {"c1", "c2"} <= secret["data"].keys()
        assert {"c1", "c2"}.isdisjoint(lab.secret("c3", "cilium-kvstoremesh"))

        # A cluster that was taken out without its answer and was built anew comes back when its owner says so.
        tenant.set_ready("c3", False)
        tenant.change(BINDING, "edge", clusterRefs=tenant.refs("c1", "c2"))
        until("c3 is taken out", partial(lab.secret, "c1", "cilium-kvstoremesh"), lambda keys: "c3" not in keys)
        until("the mesh is connected", phase, equals("Connected"))
        config = f"/api/v1/namespaces/{ELSEWHERE}/configmaps/cilium-config"
        lab.api("c3").patch(config, {"data": {"cluster-pool-ipv4-cidr": "10.3.0.0/16 10.77.0.0/16"}})
        tenant.set_ready("c3", True)
        tenant.change(BINDING, "edge", clusterRefs=tenant.refs())
        until("c3 is not the cluster that it was", partial(codes, tenant), lambda found: "CM-TOMB-01" in found)
        tenant.change(BINDING, "edge", takeBack=[{"cluster": "c3", **waiver(days=1)}])
        until("the mesh is connected", links, equals(("Connected", 6)))
        assert "CM-TOMB-01" not in codes(tenant)

        tenant.delete(BINDING, "edge")
        operator.wait(lambda: tenant.get(BINDING, "edge") is None, "the mesh is gone")
    for cluster in two.names:
        for name in SECRETS:  # they were another program's, so they stay without its keys
            two.api(cluster).delete(secret_path(name))
    replace_mesh_pods(lab, lab.names)  # kvstoremesh keeps a peer that was taken away for minutes, and c3 was in two places
    wait_for(lambda: unready(lab), lambda late: not late, what="the mesh pods are ready again")
