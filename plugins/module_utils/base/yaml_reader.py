# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Readers of YAML: of the user's own files, and of texts that other people write.

Foreign text has no aliases and no merge keys: some hundred bytes of them are gigabytes once they are merged, or take hours to compare. It
is also bounded in length, nodes, depth and the length of numbers, before any value is made of it. No writer of the texts that are read
here (Cilium's chart, the cilium CLI, kubectl, this collection) uses any of that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from .optional_imports import optional

if TYPE_CHECKING:
    import yaml
else:
    yaml = optional("yaml")


LENGTH_LIMIT: Final = 1 << 20  # bytes or characters of a foreign text: an object of the API is not longer
NODE_LIMIT: Final = 20_000
DEPTH_LIMIT: Final = 32
NUMBER_LIMIT: Final = 64  # characters; a long number in base 60 takes time quadratic in its length
_MERGE: Final = "tag:yaml.org,2002:merge"
_NUMBERS: Final = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_ALIAS, _MERGE_KEY = "it has an alias, which is not accepted here", "it has a merge key (<<), which is not accepted here"
_TOO_LONG, _TOO_MANY = f"it is longer than {LENGTH_LIMIT >> 10} KiB", f"it has more than {NODE_LIMIT} values"
_TOO_DEEP, _LONG_NUMBER = f"it is nested more than {DEPTH_LIMIT} levels deep", f"it has a number of more than {NUMBER_LIMIT} characters"
_REASONS: Final = frozenset({_ALIAS, _MERGE_KEY, _TOO_LONG, _TOO_MANY, _TOO_DEEP, _LONG_NUMBER})


class NotYaml(ValueError):
    """Text that is not YAML, or not accepted from others. Safe to print: the message repeats nothing of the text.

    :param place: line and column as "line 3, column 7"; "" where it is not known.
    """

    def __init__(self, why: str, place: str = "") -> None:
        super().__init__(why)
        self.place = place


@cache
def loader(kind: str = "Safe") -> Any:
    """Return a loader class for the user's own files: PyYAML's ``SafeLoader``, or ``BaseLoader`` (``kind`` "Base"), seven times as fast.

    libyaml scans the text, and Python makes the nodes: libyaml's own loaders end the process on deep nesting, and Python's scanner takes a
    second for five thousand open brackets; here the recursion limit ends both in milliseconds. Python's loader where libyaml is missing.
    """
    fast = getattr(yaml, f"C{kind}Loader", None)
    if not fast:
        return getattr(yaml, f"{kind}Loader")
    composer = yaml.composer.Composer

    def begin(self: Any, stream: Any) -> None:
        fast.__init__(self, stream)
        composer.__init__(self)

    return type(f"{kind}Loader", (composer, fast), {"__init__": begin})


@cache
def foreign_loader(kind: str = "Safe") -> Any:
    """Return a loader class for foreign text, as ``loader`` does for own files.

    It raises ``yaml.MarkedYAMLError`` at the first alias, merge key or value that is out of bounds. The caller bounds the text's length.
    """
    base, refused = loader(kind), yaml.composer.ComposerError

    def begin(self: Any, stream: Any) -> None:
        base.__init__(self, stream)
        self.foreign_nodes = self.foreign_depth = 0

    def compose_node(self: Any, parent: Any, index: Any) -> Any:
        mark = self.peek_event().start_mark
        if self.check_event(yaml.AliasEvent):
            raise refused(None, None, _ALIAS, mark)
        self.foreign_nodes += 1
        self.foreign_depth += 1
        if self.foreign_nodes > NODE_LIMIT:
            raise refused(None, None, _TOO_MANY, mark)
        if self.foreign_depth > DEPTH_LIMIT:
            raise refused(None, None, _TOO_DEEP, mark)
        node = base.compose_node(self, parent, index)
        self.foreign_depth -= 1
        if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > NUMBER_LIMIT:
            raise refused(None, None, _LONG_NUMBER, mark)
        if isinstance(node, yaml.MappingNode) and any(_merges(key) for key, _value in node.value):
            raise refused(None, None, _MERGE_KEY, mark)
        return node

    return type(f"Foreign{kind}Loader", (base,), {"__init__": begin, "compose_node": compose_node})


def _merges(key: Any) -> bool:
    return key.tag == _MERGE or (isinstance(key, yaml.ScalarNode) and key.value == "<<" and not key.style)


def load_yaml(text: str | bytes, kind: str = "Safe") -> Any:
    """Parse one foreign YAML document, within the bounds of this file.

    :param kind: "Base" leaves every scalar a text.
    :raises NotYaml: when ``text`` is not a single valid document, or has what is not accepted from others; the message says which.
    """
    return _read(lambda: yaml.load(text, foreign_loader(kind)), text)


def compose_yaml(text: str) -> Any:
    """Return the root node of one foreign YAML document, with the places of its parts; None if it is empty.

    :raises NotYaml: as ``load_yaml`` does.
    """
    return _read(lambda: yaml.compose(text, foreign_loader()), text)


def _read(parse: Callable[[], Any], text: str | bytes) -> Any:
    problem: Any = _TOO_LONG if len(text) > LENGTH_LIMIT else ""
    mark: Any = None
    try:
        if not problem:
            return parse()
    except Exception as error:  # PyYAML's constructors trust explicit tags: "!!int ''" is an IndexError, "!!bool x" a KeyError, and so on
        problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    raise NotYaml(problem if problem in _REASONS else "it is not YAML", place) from None
