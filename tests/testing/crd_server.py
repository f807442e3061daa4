# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A real API server with CRDs, and what it says of objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from tests.testing.crd_examples import GONE
from tests.testing.one_server import OneServer
from tests.testing.waiting import wait_for


def is_established(crd: Any) -> bool:
    conditions = (crd.status.conditions if crd.status else None) or ()
    return any(condition.type == "Established" and condition.status == "True" for condition in conditions)


class CrdServer:
    """A server with some CRDs. Unknown fields are errors, so that none is dropped without a word."""

    def __init__(self, one: OneServer, definitions: Sequence[Mapping[str, Any]]) -> None:
        self._names = {crd["spec"]["names"]["kind"]: (crd["spec"]["group"], crd["spec"]["names"]["plural"]) for crd in definitions}
        self._client = config.new_client_from_config(str(one.kubeconfig))
        self._objects = client.CustomObjectsApi(self._client)
        api = client.ApiextensionsV1Api(self._client)
        for crd in definitions:
            api.create_custom_resource_definition(crd)
        wanted = {crd["metadata"]["name"] for crd in definitions}

        def not_established() -> set[str]:
            found = api.list_custom_resource_definition().items
            return wanted - {crd.metadata.name for crd in found if is_established(crd)}

        wait_for(not_established, lambda late: not late, what="every CRD is established")

    def create(self, kind: str, spec: Any, name: str = "x", *, dry: bool = True) -> dict[str, Any]:
        group, plural = self._names[kind]
        body = {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": name}} | ({} if spec is GONE else {"spec": spec})
        place = (group, "v1alpha1", "default", plural)
        options = {"field_validation": "Strict"} | ({"dry_run": "All"} if dry else {})
        return dict(self._objects.create_namespaced_custom_object(*place, body, **options))

    def refuses(self, kind: str, spec: Any, name: str = "x") -> str:
        """Its words; "" when it takes the object."""
        try:
            self.create(kind, spec, name)
        except ApiException as error:
            assert error.status in (400, 422), error
            return str(error.body)
        return ""

    def replace(self, made: dict[str, Any], *, status: bool = False) -> dict[str, Any]:
        group, plural = self._names[made["kind"]]
        call = self._objects.replace_namespaced_custom_object_status if status else self._objects.replace_namespaced_custom_object
        found = call(group, "v1alpha1", "default", plural, made["metadata"]["name"], made, field_validation="Strict")
        return dict(found)

    def table(self, kind: str) -> tuple[list[str], list[list[Any]]]:
        """What kubectl shows: columns and rows."""
        group, plural = self._names[kind]
        url = f"{self._client.configuration.host}/apis/{group}/v1alpha1/namespaces/default/{plural}"
        answer = self._client.call_api("GET", url, header_params={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
        found = json.loads(answer.read())
        return [column["name"] for column in found["columnDefinitions"]], [row["cells"] for row in found["rows"]]
