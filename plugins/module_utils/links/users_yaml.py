# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Editor of users.yaml in ConfigMap clustermesh-remote-users that adds and removes names, and leaves every other character as it is.

The chart renders ``users:`` with a list, or with nothing after it; people write ``users: []``. All three are read as a list
(Cilium chart, templates/clustermesh-apiserver/users-configmap.yaml).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..base.optional_imports import optional

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")

ROLE = "remote"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, ten times as fast, where PyYAML was built with it
EMPTY = "users: []\n"


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
    document = yaml.load(text, Loader=_LOADER) or {}
    return yaml.safe_dump({**document, "users": wanted}, sort_keys=False)


def _entries(text: str) -> list[dict[str, object]]:
    try:
        document = yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError:
        raise ValueError("users.yaml is not YAML") from None
    users = (document or {}).get("users") if isinstance(document, dict | None) else None
    if not isinstance(document, dict | None) or not isinstance(users, list | None):
        raise ValueError("users.yaml holds no list of users")
    if not all(isinstance(entry, dict) for entry in users or ()):
        raise ValueError("an entry of users.yaml is not a mapping")
    return list(users or ())


def _same(edited: str, original: str, wanted: list[dict[str, object]]) -> bool:
    try:
        document, before = yaml.load(edited, Loader=_LOADER), yaml.load(original, Loader=_LOADER) or {}
    except yaml.YAMLError:
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
    root = yaml.compose(text, Loader=_LOADER)
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
