# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Every field of kubeconfig v1: its type is demanded by name, null and what is empty count for nothing, and other fields do not exist."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.document import parse_kubeconfig
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.fields import FIELDS, Entry
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.invalid import KubeconfigInvalid

# The fields of the reference of kubeconfig v1, and values that each has to take and to refuse.
TEXT, FLAG, BASE64, LIST, MAP = "text", "flag", "base64", "list", "map"
KINDS = {
    "cluster": {
        **dict.fromkeys(("server", "tls-server-name", "certificate-authority", "proxy-url"), TEXT),
        **dict.fromkeys(("insecure-skip-tls-verify", "disable-compression"), FLAG),
        "certificate-authority-data": BASE64,
        "extensions": LIST,
    },
    "user": {
        **dict.fromkeys(("client-certificate", "client-key", "token", "tokenFile", "as", "as-uid", "username", "password"), TEXT),
        **dict.fromkeys(("client-certificate-data", "client-key-data"), BASE64),
        **dict.fromkeys(("as-groups", "extensions"), LIST),
        **dict.fromkeys(("as-user-extra", "auth-provider", "exec"), MAP),
    },
    "context": {**dict.fromkeys(("cluster", "user", "namespace"), TEXT), "extensions": LIST},
}
TAKEN: dict[str, tuple[Any, Any]] = {
    TEXT: ("/x", "/x"),
    FLAG: (True, True),
    BASE64: ("eA==\n", b"x"),
    LIST: ([], None),
    MAP: ({}, {}),
}
CANARY = "canary-77ab"
REFUSED: dict[str, tuple[Any, ...]] = {
    TEXT: (7, 1.5, True, [CANARY], {CANARY: CANARY}, b"x"),
    FLAG: ("true", "false", "", 1, 0, [True], {CANARY: True}),
    BASE64: (7, True, [CANARY], f"{CANARY}!", "eA", "eA==="),
    LIST: (CANARY, {CANARY: CANARY}, 7, True),
    MAP: (CANARY, [CANARY], 7, True),
}
ROWS = [(kind, field, form) for kind, fields in KINDS.items() for field, form in fields.items()]


def parsed(kind: str, fields: Any) -> Entry:
    found = parse_kubeconfig({f"{kind}s": [{"name": "a", kind: fields}]}, "/folder")
    return {"cluster": found.clusters, "user": found.users, "context": found.contexts}[kind]["a"]


def refused(kind: str, fields: Any) -> str:
    with pytest.raises(KubeconfigInvalid) as caught:
        parsed(kind, fields)
    assert CANARY not in caught.value.message and caught.value.plain.startswith(f"a {kind} ")
    return caught.value.message


def test_the_table_has_every_field() -> None:
    assert {kind: {*fields} for kind, fields in KINDS.items()} == {kind: {*parsed_fields(kind)} for kind in FIELDS}


def parsed_fields(kind: str) -> Entry:
    """All fields of a kind, as the reader takes them."""
    sound = {**{field: TAKEN[form][0] for field, form in KINDS[kind].items()}, "extensions": [{"name": "x"}], "of-no-version": "x"}
    if kind == "user":
        sound["as-groups"] = ["x"]
    return parsed(kind, sound)


def test_a_value_of_its_type_is_taken_and_none_counts_for_nothing() -> None:
    for kind, field, form in ROWS:
        given, wanted = TAKEN[form]
        assert parsed(kind, {field: given}).get(field) == wanted, (kind, field)
        assert parsed(kind, {field: None}) == {}, (kind, field)
        if form in (TEXT, BASE64):
            assert parsed(kind, {field: ""}) == {}, (kind, field)


def test_a_value_of_another_type_is_refused_by_the_name_of_its_field() -> None:
    for kind, field, form in ROWS:
        for value in REFUSED[form]:
            assert f'{kind} "a" has a wrong value: {field} ' in refused(kind, {field: value}), (kind, field, value)


@pytest.mark.parametrize(
    ("user", "place"),
    [
        ({"exec": {"command": 7}}, "exec.command is a number"),
        ({"exec": {"args": ["x", 7]}}, "exec.args[2] is a number"),
        ({"exec": {"env": [{"name": "A", "value": "b"}, {"name": CANARY, "value": 8080}]}}, "exec.env[2].value is a number"),
        ({"exec": {"env": [CANARY]}}, "exec.env[1] is no mapping"),
        ({"exec": {"provideClusterInfo": "true"}}, "exec.provideClusterInfo is neither true nor false"),
        ({"as-groups": ["x", 7]}, "as-groups[2] is a number"),
        ({"as-user-extra": {CANARY: CANARY}}, "as-user-extra[...] is no list"),
        ({"as-user-extra": {CANARY: [7]}}, "as-user-extra[...][1] is a number"),
        ({"auth-provider": {"config": {CANARY: True}}}, "auth-provider.config[...] is a number or a truth value"),
    ],
)
def test_what_is_wrong_below_a_field_is_named_by_its_place(user: dict[str, Any], place: str) -> None:
    assert place in refused("user", user)


def test_null_below_a_field_is_what_is_empty() -> None:
    plugin = {"command": "x", "args": None, "env": None, "installHint": None, "interactiveMode": None}
    assert parsed("user", {"exec": plugin}) == {"exec": {"command": "x"}}
    assert parsed("user", {"exec": {"args": [None], "env": [{"name": "A", "value": None}]}}) == {
        "exec": {"args": [""], "env": [{"name": "A"}]}
    }
