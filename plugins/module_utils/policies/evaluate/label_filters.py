# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Labels of a pod that become part of its identity (cilium/cilium pkg/labelsfilter/filter.go, defaultLabelPrefixCfg and filterLabels).

A selector for any other label never matches. The key ``labels`` of cilium-config may extend the filter. That text may come from a
tenant's cluster, so only patterns without repetition are understood: a hostile regular expression could keep the evaluator busy
forever. The file that the key ``label-prefix-file`` names, which replaces Cilium's own patterns, is on the nodes. What these decide is
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ...mesh.versions.cilium_config import value_of
from ...mesh.versions.minors import Minor, holds
from .ternary import Ternary

_INCLUDED: Final = (
    r"reserved:.*",
    r"io\.kubernetes\.pod\.namespace",
    r"io\.cilium\.k8s\.namespace\.labels",
    r"app\.kubernetes\.io",
    r"io\.cilium\.k8s\.policy\.cluster",
)
_IGNORED: Final = (
    r"io\.kubernetes",
    r"kubernetes\.io",
    r"statefulset\.kubernetes\.io/pod-name",
    r"apps\.kubernetes\.io/pod-index",
    r"batch\.kubernetes\.io/job-completion-index",
    r"batch\.kubernetes\.io/controller-uid",
    r".*beta\.kubernetes\.io",
    r"k8s\.io",
    r"pod-template-generation",
    r"pod-template-hash",
    r"controller-revision-hash",
    r"controller-uid",
    r"annotation.*",
    r"etcd_node",
)
_INCLUDED_LATER: Final = (r"io\.cilium\.k8s\.policy\.serviceaccount",)
_IGNORED_LATER: Final = (r"topology\.kubernetes\.io",)

_SIMPLE: Final = re.compile(r"(?:[A-Za-z0-9_/-]|\\?\.)+(?:\.\*)?")
"""Letters, digits, "_", "/", "-", a dot with or without its backslash, and ".*" at the end: matching it takes linear time."""


@dataclass(frozen=True)
class _Pattern:
    expression: re.Pattern[str]
    ignore: bool
    source: str = ""  # "" : labels of any source


@dataclass(frozen=True)
class LabelFilters:
    """Patterns that decide which labels count, and what is not known of them."""

    patterns: tuple[_Pattern, ...]
    inclusive: bool = False  # only what a pattern includes counts; any including pattern of the user's turns it on
    in_file: bool = False  # a file on the nodes has the patterns
    unread_including: bool = False  # a pattern that includes is not understood
    unread_ignoring: bool = False

    @property
    def unread(self) -> tuple[str, ...]:
        """Keys of cilium-config that are not understood."""
        in_labels = self.unread_including or self.unread_ignoring
        return (*(("label-prefix-file",) if self.in_file else ()), *(("labels",) if in_labels else ()))

    @cached_property
    def _answers(self) -> dict[str, Ternary]:
        """Cache of answers by key: pods share few keys, and there are many pods."""
        return {}

    def counts(self, key: str) -> Ternary:
        """Return whether the label ``k8s:KEY`` is part of an identity."""
        if key not in self._answers:
            self._answers[key] = self._counts(key, "k8s")
        return self._answers[key]

    def _counts(self, key: str, source: str) -> Ternary:
        """Return whether the longest including match is longer than the shortest ignoring one."""
        if self.in_file:
            return None
        included = ignored = 0
        for pattern in self.patterns:
            if pattern.source and pattern.source != source:
                continue
            match = pattern.expression.match(key)
            if match is None:
                continue
            if not pattern.ignore:
                included = max(included, match.end())
            elif ignored == 0 or match.end() < ignored:
                ignored = match.end()
        counts = (not self.inclusive and ignored == 0) or included > ignored
        if counts:
            return None if self.unread_ignoring else True
        return None if self.unread_including or (self.unread_ignoring and included) else False


def label_filters(version: Minor | None, config: Mapping[str, str]) -> LabelFilters:
    """Return the filters of agents of ``version`` with this cilium-config (keys ``labels``, ``label-prefix-file``)."""
    later = holds("newer_label_filters", version)
    included = (*_INCLUDED, *(_INCLUDED_LATER if later else ()))
    ignored = (*_IGNORED, *(_IGNORED_LATER if later else ()))
    patterns = [_pattern(text, ignore=False) for text in included] + [_pattern(text, ignore=True) for text in ignored]
    given = value_of(config, version, "labels").split()
    own = {text: _parsed(text) for text in given}
    unread = {_ignores(text) for text, pattern in own.items() if pattern is None}
    return LabelFilters(
        patterns=(*patterns, *(pattern for pattern in own.values() if pattern is not None)),
        inclusive=any(not _ignores(text) for text in given),
        in_file=bool(value_of(config, version, "label-prefix-file")),
        unread_including=False in unread,
        unread_ignoring=True in unread,
    )


def _pattern(text: str, *, ignore: bool) -> _Pattern:
    source, sep, rest = text.partition(":")
    return _Pattern(re.compile(rest if sep else text), ignore, source if sep else "")


def _ignores(text: str) -> bool:
    source, sep, rest = text.partition(":")
    return (rest if sep else source).startswith("!")


def _parsed(text: str) -> _Pattern | None:
    source, sep, rest = text.partition(":")
    rest = (rest if sep else text).removeprefix("!")
    return _Pattern(re.compile(rest), _ignores(text), source if sep else "") if _SIMPLE.fullmatch(rest) else None
