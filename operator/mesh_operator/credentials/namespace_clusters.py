# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Credentials of clusters in the namespaces of an ordinary cluster: Secrets with our label, of Cluster API, or of Argo CD.

A Secret of the tenant's own namespace is the tenant's. One of the namespace of the management plane is used for the namespace that the
platform named in its label. What a Secret holds stays sealed here: only a confined process opens it (dry_runs.py). Lists bring metadata
alone, and one Secret at a time is got: a tenant's Secrets must take neither the memory nor the time of all tenants.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import ClusterError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.names import LABEL_LENGTH, NAME_LABEL, WORKSPACE_LABEL
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.deadlines import all_within

from ..base.keys import UnitKey
from ..source.bounds import QUOTA_EXCEEDED
from ..source.namespaces import is_mark
from ..source.stored import Stored
from .clusters import UNAVAILABLE, Clusters, in_time
from .labelled_secrets import ARGO_LABEL, CLUSTER_LABEL, MOST, SecretSource, TooManySecrets, labelled, secrets_path
from .management_plane import CAPI_LABEL, ELB_ANNOTATION, NotUsable, SealedKubeconfig, sealed_text

NO_SECRET: Final = (
    f"The namespace has no Secret whose label {CLUSTER_LABEL} has this name, none of Cluster API or Argo CD for the cluster, and no "
    "KubernetesCluster."
)
TOO_MANY: Final = (
    f"The namespace has more than {MOST} Secrets with the label {CLUSTER_LABEL}, or their metadata is too large, so none of them is used. "
    "Remove the label from Secrets that no mesh needs, and large annotations and labels from the others."
)
TOO_MANY_GIVEN: Final = (
    f"The platform keeps more than {MOST} Secrets for the namespace, or their metadata is too large, so none of them is used. Ask the "
    f"platform to remove the label {WORKSPACE_LABEL} from those that no mesh needs."
)
POLLED: Final = 10.0  # seconds for one page of a poll
_SELECTORS: Final = (CLUSTER_LABEL, CAPI_LABEL, f"{ARGO_LABEL}=cluster")

Object = dict[str, Any]


class NamespaceClusters:
    """Clusters of namespaces. ``resolve_all`` is thread-safe; ``poll`` is called by one thread.

    :param clusters: of KubernetesClusters, for namespaces that have some.
    :param platform: namespace of the Secrets that the platform keeps for its tenants.
    :param touched: called with the workspace of a namespace whose Secrets changed.
    """

    def __init__(self, api: SecretSource, clusters: Clusters, platform: str, touched: Callable[[str], None]) -> None:
        self._api, self._clusters, self._platform, self._touched = api, clusters, platform, touched
        self._seen: dict[str, str] = {}  # by namespace: digest of the names and versions of its Secrets

    def resolve_all(
        self, key: UnitKey, names: Mapping[str, Stored | None], ended: Callable[[], bool]
    ) -> dict[str, SealedKubeconfig | NotUsable]:
        """Return the kubeconfigs of clusters of that namespace, unread, or the reasons why there are none; see ``ClusterSource``."""
        lookup = _Lookup(self._api, key.namespace, self._platform)

        def resolve(name: str, check: Callable[[], None]) -> SealedKubeconfig | NotUsable:
            found = lookup.of(name, check)
            if found is not None:
                return found
            if (known := names[name]) is not None:
                check()
                return self._clusters.resolve(key, name, known)
            return NotUsable(name=name, reason="ClusterNotFound", message=NO_SECRET)

        return in_time(names, resolve, ended)

    def poll(self, places: Iterable[tuple[str, str]], ended: Callable[[], bool] = lambda: False) -> None:
        """Look for changes of Secrets in (workspace, namespace), until it is ended. Metadata alone is read.

        The namespaces take turns page by page, so one with many Secrets holds up the others for one page. One that cannot be read is left
        out.
        """
        waiting = deque((workspace, namespace, self._digest(namespace)) for workspace, namespace in places)
        known, self._seen = self._seen, {namespace: self._seen[namespace] for _, namespace, _ in waiting if namespace in self._seen}
        while waiting and not ended():
            workspace, namespace, reading = waiting.popleft()
            try:
                with all_within(POLLED):
                    digest = next(reading)
            except ClusterError:
                continue
            if digest is None:
                waiting.append((workspace, namespace, reading))
                continue
            self._seen[namespace] = digest
            if known.get(namespace, digest) != digest:
                self._touched(workspace)

    def _digest(self, namespace: str) -> Iterator[str | None]:
        """Yield None for each page of the labelled Secrets of a namespace, and at last the digest of their names and versions."""
        found = set[tuple[str, str]]()
        for selector in _SELECTORS:
            try:
                for page in labelled(self._api, namespace, selector):
                    found |= {(secret.name, secret.version) for secret in page}
                    yield None
            except TooManySecrets:
                found.add(("", selector))  # no Secret has this name
        yield sha256(json.dumps(sorted(found)).encode()).hexdigest()


class _Lookup:
    """Search for the Secrets of one namespace during one turn. Each list is read once, for all names."""

    def __init__(self, api: SecretSource, namespace: str, platform: str) -> None:
        self._api, self._namespace, self._platform = api, namespace, platform
        self._lists: dict[tuple[str, str], dict[str, list[str]] | ClusterError | TooManySecrets] = {}

    def of(self, name: str, check: Callable[[], None]) -> SealedKubeconfig | NotUsable | None:
        """Return the kubeconfig of a cluster, from the first place that has any; None if none has.

        :param check: called before each request; what it raises is passed on.
        """
        own = self._namespace
        is_label = len(name) <= LABEL_LENGTH
        places: list[tuple[str, str, str, dict[str, str]]] = []  # namespace, selector or "", name of the Secret, labels that it has
        places += [(own, CLUSTER_LABEL, "", {CLUSTER_LABEL: name})] * is_label
        places += [(own, "", f"{name}-kubeconfig", {CAPI_LABEL: name})] * is_label  # as the controllers of Cluster API name it
        places += [(own, "", name, {ARGO_LABEL: "cluster"})]
        given = {WORKSPACE_LABEL: own, NAME_LABEL: name}
        is_given = is_label and self._platform not in ("", own) and not is_mark(own)  # a mark is no name of a namespace
        places += [(self._platform, f"{WORKSPACE_LABEL}={own}", "", given)] * is_given
        try:
            for namespace, selector, secret, labels in places:
                label = NAME_LABEL if namespace != own else CLUSTER_LABEL
                found = self._listed(namespace, selector, label, check).get(name, []) if selector else [secret]
                if len(found) > 1:
                    message = f"{len(found)} Secrets are about this cluster; exactly one is needed."
                    return NotUsable(name=name, reason="ClusterAmbiguous", message=message, fatal=True)
                for only in found:
                    check()
                    got = self._api.get(f"{secrets_path(namespace)}/{only}")
                    # Asked again: since it was listed, the Secret may have become another one's.
                    if got is not None and labels.items() <= (got["metadata"].get("labels") or {}).items():
                        return _sealed(name, got)
        except ClusterError as error:
            message = f"The Secrets of the namespace cannot be read ({error.code})."
            return NotUsable(name=name, reason=UNAVAILABLE, message=message)
        except TooManySecrets:
            message = TOO_MANY if namespace == own else TOO_MANY_GIVEN
            return NotUsable(name=name, reason=QUOTA_EXCEEDED, message=message, fatal=True)
        return None

    def _listed(self, namespace: str, selector: str, label: str, check: Callable[[], None]) -> dict[str, list[str]]:
        """Return the names of Secrets by the value of a label. What failed once fails for the other names too, without a request.

        :raises ClusterError: when they cannot be read.
        :raises TooManySecrets: when there are too many.
        """
        known = self._lists.get((namespace, selector))
        if known is None:
            try:
                known = self._lists[namespace, selector] = self._read(namespace, selector, label, check)
            except (ClusterError, TooManySecrets) as error:
                known = self._lists[namespace, selector] = error
        if isinstance(known, Exception):
            raise known
        return known

    def _read(self, namespace: str, selector: str, label: str, check: Callable[[], None]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        check()
        for page in labelled(self._api, namespace, selector):
            for secret in page:
                found.setdefault(secret.labels.get(label, ""), []).append(secret.name)
            check()
        return found


def _sealed(name: str, secret: Object) -> SealedKubeconfig | NotUsable:
    metadata, data = secret["metadata"], secret.get("data") or {}
    text = str(data.get("kubeconfig") or data.get("value") or "")
    if not text and (metadata.get("labels") or {}).get(ARGO_LABEL) == "cluster":
        text = json.dumps({"server": data.get("server"), "config": data.get("config")})
    if not text:
        message = "Its Secret has neither a key kubeconfig nor a key value."
        return NotUsable(name=name, reason="KubeconfigMissing", message=message)
    return sealed_text(name, text, str((metadata.get("annotations") or {}).get(ELB_ANNOTATION) or ""), secret)
