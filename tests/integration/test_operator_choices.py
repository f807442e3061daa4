# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a tenant chooses in a binding reaches the clusters, until its end and within what the platform permits."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.waivers import LONGEST
from mesh_operator.kinds import BINDING
from tests.integration.mesh_lab import NAMESPACE
from tests.integration.operator_lab import OperatorLab, Workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.waiting import equals

pytestmark = pytest.mark.xdist_group("operator")

CONFIG: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/cilium-config"
SECRET: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/cilium-kvstoremesh"
FOREIGN: Final = "endpoints:\n- https://192.0.2.66:2379\n"


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
