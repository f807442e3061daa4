# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Changes of a plan as text before and after, in the shape that Ansible's ``--diff`` prints.

Values of Secrets appear as digests only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.optional_imports import optional
from ..mesh.facts import ClusterFacts, PeerSecretFacts, WorkloadFacts
from ..mesh.ownership import own_keys
from ..mesh.traffic_facts import TrafficFacts
from ..plan.steps import (
    ApiWrite,
    ApplyHostAliases,
    ApplySecret,
    DeleteObject,
    FromSecret,
    IssuedAgain,
    Literal,
    NewAuthority,
    Plan,
    Recipe,
    Step,
    WriteUsers,
)
from .object_view import key_text, merge_patched, observed_object, part_of, readable_object, short_digest, traffic_object

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")


class Sides(NamedTuple):
    """Fields of the binding in an object as data, before and after; None: the object does not exist."""

    before: Any
    after: Any


def diff_plan(plan: Plan, facts: Mapping[str, ClusterFacts], traffic: Mapping[str, TrafficFacts] | None = None) -> list[dict[str, str]]:
    """Return one entry ``{before, after, before_header, after_header}`` per step, in the plan's order.

    Headers are ``cluster/namespace/kind/name``. Only fields of the plan's field manager are included, save for users.yaml, which is one
    text and is shown whole.

    :param traffic: objects that items are about, by inventory name.
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
        if step.item and step.cluster in traffic:
            return _sides_of_item(action, traffic_object(traffic[step.cluster], action.path))
        there = observed_object(cluster, action.path)
        return _sides_of_call(action, there, {key: _planned(recipe, facts) for key, recipe in sorted(action.secret_data.items())})
    if isinstance(action, ApplySecret):
        secret = _secret(cluster, action.name)
        after = {key: _planned(recipe, facts) for key, recipe in sorted(action.data.items())}
        return Sides(_own_data(secret, manager), {"data": after} if after else {})
    if isinstance(action, ApplyHostAliases):
        workload = next(w for w in (cluster.apiserver, cluster.agent) if w is not None and w.kind == action.kind)
        return Sides(_aliases(_own_aliases(workload, manager)), _aliases(action.aliases.items()))
    before = _users(cluster.users.text, cluster.users.annotations) if cluster.users.present else None
    if isinstance(action, WriteUsers):
        return Sides(before, _users(action.text, {action.annotation_key: action.annotation}))
    gone: DeleteObject = action
    return Sides(before if gone.kind == "ConfigMap" else _own_data(_secret(cluster, gone.name), manager), None)


def _sides_of_call(action: ApiWrite, there: dict[str, Any] | None, planned: Mapping[str, str]) -> Sides:
    """Return both sides of an API call. Before: the observed values of the fields that the call sets."""
    if action.method == "delete":
        return Sides(readable_object(there), None)
    body = {**action.body, "data": {**(action.body.get("data") or {}), **planned}} if planned else dict(action.body)
    if action.method == "create" or there is None:
        return Sides(None, body or None)
    shape = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    before = part_of(there, shape)
    after = merge_patched(before, shape)
    return Sides(readable_object(before, after), readable_object(after, before))


def _sides_of_item(action: ApiWrite, there: dict[str, Any] | None) -> Sides:
    """Return both sides of an item's write.

    A policy is the binding's as a whole, without defaults in the written fields (schemas of cilium.io/v2): the diff shows a removed rule.
    """
    if there is None or action.method != "apply" or not action.path.startswith("/apis/cilium.io/"):
        return _sides_of_call(action, there, {})
    shape = {key: value for key, value in action.body.items() if key not in ("apiVersion", "kind")}
    whole: dict[str, Any] = {key: there[key] for key in ("spec", "specs") if key in there}
    before = {**part_of(there, shape), **whole}
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
