# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Labels by which the operator finds a workspace's Clusters and their Secrets on a management plane: what is missing, and what contradicts.

No label is overwritten: a label with another value is a problem, and with a problem nothing is to be written. A Secret that Clusters of
several workspaces name is a problem too, since the name of an imported cluster's Secret is its tenant's choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..module_utils.base.input_problems import LABEL, Problems
from ..module_utils.mesh.ownership.marks import SOURCE_NAME_LABEL, SOURCE_WORKSPACE_LABEL

SOURCE_NAMESPACE_LABEL: Final = "edge-connect.eu/source-namespace"
CAPI_LABEL: Final = "cluster.x-k8s.io/cluster-name"
UNKNOWN: Final = "LOGICAL_CLUSTER"
"""Placeholder for a workspace that is not known. It is not valid, so that it cannot be left in place."""

# Name of an object: the API server permits parts between dots that are longer than those of a DNS name (apimachinery, IsDNS1123Subdomain).
_OBJECT: Final = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME_IN_LABEL: Final = re.compile(rf"(?=.{{0,63}}$)(?:{_OBJECT.pattern})?")
_FIELDS: Final = {
    "cluster": (_OBJECT, "must be the name of a Cluster"),
    "workspace": (LABEL, "must be the logical cluster of a workspace (its annotation kcp.io/cluster), and not its path"),
    "namespace": (re.compile(f"(?:{LABEL.pattern})?"), "must be a namespace"),
    "name": (
        _NAME_IN_LABEL,
        "must be the name of a KubernetesCluster, of at most 63 characters. Only a Cluster of that name has a longer one",
    ),
}
"""Field of an entry -> its form, and what the message says of it."""

Object = Mapping[str, Any]
Labels = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ClusterOwner:
    """KubernetesCluster that a Cluster stands for. An empty ``namespace`` or ``name`` asks for no label."""

    cluster: str
    workspace: str
    namespace: str = ""
    name: str = ""

    def labels(self) -> dict[str, str]:
        """Return the labels of the Cluster."""
        wanted = {SOURCE_WORKSPACE_LABEL: self.workspace, SOURCE_NAMESPACE_LABEL: self.namespace, SOURCE_NAME_LABEL: self.name}
        return {key: value for key, value in wanted.items() if value}


@dataclass(frozen=True, kw_only=True)
class LabelPlan:
    """Missing labels. With ``problems`` there are no ``patches``.

    ``waiting``: sentences about Secrets that do not exist yet. ``missing``: Clusters that no workspace can use even then, each with the
    workspace of its label or UNKNOWN.
    """

    patches: tuple[Object, ...]
    problems: tuple[str, ...]
    waiting: tuple[str, ...]
    missing: tuple[Mapping[str, str], ...]


def label_plan(clusters: Sequence[Object], secrets: Sequence[Object], owners: Any) -> LabelPlan:
    """Return which labels the Clusters of these owners and their Secrets lack.

    :param clusters: all Clusters of the namespace.
    :param secrets: all Secrets of the namespace; of each the metadata is enough.
    :param owners: user input, a list of mappings with the fields of ``ClusterOwner``.
    """
    problems = Problems()
    parsed = _parse_owners(problems, owners)
    known, held = _by_name(clusters), _by_name(secrets)
    after = {name: {**_labels(cluster), **(parsed[name].labels() if name in parsed else {})} for name, cluster in known.items()}
    found, waiting = list(problems.found), list[str]()
    patches: dict[tuple[str, str], Object] = {}
    for name, owner in parsed.items():
        cluster = known.get(name)
        if cluster is None:
            found.append(f"There is no Cluster {name}. Correct the name, or leave out the entry.")
            continue
        found += [*_contradictions(cluster, owner.labels()), *_ambiguities(name, after)]
        patches["Cluster", name] = _patch(cluster, owner.labels())
        named = secret_name(cluster)
        found += _shared(named, known, after, owner.workspace)
        secret = held.get(named)
        if secret is None:
            waiting.append(f"Secret {named} of Cluster {name} does not exist yet." if named else f"Cluster {name} names no Secret yet.")
            continue
        wanted = {SOURCE_WORKSPACE_LABEL: owner.workspace}
        found += [*_contradictions(secret, wanted), *_made_for_another(secret, name, wanted)]
        patches["Secret", named] = _patch(secret, wanted)
    written = [patch for patch in patches.values() if patch["metadata"]["labels"]]
    labelled = {named for kind, named in patches if kind == "Secret"}
    return LabelPlan(
        patches=() if found else tuple(written),
        problems=tuple(dict.fromkeys(found)),
        waiting=tuple(waiting),
        missing=tuple(_missing(known, held, after, labelled)),
    )


def secret_name(cluster: Object) -> str:
    """Return the name of the Secret that a Cluster names, as the operator reads it; "" for none."""
    ref = (cluster.get("status") or {}).get("kubeconfigSecretRef") or {}
    is_capi = str(cluster.get("apiVersion")).startswith("cluster.x-k8s.io/")
    name = f"{cluster['metadata']['name']}-kubeconfig" if is_capi and not ref else str(ref.get("name") or "")
    return name if _OBJECT.fullmatch(name) else ""


def _parse_owners(problems: Problems, owners: Any) -> dict[str, ClusterOwner]:
    if not isinstance(owners, (list, tuple)):
        problems.add("owners", "must be a list of mappings with the keys cluster and workspace")
        return {}
    found: dict[str, ClusterOwner] = {}
    for number, entry in enumerate(owners):
        path = f"owners[{number}]"
        texts = problems.mapping(path, entry, tuple(_FIELDS), optional=False)
        values = {key: str(texts.get(key) or "") for key in _FIELDS}
        wrong = {key: words for key, (form, words) in _FIELDS.items() if not form.fullmatch(values[key])}
        for key, words in wrong.items() if texts else ():
            problems.add(f"{path}.{key}", words)
        if values["cluster"] in found:
            problems.add(f"{path}.cluster", f"{values['cluster']} is there twice")
        if not wrong:
            found[values["cluster"]] = ClusterOwner(**values)
    return found


def _contradictions(obj: Object, wanted: Labels) -> Iterator[str]:
    """Yield a sentence for each label with another value than the wanted one."""
    labels = _labels(obj)
    for key, value in wanted.items():
        if labels.get(key, value) != value:
            yield (
                f"{obj['kind']} {obj['metadata']['name']} has the label {key} with the value {labels[key]!r}, and not {value!r}. No label"
                f" is overwritten. If {value!r} is right, remove the label: {_kubectl_label(obj)} {key}-"
            )


def _kubectl_label(obj: Object) -> str:
    """Return the beginning of the command that changes a label of the object."""
    group = str(obj["apiVersion"]).rpartition("/")[0]
    kind = ".".join([str(obj["kind"]).lower(), *([group] if group else [])])
    return f"kubectl -n {obj['metadata']['namespace']} label {kind} {obj['metadata']['name']}"


def _ambiguities(name: str, after: Mapping[str, Labels]) -> Iterator[str]:
    """Yield a sentence for each other Cluster that would stand for the same KubernetesCluster."""
    own = after[name]
    for other, labels in after.items():
        namespaces = {entry.get(SOURCE_NAMESPACE_LABEL, "") for entry in (own, labels)} - {""}
        same = all(
            (entry.get(SOURCE_WORKSPACE_LABEL), entry.get(SOURCE_NAME_LABEL, its))
            == (own[SOURCE_WORKSPACE_LABEL], own.get(SOURCE_NAME_LABEL, name))
            for its, entry in ((name, own), (other, labels))
        )
        if other != name and same and len(namespaces) < 2:
            first, second = sorted((name, other))
            called = own.get(SOURCE_NAME_LABEL, name)
            yield f"Clusters {first} and {second} would both stand for KubernetesCluster {called} of one workspace. Exactly one can."


def _shared(secret: str, clusters: Mapping[str, Object], after: Mapping[str, Labels], workspace: str) -> Iterator[str]:
    """Yield a sentence if Clusters that are not all of the workspace name the Secret."""
    naming = sorted(name for name, cluster in clusters.items() if secret and secret_name(cluster) == secret)
    owners = {name: after[name].get(SOURCE_WORKSPACE_LABEL) or "no workspace" for name in naming}
    if set(owners.values()) - {workspace}:
        shown = ", ".join(f"{name} ({owner})" for name, owner in owners.items())
        yield (
            f"Secret {secret} is named by Clusters that are not of one workspace: {shown}. One of them may be an imported cluster whose"
            " tenant chose the name of another one's Secret. Give each workspace a Secret of its own."
        )


def _made_for_another(secret: Object, cluster: str, wanted: Labels) -> Iterator[str]:
    """Yield a sentence if Cluster API made the Secret for another Cluster, and the label of the workspace is not there yet."""
    made_for = _labels(secret).get(CAPI_LABEL, cluster)
    if made_for != cluster and not wanted.keys() <= _labels(secret).keys():
        pairs = " ".join(f"{key}={value}" for key, value in wanted.items())
        yield (
            f"Cluster {cluster} names Secret {secret['metadata']['name']}, which Cluster API made for Cluster {made_for}. If both are one"
            f" cluster, label the Secret yourself: {_kubectl_label(secret)} {pairs}"
        )


def _patch(obj: Object, wanted: Labels) -> Object:
    """Return the merge patch with the missing labels. An object that changed since it was read refuses it, by its resourceVersion."""
    labels = {key: value for key, value in wanted.items() if key not in _labels(obj)}
    kept = {key: obj["metadata"][key] for key in ("name", "namespace", "resourceVersion") if key in obj["metadata"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {**kept, "labels": labels}}


def _missing(
    clusters: Mapping[str, Object], secrets: Mapping[str, Object], after: Mapping[str, Labels], labelled: set[str]
) -> Iterator[Mapping[str, str]]:
    """Yield the Clusters that belong to no workspace, or whose Secret exists and does not."""
    for name, cluster in sorted(clusters.items()):
        workspace, named = after[name].get(SOURCE_WORKSPACE_LABEL), secret_name(cluster)
        labels = _labels(secrets.get(named) or {})
        theirs = named not in secrets or named in labelled or SOURCE_WORKSPACE_LABEL in labels
        if not workspace or not (theirs or labels.get(CAPI_LABEL) == name):
            yield {"cluster": name, "workspace": workspace or UNKNOWN}


def _by_name(objects: Sequence[Object]) -> dict[str, Object]:
    return {str(obj["metadata"]["name"]): obj for obj in objects}


def _labels(obj: Object) -> Labels:
    return (obj.get("metadata") or {}).get("labels") or {}
