# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Users that a cluster's mesh etcd needs, and the one write to ConfigMap clustermesh-remote-users that updates them.

users.yaml is one string, so an annotation per binding records the users that it added; a user that no annotation names is another writer's.

The chart renders ``users:`` with a list, or with nothing after it; people write ``users: []``. All three are read as a list
(Cilium chart, templates/clustermesh-apiserver/users-configmap.yaml).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ..base.optional_imports import optional
from ..base.yaml_reader import NotYaml, compose_yaml, load_yaml
from ..findings.finding import Finding
from ..findings.wording import finding
from ..mesh.binding.model import Binding
from ..mesh.facts.cluster import ClusterFacts
from ..mesh.ownership.marks import USERS_ANNOTATION
from ..mesh.ownership.objects import labels_of_new_object, made_by_bindings, marks_for_helm
from ..mesh.trust.link_trust import PLAIN_USER, user_for
from ..mesh.versions.minors import cilium_version, holds
from ..plan.steps import DeleteObject, Step, WriteUsers
from .peer_keys import Link

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")

ROLE = "remote"
EMPTY = "users: []\n"

CONFIG_MAP = "clustermesh-remote-users"


def desired_users(cluster: ClusterFacts, incoming: Iterable[Link]) -> frozenset[str]:
    """Return the users that must be able to log in at ``cluster``; none if its etcd has no per-peer users.

    Every linked cluster gets its own user, also while it logs in as plain ``remote``: a change of its auth mode then drops no link.
    """
    if not cluster.users_enabled:
        return frozenset()
    links = list(incoming)
    users = {user_for(link.local) for link in links} | {link.trust.common_name for link in links} - {PLAIN_USER}
    if users and cluster.runs_kvstoremesh and holds("remote_users_list_self", cilium_version(cluster)):
        users.add(user_for(cluster))  # its agents show the remote certificate to their own kvstoremesh
    return frozenset(users)


def own_users(cluster: ClusterFacts, binding: Binding) -> frozenset[str]:
    """Return the users that this binding added."""
    return _parse_list(cluster.users.annotations.get(_annotation(binding.owner), ""))


def users_problems(cluster: ClusterFacts, desired: frozenset[str], binding: Binding) -> Iterator[Finding]:
    """Yield the reasons why the users cannot be added to users.yaml, or why those of this binding cannot be removed."""
    broken = partial(finding, "CM-USER-02", cluster=cluster.host)
    where = f"ConfigMap {cluster.namespace}/{CONFIG_MAP}, key users.yaml"
    if cluster.users.problem and (desired or own_users(cluster, binding)):
        yield broken(
            summary=f"users.yaml of {cluster.host} cannot be changed without losing users",
            evidence=f"{where}: {cluster.users.problem}",
            fix="write it as a list: users: []",
        )
    for user in sorted(desired & set(cluster.users.users)):
        if cluster.users.users[user] != ROLE:
            yield broken(
                summary=f"user {user} of {cluster.host}'s mesh etcd does not have the role {ROLE}",
                evidence=where,
                fix=f"give {user} the role {ROLE}, or take the entry out",
            )


def users_step(
    cluster: ClusterFacts, desired: frozenset[str], binding: Binding, *, wave: int, why: str, create: bool = False
) -> Step | None:
    """Return the write that adds ``desired`` and removes what this binding added and no longer needs; None if nothing changes.

    :param create: also make the ConfigMap without users, where clustermesh-apiserver waits for it.
    """
    facts, ours = cluster.users, own_users(cluster, binding)
    if facts.problem or (not facts.present and not desired and not (create and cluster.users_enabled)):
        return None
    others = _users_of_other_bindings(cluster, binding)
    add = sorted(desired - set(facts.users))
    remove = sorted((ours - desired - others) & set(facts.users))
    now_ours = frozenset(add) | (desired & (ours | others))
    if facts.present and not add and not remove and now_ours == ours:
        return None
    where = f"ConfigMap {cluster.namespace}/{CONFIG_MAP}"
    step = partial(Step, wave=wave, cluster=cluster.host, object=where, why=_reason(why, add, remove, present=facts.present))
    if _nothing_left(cluster, binding, add, remove):
        gone = DeleteObject(
            namespace=cluster.namespace, kind="ConfigMap", name=CONFIG_MAP, uid=facts.uid, resource_version=facts.resource_version
        )
        return step(verb="delete", undo="playbook edge_portal.cilium_mesh.connect creates it again", action=gone)
    labels, marks = marks_for_helm(cluster)
    action = WriteUsers(
        namespace=cluster.namespace,
        text=edit_users(facts.text if facts.present else EMPTY, add=add, remove=remove),
        annotation_key=_annotation(binding.owner),
        annotation=",".join(sorted(now_ours)),
        resource_version=facts.resource_version,
        labels={} if facts.present else labels_of_new_object(binding) | labels,
        marks={} if facts.present else marks,
    )
    undo = f"take {', '.join(add)} out again" if add else f"add {', '.join(remove)} again" if remove or facts.present else "delete it"
    return step(verb="patch" if facts.present else "create", undo=undo, action=action)


def _nothing_left(cluster: ClusterFacts, binding: Binding, add: Iterable[str], remove: Iterable[str]) -> bool:
    """Return whether a binding created the ConfigMap, no pod needs it, and every user in it is about to be removed.

    The volume of clustermesh-apiserver is not optional: without the ConfigMap its next pod would not start.
    """
    facts = cluster.users
    return (
        not add
        and facts.present
        and not cluster.users_enabled
        and set(facts.users) == set(remove)
        and made_by_bindings(facts.managers, facts.labels)
        and not _users_of_other_bindings(cluster, binding)
    )


def _users_of_other_bindings(cluster: ClusterFacts, binding: Binding) -> frozenset[str]:
    mine = _annotation(binding.owner)
    texts = (v for k, v in cluster.users.annotations.items() if k.startswith(f"{USERS_ANNOTATION}/") and k != mine)
    return frozenset().union(*(_parse_list(text) for text in texts))


def _annotation(owner: str) -> str:
    return f"{USERS_ANNOTATION}/{owner}"


def _parse_list(text: str) -> frozenset[str]:
    return frozenset(name for name in text.split(",") if name)


def _reason(why: str, add: list[str], remove: list[str], *, present: bool) -> str:
    parts = [f"add {', '.join(add)}" if add else "", f"take out {', '.join(remove)}" if remove else ""]
    return f"{why}: " + ("; ".join(p for p in parts if p) or ("record which users this binding needs" if present else "no user yet"))


def edit_users(text: str, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
    """Return ``text`` with the users ``add`` (role remote) at the end and without ``remove``. A name that is there is not added again.

    Comments, order and other fields stay. A text in flow style cannot be edited by line and is written anew.

    :raises ValueError: when the text is not a mapping with a list of ``users``.
    """
    before = _entries(text)
    gone = set(remove)
    present = {entry.get("name") for entry in before}
    new = [name for name in dict.fromkeys(add) if name not in present or name in gone]
    wanted = [entry for entry in before if entry.get("name") not in gone] + [{"name": name, "role": ROLE} for name in new]
    if wanted == before:
        return text
    edited = _edit_lines(text, gone, new)
    # The edit is verified by parsing it with one new user for all: they differ only in the name, and hundreds would take long to parse.
    sample = _edit_lines(text, gone, new[:1])
    if edited is not None and sample is not None and _same(sample, text, wanted[: len(wanted) - len(new[1:])]):
        return edited
    document = load_yaml(text) or {}
    return yaml.safe_dump({**document, "users": wanted}, sort_keys=False)


def _entries(text: str) -> list[dict[str, object]]:
    try:
        document = load_yaml(text)
    except NotYaml as error:
        raise ValueError(f"users.yaml cannot be read: {error}") from None
    users = (document or {}).get("users") if isinstance(document, dict | None) else None
    if not isinstance(document, dict | None) or not isinstance(users, list | None):
        raise ValueError("users.yaml holds no list of users")
    if not all(isinstance(entry, dict) for entry in users or ()):
        raise ValueError("an entry of users.yaml is not a mapping")
    return list(users or ())


def _same(edited: str, original: str, wanted: list[dict[str, object]]) -> bool:
    try:
        document, before = load_yaml(edited), load_yaml(original) or {}
    except NotYaml:
        return False
    return (
        isinstance(document, dict) and (document.get("users") or []) == wanted and {**before, "users": None} == {**document, "users": None}
    )


def _edit_lines(text: str, gone: set[str], new: list[str]) -> str | None:
    """Return the text edited by lines; None if the list is not in block style."""
    lines = text.splitlines()
    node = _users_node(text)
    if node is None:
        return (text if not text.strip() else text.rstrip("\n") + "\n") + "users:\n" + _block(new, "") if new else None
    if not isinstance(node, yaml.SequenceNode) or not node.value:  # null, or []
        line = node.start_mark.line
        head, colon, rest = lines[line].partition("users:")
        if not colon or rest.split("#")[0].strip() not in ("", "[]", "null", "~"):
            return None
        comment = rest[rest.index("#") :] if "#" in rest else ""
        lines[line : line + 1] = [(f"{head}users: {comment}").rstrip(), *_block(new, head).splitlines()]
        return "\n".join(lines) + "\n"
    if node.flow_style:
        return None
    indent = " " * _dash_column(lines[node.value[0].start_mark.line])
    last = _last_line(node.value[-1])
    lines[last + 1 : last + 1] = _block(new, indent).splitlines()
    for entry in reversed(node.value):
        if _name(entry) in gone:
            del lines[entry.start_mark.line : _last_line(entry) + 1]
    return "\n".join(lines) + "\n"


def _users_node(text: str) -> yaml.Node | None:
    root = compose_yaml(text)
    if not isinstance(root, yaml.MappingNode):
        return None
    return next((value for key, value in root.value if key.value == "users"), None)


def _name(entry: yaml.Node) -> str:
    if not isinstance(entry, yaml.MappingNode):
        return ""
    return next((str(value.value) for key, value in entry.value if key.value == "name"), "")


def _last_line(node: yaml.Node) -> int:
    """Return the line of a node's last character. The end mark of a block collection lies behind comments and blank lines that follow."""
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _last_line(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return _last_line(node.value[-1])
    return int(node.end_mark.line)


def _dash_column(line: str) -> int:
    return len(line) - len(line.lstrip())


def _block(names: list[str], indent: str) -> str:
    return "".join(f"{indent}- name: {name}\n{indent}  role: {ROLE}\n" for name in names)
