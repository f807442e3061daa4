# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Names, paths, labels and annotations of the objects that make a cluster a member of Karmada. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..base.json_fields import annotations_of, labels_of, text
from ..fleet.names import DOMAIN
from .models import Member

MANAGER: Final = DOMAIN
"""Field manager of all writes."""

CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
WORKS: Final = "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{}/works"
BINDINGS: Final = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
NAMESPACE: Final = "karmada-cluster"
"""Namespace of the accounts in a member, and of the Secrets with their tokens in Karmada (karmadactl's default)."""

IMPERSONATOR: Final = "karmada-impersonator"
CORE: Final = "/api/v1/namespaces"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
SECRETS: Final = f"{CORE}/{NAMESPACE}/secrets"
CONFIG_MAPS: Final = f"{CORE}/{NAMESPACE}/configmaps"
ACCOUNTS: Final = f"{CORE}/{NAMESPACE}/serviceaccounts"

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
NAME_ANNOTATION: Final = f"{DOMAIN}/source-name"  # whole, also where it is too long for a label
LABELS_ANNOTATION: Final = f"{DOMAIN}/labels"  # keys of the tenant's labels that were written, so that they can be taken away
EXPIRES_ANNOTATION: Final = f"{DOMAIN}/token-expires"
EARLIER_ANNOTATION: Final = f"{DOMAIN}/earlier-token-expires"  # which Karmada up to 1.18 uses until it restarts
ISSUED_ANNOTATION: Final = f"{DOMAIN}/token-issued"
ACCOUNTS_ANNOTATION: Final = f"{DOMAIN}/token-accounts"  # uids: a token of an account that was deleted is worth nothing
AUTHORITY_ANNOTATION: Final = f"{DOMAIN}/authority"  # digest of the CA in the Secret, which is never read back
SILENT_ANNOTATION: Final = f"{DOMAIN}/member-silent-since"
TOMBSTONE_LABEL: Final = f"{DOMAIN}/tombstone"

EXECUTION_FINALIZER: Final = "karmada.io/execution-controller"
WORK_NAMESPACE: Final = "work.karmada.io/namespace"
"""Annotation of an object in a member: the namespace of the Work that brought it, which is the member's own."""

MANAGED_LABEL: Final = "karmada.io/managed"
"""Label of the objects in a member that Karmada brought there."""


def account_of(member: Member) -> str:
    """Return the ServiceAccount that Karmada's controllers use."""
    return f"karmada-{member.member}"


def role_of(member: Member) -> str:
    """Return the ClusterRole, and its binding, of that account (karmadactl: pkg/karmadactl/join)."""
    return f"karmada-controller-manager:karmada-{member.member}"


def secrets_of(member: Member, pair: int) -> tuple[str, str]:
    """Return the Secrets with the tokens of both accounts.

    The first pair is named as karmadactl names it. A name of a member has no dot, so that no other member has such a Secret.

    :param pair: 1 or 2.
    """
    after = ".2" if pair == 2 else ""
    return f"{member.member}{after}", f"{member.member}-impersonator{after}"


def pair_of(member: Member, cluster: Mapping[str, Any]) -> int:
    """Return the pair of Secrets that a Cluster names; 1 for names that are not ours."""
    return 2 if text(cluster, "spec", "secretRef", "name") == secrets_of(member, 2)[0] else 1


def tombstone_of(member: Member) -> str:
    """Return the ConfigMap that says what an abandoned member still holds."""
    return f"tombstone-{member.member}"


def is_made_for(found: Mapping[str, Any], member: Member) -> bool:
    """Return whether an object was made for the member: it has all labels of it, and the whole name where that is no label."""
    labels = labels_of(found)
    if any(labels.get(key) != value for key, value in member.own_labels.items()):
        return False
    return member.fits or annotations_of(found).get(NAME_ANNOTATION) == member.name
