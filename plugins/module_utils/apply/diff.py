# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Changes of a plan as text before and after, in the shape that Ansible's ``--diff`` prints.

Values of Secrets appear as digests only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..base.json_fields import mapping
from ..base.optional_imports import optional
from ..mesh.facts.cluster import ClusterFacts, PeerSecretFacts, SecretKeyFacts, WorkloadFacts
from ..mesh.facts.traffic import TrafficFacts
from ..mesh.ownership.managed_fields import entries_of, summary
from ..mesh.ownership.objects import own_keys
from ..plan.steps import (
    ApiWrite,
    ApplyHostAliases,
    ApplySecret,
    DeleteObject,
    FromSecret,
    IssuedAgain,
    Literal,
    MemberToken,
    NewAuthority,
    Plan,
    Recipe,
    Step,
    WriteUsers,
)

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")

SHOWN_DIGITS: Final = 12
KINDS: Final = {
    "secrets": "Secret",
    "configmaps": "ConfigMap",
    "services": "Service",
    "deployments": "Deployment",
    "daemonsets": "DaemonSet",
}
PRECONDITIONS: Final = ("uid", "resourceVersion", "name", "namespace")


class Sides(NamedTuple):
    """Fields of the binding in an object as data, before and after; None: the object does not exist."""

    before: Any
    after: Any


def diff_plan(plan: Plan, facts: Mapping[str, ClusterFacts], traffic: Mapping[str, TrafficFacts] | None = None) -> list[dict[str, str]]:
    """Return one entry ``{before, after, before_header, after_header}`` per step, in the plan's order.

    Headers are ``cluster/namespace/kind/name``. Only fields of the plan's field manager are included, save for users.yaml, which is one
    text and is shown whole.

    :param traffic: objects that the steps are about, by inventory name; {} for a plan of links.
    """
    return [_entry(step, _sides(step, facts, plan.manager, traffic or {})) for step in plan.steps]


def _entry(step: Step, sides: Sides) -> dict[str, str]:
    action = step.action
    if isinstance(action, ApiWrite):
        header = f"{step.cluster}{action.path}"
        return {"before": _text(sides.before), "after": _text(sides.after), "before_header": header, "after_header": header}
    kind = {ApplySecret: "Secret", WriteUsers: "ConfigMap"}.get(type(action)) or getattr(action, "kind", "")
    header = f"{step.cluster}/{action.namespace}/{kind}/{action.name}"
    return {"before": _text(sides.before), "after": _text(sides.after), "before_header": header, "after_header": header}


def _sides(step: Step, facts: Mapping[str, ClusterFacts], manager: str, traffic: Mapping[str, TrafficFacts]) -> Sides:
    cluster, action = facts[step.cluster], step.action
    if isinstance(action, ApiWrite):
        if step.cluster in traffic:
            return _sides_of_item(action, traffic_object(traffic[step.cluster], action.path))
        observed = observed_object(cluster, action.path)
        return _sides_of_call(action, observed, {key: _planned(recipe, facts) for key, recipe in sorted(action.secret_data.items())})
    if isinstance(action, ApplySecret):
        secret = _secret(cluster, action.name)
        after = {key: _planned(recipe, facts) for key, recipe in sorted(action.data.items())}
        return Sides(_own_data(secret, manager), {"data": after} if after else {})
    if isinstance(action, ApplyHostAliases):
        workload = next(w for w in (cluster.apiserver, cluster.agent) if w is not None and w.kind == action.kind)
        return Sides(_aliases(_own_aliases(workload, manager)), _aliases(action.aliases.items()))
    before = _users(cluster.users.text, cluster.users.annotations) if cluster.users.present else None
    if isinstance(action, WriteUsers):
        return Sides(before, _users(action.text, {**action.marks, action.annotation_key: action.annotation}))
    gone: DeleteObject = action
    return Sides(before if gone.kind == "ConfigMap" else _own_data(_secret(cluster, gone.name), manager), None)


def _sides_of_call(action: ApiWrite, observed: dict[str, Any] | None, planned: Mapping[str, str]) -> Sides:
    """Return both sides of an API call. Before: the observed values of the fields that the call sets."""
    if action.method == "delete":
        return Sides(readable_object(observed), None)
    body = {**action.body, "data": {**(action.body.get("data") or {}), **planned}} if planned else dict(action.body)
    if action.method == "create" or observed is None:
        return Sides(None, body or None)
    shape = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    before = part_of(observed, shape)
    after = merge_patched(before, shape)
    return Sides(readable_object(before, after), readable_object(after, before))


def _sides_of_item(action: ApiWrite, observed: dict[str, Any] | None) -> Sides:
    """Return both sides of an item's write.

    A policy is the binding's as a whole, without defaults in the written fields (schemas of cilium.io/v2): the diff shows a removed rule.
    """
    if observed is None or action.method != "apply" or not action.path.startswith("/apis/cilium.io/"):
        return _sides_of_call(action, observed, {})
    shape = {key: value for key, value in action.body.items() if key not in ("apiVersion", "kind")}
    whole: dict[str, Any] = {key: observed[key] for key in ("spec", "specs") if key in observed}
    before = {**part_of(observed, shape), **whole}
    return Sides(readable_object(before), readable_object(shape))


def _secret(cluster: ClusterFacts, name: str) -> PeerSecretFacts:
    return cluster.kvstoremesh if name == cluster.kvstoremesh.name else cluster.clustermesh


def _own_data(secret: PeerSecretFacts, manager: str) -> dict[str, Any] | None:
    keys = sorted(own_keys(secret, manager))
    if not secret.present:
        return None
    return {"data": {key: key_text(secret.keys[key]) for key in keys}} if keys else {}


def _planned(recipe: Recipe, facts: Mapping[str, ClusterFacts]) -> str:
    if isinstance(recipe, Literal):
        return recipe.text
    if isinstance(recipe, FromSecret):
        return _where_it_stands(recipe, facts)
    if isinstance(recipe, NewAuthority):
        return f"new {recipe.part} of a CA {recipe.common_name!r}, {recipe.days} days"
    if isinstance(recipe, IssuedAgain):
        return f"new {recipe.part} as in {recipe.secret}, issued by cilium-ca"
    if isinstance(recipe, MemberToken):
        return f"new token of ServiceAccount {recipe.namespace}/{recipe.account}, {recipe.seconds // 3600} hours"
    return f"new {recipe.part} for {recipe.common_name}, {recipe.days} days, issued by the CA of {recipe.issuer}"


def _where_it_stands(recipe: FromSecret, facts: Mapping[str, ClusterFacts]) -> str:
    cluster = facts[recipe.cluster]
    for secret in (cluster.kvstoremesh, cluster.clustermesh):
        if secret.name == recipe.secret and recipe.key in secret.keys:
            return key_text(secret.keys[recipe.key])
    for tls in (cluster.server_cert, cluster.remote_cert):
        if tls.name == recipe.secret and recipe.key in tls.digests:
            return short_digest(tls.digests[recipe.key])
    return f"from {recipe.cluster}/{recipe.secret}"


def _own_aliases(workload: WorkloadFacts, manager: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(alias.ip, alias.hostnames) for alias in workload.host_aliases if manager in alias.managers]


def _aliases(entries: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, Any]:
    shown = [{"ip": ip, "hostnames": sorted(names)} for ip, names in sorted(entries)]
    return {"spec": {"template": {"spec": {"hostAliases": shown}}}} if shown else {}


def _users(text: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    ours = {key: value for key, value in annotations.items() if value}
    return {"metadata": {"annotations": ours}, "data": {"users.yaml": text}} if ours else {"data": {"users.yaml": text}}


class _Dumper(yaml.SafeDumper):
    """YAML dumper that writes texts of several lines as blocks, so that a diff goes by their lines."""


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


if yaml:
    _Dumper.add_representer(str, _as_block)


def _text(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1000) if value else ""


def observed_object(cluster: ClusterFacts, path: str) -> dict[str, Any] | None:
    """Return ``{metadata, data}`` of the object at the API path; ``{}`` if the facts do not cover it, None if it does not exist."""
    collection, _sep, name = path.rpartition("/")
    kind = KINDS.get(collection.rpartition("/")[2], "")
    found = _content(cluster, kind, name)
    if not found:
        return found
    entries = entries_of(cluster.writers.get(f"{kind} {name}", ()))
    return {**found, "metadata": {**found["metadata"], **({"managedFields": entries} if entries else {})}}


def traffic_object(traffic: TrafficFacts, path: str) -> dict[str, Any] | None:
    """Return ``{metadata, spec, specs}`` of the observed object at the API path; None if it does not exist."""
    found = traffic.by_path.get(path)
    if found is None:
        return None
    rules = {"specs": [dict(rule) for rule in found.specs]} if found.specs else {}
    spec = {"spec": dict(found.spec)} if found.spec else {}
    return {"metadata": {"labels": dict(found.labels), "annotations": dict(found.annotations)}, **spec, **rules}


def key_text(key: SecretKeyFacts) -> str:
    """Return a key of a Secret of peers as text: the configuration in clear, which holds no credentials; all else as a digest."""
    return key.config if key.config is not None else short_digest(key.digest)


def short_digest(digest: str) -> str:
    """Return a digest in its short form for diffs, ``sha256:`` and 12 digits."""
    return f"sha256:{digest[:SHOWN_DIGITS]}"


def part_of(whole: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ``whole`` that ``shape`` has too."""
    found: dict[str, Any] = {}
    for key, value in shape.items():
        if key in whole:
            below = whole[key]
            found[key] = part_of(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else below
    return found


def merge_patched(whole: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``whole`` after a JSON merge patch (RFC 7386)."""
    found = dict(whole)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping):
            below = found.get(key)
            found[key] = merge_patched(below if isinstance(below, Mapping) else {}, value)
        else:
            found[key] = value
    return found


def readable_object(value: Mapping[str, Any] | None, other: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Return an object without preconditions, and with managedFields in words: only the owners whose fields differ from ``other``'s."""
    if value is None:
        return None
    metadata = {k: v for k, v in mapping(value, "metadata").items() if k not in PRECONDITIONS and v not in ({}, None)}
    if "managedFields" in metadata:
        against = summary(mapping(other, "metadata").get("managedFields") or ())
        metadata["managedFields"] = {k: v for k, v in summary(metadata["managedFields"]).items() if against.get(k) != v}
    rest = {k: v for k, v in value.items() if k not in ("metadata", "apiVersion", "kind") and v not in ({}, None)}
    return {**({"metadata": metadata} if metadata else {}), **rest}


def _content(cluster: ClusterFacts, kind: str, name: str) -> dict[str, Any] | None:
    if kind == "Secret":
        return _secret_object(cluster, name)
    if kind == "ConfigMap" and name == "clustermesh-remote-users":
        users = cluster.users
        return _object(users.labels, users.annotations, {"users.yaml": users.text}) if users.present else None
    if kind == "ConfigMap" and name.startswith("cilium-mesh-"):
        registry = cluster.registry
        return _object(registry.labels, {}, {"leases.json": registry.text}) if registry.present else None
    if kind == "Service" and name == "clustermesh-apiserver":
        return _object(cluster.service.labels, cluster.service.annotations) if cluster.service else None
    for workload in (cluster.apiserver, cluster.agent, cluster.operator):
        if workload is not None and (workload.kind, workload.name) == (kind, name):
            return _object(workload.labels, workload.annotations)
    return {}


def _secret_object(cluster: ClusterFacts, name: str) -> dict[str, Any] | None:
    for peers in (cluster.kvstoremesh, cluster.clustermesh):
        if peers.name == name:
            return _peers(peers)
    for tls in (cluster.server_cert, cluster.remote_cert, cluster.local_cert, cluster.admin_cert):
        if tls.name == name:
            return _object({}, {}, {key: short_digest(digest) for key, digest in tls.digests.items()}) if tls.present else None
    return {}


def _peers(secret: PeerSecretFacts) -> dict[str, Any] | None:
    if not secret.present:
        return None
    return _object(secret.labels, secret.annotations, {key: key_text(facts) for key, facts in secret.keys.items()})


def _object(labels: Mapping[str, str], annotations: Mapping[str, str], data: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"labels": dict(labels), "annotations": dict(annotations)}, **({"data": dict(data)} if data else {})}
