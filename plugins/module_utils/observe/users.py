# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of ConfigMap ``clustermesh-remote-users``: the etcd users of peers."""

from __future__ import annotations

from typing import Any

from ..base.json_fields import annotations_of, labels_of, mapping, text
from ..base.yaml_reader import NotYaml, load_yaml
from ..mesh.facts.cluster import RemoteUsersFacts
from .ownership import managers

LIMIT = 256 * 1024  # characters; 511 users have some 25,000


def remote_users_facts(value: Any) -> RemoteUsersFacts:
    """Return the facts of the ConfigMap, present or missing."""
    if value is None:
        return RemoteUsersFacts()
    content = mapping(value, "data").get("users.yaml")
    users, problem = parse_users(content) if isinstance(content, str) else ({}, "it has no key users.yaml")
    return RemoteUsersFacts(
        present=True,
        uid=text(value, "metadata", "uid"),
        resource_version=text(value, "metadata", "resourceVersion"),
        users=users,
        problem=problem,
        text=content if isinstance(content, str) else "",
        managers=managers(value),
        labels=labels_of(value),
        annotations=annotations_of(value),
    )


def parse_users(content: str) -> tuple[dict[str, str], str]:
    """Return (user name -> role in the order of the file, ""), or ({}, why it cannot be parsed).

    Cilium's chart writes "users:" and nothing after it when there are no peers: YAML null, an empty list.
    """
    if len(content) > LIMIT:
        return {}, "users.yaml is too long"
    try:
        document = load_yaml(content)
    except NotYaml as error:
        return {}, f"users.yaml cannot be read: {error}"
    if document is None:
        return {}, ""
    entries = document.get("users") if isinstance(document, dict) else "no list"
    if entries is None:
        return {}, ""
    if not isinstance(entries, list):
        return {}, 'users.yaml has no list "users"'
    users: dict[str, str] = {}
    for entry in entries:
        name, role = text(entry, "name"), text(entry, "role")
        if not name or not role:
            return {}, "users.yaml has a user without name or role"
        users[name] = role
    return users, ""
