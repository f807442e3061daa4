# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Names and labels of everything that is made in Karmada and its members for a tenant (docs/decisions/0059). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ..base.json_fields import labels_of, text

WORKSPACE_LABEL: Final = "edge-connect.eu/source-workspace"
NAMESPACE_LABEL: Final = "edge-connect.eu/source-namespace"
NAME_LABEL: Final = "edge-connect.eu/source-name"
LABEL_LENGTH: Final = 63  # characters of the value of a label; names of objects may be longer

DOMAIN: Final = "platform.edge-portal.eu"
"""Domain of the annotations and of the field manager of the fleet side."""

OPERATOR_ANNOTATION: Final = f"{DOMAIN}/operator"
"""Annotation of the tenant's namespace in Karmada: the operator that made it. One that playbooks made has none."""

MEMBER_LIMIT: Final = 48
"""Characters of the name of a Cluster (Karmada: pkg/apis/cluster/validation, the name becomes part of a namespace's)."""


class Tenant(NamedTuple):
    """The namespace of a workspace, which is the unit of isolation: equal names in two tenants are different objects."""

    workspace: str  # logical cluster of kcp, or any label value
    namespace: str

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything that is made for the tenant, and of its members."""
        return {WORKSPACE_LABEL: self.workspace, NAMESPACE_LABEL: self.namespace}

    def labels_of(self, name: str) -> dict[str, str]:
        """Labels of what is made for one object of the tenant."""
        return {**self.labels, NAME_LABEL: name}


def stands_for(found: Mapping[str, Any], namespace: str, name: str) -> bool:
    """Return whether a Cluster of the management plane, of the right workspace, is the one of a KubernetesCluster.

    A Cluster without the label of the namespace is that of any, and one without the label of the name has the name of the
    KubernetesCluster, as has one whose name is too long for a label.
    """
    labels = labels_of(found)
    called = labels.get(NAME_LABEL) if len(name) <= LABEL_LENGTH else None
    return labels.get(NAMESPACE_LABEL, namespace) == namespace and (text(found, "metadata", "name") if called is None else called) == name


def karmada_namespace(tenant: Tenant) -> str:
    """Return the namespace of the tenant in Karmada and in its members."""
    return f"kcp-{_digest(tenant.workspace, tenant.namespace)[:16]}"


def member_name(tenant: Tenant, name: str) -> str:
    """Return the name under which a KubernetesCluster is a member of Karmada: at most 48 characters, a DNS label, different per tenant."""
    readable = name.replace(".", "-")[: MEMBER_LIMIT - 11].rstrip("-")
    return f"{_digest(tenant.workspace, tenant.namespace, name)[:10]}-{readable}"


def _digest(*parts: str) -> str:
    # The separator is in no name of Kubernetes, so that ("a", "b-c") and ("a-b", "c") differ.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
