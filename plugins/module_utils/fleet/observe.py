# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Observation of a tenant in Karmada's API. Reads only: one list per kind of the tenant's namespace, and the tenant's Clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Final

from ..base.errors import ClusterError
from ..base.json_fields import text
from ..kube.client import Cluster
from .contents import KINDS, ObjectKey
from .facts import TenantFacts, binding_facts, member_facts
from .names import NAMESPACE_LABEL, WORKSPACE_LABEL, Tenant, karmada_namespace
from .revisions import COLLECTION
from .writes import POLICY_API


class NotKarmada(ClusterError):
    """The API server answers, and is not that of a Karmada control plane."""

    code = "CM-FLEET-09"


REQUESTS_AT_ONCE: Final = 6

Found = Any


def observe_tenant(karmada: Cluster, tenant: Tenant, now: datetime) -> TenantFacts:
    """Read everything of the tenant.

    :param now: aware, UTC: the time of the controller, where the API server tells none.
    :raises ClusterError: when a list cannot be read. What is not known may not be taken as absent, so there are no partial facts.
    """
    name = karmada_namespace(tenant)
    selector = f"{WORKSPACE_LABEL}={tenant.workspace},{NAMESPACE_LABEL}={tenant.namespace}"
    reads: dict[str, Callable[[], Found]] = {
        "namespace": lambda: karmada.get(f"/api/v1/namespaces/{name}"),
        "namespace_policy": lambda: karmada.get(f"{POLICY_API}/clusterpropagationpolicies/{name}"),
        "policies": _lister(karmada, f"{POLICY_API}/namespaces/{name}/propagationpolicies"),
        "bindings": _lister(karmada, f"/apis/work.karmada.io/v1alpha2/namespaces/{name}/resourcebindings"),
        "revisions": _lister(karmada, COLLECTION.format(name)),
        "members": _lister(karmada, "/apis/cluster.karmada.io/v1alpha1/clusters", selector),
        **{f"kind {kind}": _lister(karmada, row.collection.format(name)) for kind, row in KINDS.items()},
    }
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        futures = {key: pool.submit(read) for key, read in reads.items()}
        found = {key: future.result() for key, future in futures.items()}
    return TenantFacts(
        now=karmada.server_time() or now,
        namespace=found["namespace"],
        namespace_policy=found["namespace_policy"],
        objects={ObjectKey(kind, text(entry, "metadata", "name")): entry for kind in KINDS for entry in found[f"kind {kind}"]},
        policies=_by_name(found["policies"]),
        revisions=_by_name(found["revisions"]),
        bindings={name: binding_facts(entry) for name, entry in _by_name(found["bindings"]).items()},
        members={facts.name: facts for facts in map(member_facts, found["members"])},
    )


def _lister(karmada: Cluster, path: str, selector: str = "") -> Callable[[], Found]:
    """Return a function that lists a collection, which has to be served: what is not served may not be taken for empty."""

    def read() -> Found:
        found = karmada.list_if_served(path, label_selector=selector)
        if found is None:
            resource = path.rpartition("/")[2]
            raise NotKarmada(
                f"The API server does not serve {resource}, so it is not the API server of a Karmada control plane.",
                remedy="Name the host of the Karmada API server in fleet.karmada.",
                cluster=karmada.host,
            )
        return found

    return read


def _by_name(entries: Any) -> dict[str, Mapping[str, Any]]:
    return {text(entry, "metadata", "name"): entry for entry in entries}
