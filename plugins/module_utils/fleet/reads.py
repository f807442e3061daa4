# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Reads of a tenant in Karmada's API, and the facts in the answers. Pure: a run sends the reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ..base.errors import ClusterError
from ..base.json_fields import text
from ..observe.reads import Read
from .contents import KINDS, TenantObject
from .facts import TenantFacts, binding_facts, member_facts
from .names import NAMESPACE_LABEL, WORKSPACE_LABEL, Tenant, karmada_namespace
from .revisions import COLLECTION
from .writes import POLICY_API


class NotKarmada(ClusterError):
    """The API server answers, and is not that of a Karmada control plane."""

    code = "CM-FLEET-09"


REQUESTS_AT_ONCE: Final = 6


def tenant_reads(tenant: Tenant) -> dict[str, Read]:
    """Return the reads of everything that a tenant has, by the names that ``tenant_facts`` uses: one list per kind, and its Clusters."""
    name = karmada_namespace(tenant)
    selector = f"{WORKSPACE_LABEL}={tenant.workspace},{NAMESPACE_LABEL}={tenant.namespace}"
    return {
        "namespace": Read(path=f"/api/v1/namespaces/{name}"),
        "namespace_policy": Read(path=f"{POLICY_API}/clusterpropagationpolicies/{name}"),
        "policies": _list(f"{POLICY_API}/namespaces/{name}/propagationpolicies"),
        "bindings": _list(f"/apis/work.karmada.io/v1alpha2/namespaces/{name}/resourcebindings"),
        "revisions": _list(COLLECTION.format(name)),
        "members": _list("/apis/cluster.karmada.io/v1alpha1/clusters", selector),
        **{f"kind {kind}": _list(row.collection.format(name)) for kind, row in KINDS.items()},
    }


def tenant_facts(tenant: Tenant, found: Mapping[str, Any], host: str, now: datetime) -> TenantFacts:
    """Return the facts in the answers.

    :param host: inventory name of Karmada.
    :param now: aware, UTC: the time of the API server.
    :raises NotKarmada: when a collection is not served: what is not served may not be taken for empty.
    """
    for key, read in tenant_reads(tenant).items():
        if read.many and found[key] is None:
            raise NotKarmada(
                f"The API server does not serve {read.path.rpartition('/')[2]}, so it is not the API server of a Karmada control plane.",
                remedy="Name the host of the Karmada API server in fleet.karmada.",
                cluster=host,
            )
    return TenantFacts(
        now=now,
        namespace=found["namespace"],
        namespace_policy=found["namespace_policy"],
        objects={TenantObject(kind, text(entry, "metadata", "name")): entry for kind in KINDS for entry in found[f"kind {kind}"]},
        policies=_by_name(found["policies"]),
        revisions=_by_name(found["revisions"]),
        bindings={name: binding_facts(entry) for name, entry in _by_name(found["bindings"]).items()},
        members={facts.name: facts for facts in map(member_facts, found["members"])},
    )


def _list(path: str, selector: str = "") -> Read:
    return Read(path=path, many=True, label_selector=selector, if_served=True)


def _by_name(entries: Any) -> dict[str, Mapping[str, Any]]:
    return {text(entry, "metadata", "name"): entry for entry in entries}
