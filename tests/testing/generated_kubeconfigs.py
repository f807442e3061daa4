# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs made at random, one or two files of them, of all that v1 has, and the files that they name."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from tests.testing.made_certificates import Made

NAMES: Final = ("a", "b")
FOLDERS: Final = ("one", "two")
EXEC: Final = "client.authentication.k8s.io/"
WRONG: Final = (7, True, ["x"], {"x": "y"})
"""Where a text belongs."""


@dataclass(frozen=True)
class Wanted:
    """Documents of the files, in their order, and the context that is asked for; None: the current one."""

    documents: tuple[dict[str, Any], ...]
    context: str | None


@dataclass(frozen=True)
class Surroundings:
    """What kubeconfigs lead to.

    :param servers: URLs.
    :param proxies: URLs.
    """

    servers: tuple[str, ...]
    proxies: tuple[str, ...]
    authority: Made
    client: Made

    def write(self, folder: Path) -> None:
        """Write the files that kubeconfigs name into each folder of a kubeconfig. What is in them depends on the folder where it may."""
        for name in FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
            for file, content in (("ca.crt", self.authority.pem), ("me.crt", self.client.pem), ("me.key", self.client.key)):
                (folder / name / file).write_bytes(content)
            (folder / name / "token").write_text(f"\tof-file-{name}\r\n", encoding="utf-8")
            (folder / name / "empty").write_bytes(b"")
            plugin = folder / name / "plugin"
            plugin.write_text(_PLUGIN.format(name=name), encoding="utf-8")
            plugin.chmod(0o700)


_PLUGIN: Final = """\
#!/bin/sh
version=$(printf %s "$KUBERNETES_EXEC_INFO" | sed 's/.*"apiVersion":[ ]*"\\([^"]*\\)".*/\\1/')
token="of-plugin-{name}-$version-$1-$OWN"
printf '{{"apiVersion": "%s", "kind": "ExecCredential", "status": {{"token": "%s"}}}}' "$version" "$token"
"""


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _fields(values: Mapping[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings with up to ``most`` of the fields; seldom one of them is of another type, or null."""
    chosen = st.lists(st.sampled_from(sorted(values)), max_size=most, unique=True)
    sound = chosen.flatmap(lambda keys: st.fixed_dictionaries({key: values[key] for key in keys}))
    spoiled = st.tuples(sound, st.sampled_from(sorted(values)), st.sampled_from((None, "", *WRONG))).map(
        lambda drawn: {**drawn[0], drawn[1]: drawn[2]}
    )
    return _seldom(spoiled, sound)


def _seldom(one: st.SearchStrategy[Any], other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One of sixteen is of the first."""
    return st.integers(0, 15).flatmap(lambda number: one if number == 7 else other)


def _optional(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from((*values, ""))


def kubeconfigs(around: Surroundings) -> st.SearchStrategy[Wanted]:
    """All that `Wanted` can be, the usable more often than not."""
    cluster = st.builds(
        lambda server, trust, name, proxy, more: {"server": server, "tls-server-name": name, "proxy-url": proxy, **trust, **more},
        st.sampled_from(around.servers),
        st.sampled_from(
            (
                {"certificate-authority-data": _base64(around.authority.pem)},
                {"certificate-authority": "ca.crt"},
                {"certificate-authority": "ca.crt", "certificate-authority-data": ""},
                {"insecure-skip-tls-verify": True},
                {"insecure-skip-tls-verify": False, "certificate-authority": "ca.crt"},
            )
        ),
        st.sampled_from(("", "", "api.test")),
        st.sampled_from(("", "", "", *around.proxies)),
        _fields(
            {
                "tls-server-name": _optional("api.test"),
                "proxy-url": _optional(*around.proxies),
                "disable-compression": st.booleans(),
                "certificate-authority": _optional("ca.crt", "missing"),
                "insecure-skip-tls-verify": st.sampled_from((True, False, "true", "false")),
                "server": st.sampled_from(("", "api.test", "ftp://api.test")),
                "of-no-version": st.just("x"),
            },
            1,
        ),
    )
    plugin = st.builds(
        lambda version, more: {"command": "./plugin", "apiVersion": version, **more},
        _seldom(st.just(f"{EXEC}v1alpha1"), st.sampled_from((f"{EXEC}v1", f"{EXEC}v1beta1"))),
        st.sampled_from(
            (
                {"interactiveMode": "Never"},
                {"interactiveMode": "IfAvailable", "args": ["x"], "env": [{"name": "OWN", "value": "y"}]},
                {"interactiveMode": "Never", "env": None, "args": None, "installHint": None},
            )
        ),
    )
    wrong = st.sampled_from(
        ({"env": [{"name": "OWN", "value": 7}]}, {"interactiveMode": "Always"}, {"interactiveMode": ""}, {"command": ""})
    )
    plugin = _seldom(st.builds(lambda given, more: {**given, **more}, plugin, wrong), plugin)
    pair = {"client-certificate-data": _base64(around.client.pem), "client-key-data": _base64(around.client.key)}
    files = {"client-certificate": "me.crt", "client-key": "me.key"}
    identity = st.one_of(
        st.sampled_from(({"token": "t0ken"}, {"tokenFile": "token"}, {"username": "me", "password": "pä:ss"}, pair, files, {})),
        plugin.map(lambda given: {"exec": given}),
    )
    user = st.builds(
        lambda who, more: {**who, **more},
        identity,
        _fields(
            {
                "token": _optional("tökén", "two words"),
                "tokenFile": _optional("token", "missing", "empty"),
                "username": _optional("you"),
                "password": _optional("secret"),
                "client-certificate": _optional("me.crt", "missing"),
                "client-key": _optional("me.key"),
                "client-key-data": _optional(_base64(around.client.key)),
                "as": _optional("sam", "system:serviceaccount:x:y"),
                "as-uid": _optional("7"),
                "as-groups": st.sampled_from((["x", "y"], ["x"], [])),
                "as-user-extra": st.sampled_from(({"Scopes": ["x", "y"]}, {"a/b c": ["é"], "d%": []}, {})),
                "auth-provider": st.sampled_from(({"name": "azure"}, {"name": "gcp", "config": {}}, None)),
                "of-no-version": st.just("x"),
            },
            2,
        ),
    )
    another = {"as": "kim", "as-uid": "1", "as-groups": ["x", "y"], "as-user-extra": {"Scopes": ["x", "y"], "a/b": []}}
    user = st.builds(lambda fields, someone: {**someone, **fields}, user, st.sampled_from(({}, {}, another, {"as": "kim"})))
    context = st.fixed_dictionaries(
        {kind: _seldom(st.sampled_from(("", "none", None)), st.sampled_from(NAMES)) for kind in ("cluster", "user")},
        optional={"namespace": st.sampled_from(("x", "", None))},
    )

    def entries(kind: str, content: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        named = st.sampled_from((["a", "b"], ["b", "a"], ["a", "b"], ["a"]))
        listed = named.flatmap(lambda names: st.tuples(*(content for _ in names)).map(lambda all_: _listed(kind, names, all_)))
        twice = [{"name": "a", kind: {}}, {"name": "a", kind: {}}]
        return _seldom(st.sampled_from((None, [], [{"name": "a"}], [{kind: {}}], twice)), listed)

    document = st.fixed_dictionaries(
        {
            "apiVersion": st.just("v1"),
            "kind": st.just("Config"),
            "clusters": entries("cluster", cluster),
            "users": entries("user", user),
            "contexts": entries("context", context),
            "current-context": _seldom(st.sampled_from(("", "none", None)), st.sampled_from(NAMES)),
        }
    )
    documents = st.lists(document, min_size=1, max_size=2).map(tuple)
    return st.builds(Wanted, documents, st.sampled_from((None, None, *NAMES)))


def _listed(kind: str, names: list[str], contents: tuple[Any, ...]) -> list[Any]:
    return [{"name": name, kind: content} for name, content in zip(names, contents, strict=True)]


def write(wanted: Wanted, folder: Path) -> str:
    """Write the files, each into a folder of its own, and return their paths as KUBECONFIG has them."""
    paths = [folder / FOLDERS[number] / "config" for number in range(len(wanted.documents))]
    for path, document in zip(paths, wanted.documents, strict=True):
        path.write_text(json.dumps(document), encoding="utf-8")
    return ":".join(map(str, paths))
