# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Redaction of documents for an archive. Names decide first (gather/harmless.py), and every text that is kept is searched for secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..base.json_reader import NotJson, load_json
from ..base.redact import MASK, mask
from .harmless import ANNOTATIONS, CONFIG, FLAGS, WORDS
from .removal import RemovalRule, RemovedValue

_SENSITIVE: Final = (
    r"pass(?:word|wd|phrase)|token|secret|credential|api[-_.]?key|private[-_.]?key|access[-_.]?key|client[-_.]?key|key[-_.]?data"
    r"|authorization|cookie|bearer|kubeconfig|\bpsk\b"
)
_SENSITIVE_NAME: Final = re.compile(rf"(?i){_SENSITIVE}|\.key$|^\.dockerconfig|^\.dockercfg|^auths?$")
_AFTER_NAME: Final = re.compile(rf"(?is)(?P<name>[\w.-]*(?:{_SENSITIVE})[\w.-]*[\"'\\]*\s*[:=])\s*(?P<value>[|>][+-]?[ \t]*\n.*|\S[^\n]*)")
_OPEN_NAME: Final = re.compile(rf"(?i)(?:{_SENSITIVE})[\w.-]*[\"'\\]*\s*[:=]\s*(?:[|>][-+\d]*|[\"'\\]+)?\s*$")
"""A name at the end of a line of a log: its value is in the next one, and in those that are indented behind it."""
_USER_OF_URL: Final = re.compile(r"://[^\s@/]*@|://[^\s@]*:[^\s@]*@")
_HEADER: Final = re.compile(r"(?i)\b(bearer|basic|negotiate|digest)\s+(?!<redacted>)\S+")
_PRIVATE: Final = re.compile(r"-----BEGIN.*", re.DOTALL)  # up to the end: a block may be cut, or indented, or escaped
_TOKEN_FORMS: Final = re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|hvs\.|sha256~)[\w-]{8,}|\beyJ[\w-]{8,}[\w.-]*")
_LONG: Final = re.compile(r"[A-Za-z0-9+/_-]{64,}={0,2}")
_DIGEST: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}(?:\.[0-9a-f]{64})?")
_DIGEST_FIELDS: Final = frozenset({"fingerprint", "public_key", "subject_key_id", "authority_key_id", "digest", "sha256", "ca", "hash"})
"""Fields that hold digests of public values, or of keys of full length, which say nothing of them."""
_DIGEST_MAPPINGS: Final = frozenset({"digests"})
_ENVIRONMENT: Final = frozenset({"env", "environment", "envFrom"})
_COMMANDS: Final = frozenset({"args", "arguments", "command"})
_DATA: Final = frozenset({"data", "stringData", "binaryData"})


@dataclass(frozen=True, kw_only=True)
class Redacted:
    """A document without what may be a secret, and what was removed of it."""

    value: Any
    removed: tuple[RemovedValue, ...] = ()


def redact(value: Any) -> Redacted:
    """Return a document of plain values without anything that may be a secret."""
    walk = _Walk()
    return Redacted(value=walk.value(value, "", ""), removed=tuple(sorted(set(walk.removed))))


def redact_lines(text: str) -> Redacted:
    """Return a log without secrets: lines of JSON as documents, other lines as text. Key blocks and values over several lines go whole."""
    walk = _Walk()
    lines: list[str] = []
    in_block, value = False, ""  # "": no value goes on; else "next", or "more" for lines that are indented
    for number, line in enumerate(text.splitlines(), 1):
        begins, ends = "-----BEGIN" in line, "-----END" in line
        if in_block or begins:
            in_block = not ends or (begins and line.rindex("-----BEGIN") > line.rindex("-----END"))
            walk.removed.append(RemovedValue(at=f"line {number}", rule=RemovalRule.TEXT))
            if begins:
                lines.append(MASK)
            continue
        if line and (value == "next" or (value and line[0].isspace())):
            walk.removed.append(RemovedValue(at=f"line {number}", rule=RemovalRule.TEXT))
            lines.append(MASK)
            value = "next" if _OPEN_NAME.search(line) else "more"
            continue
        if line:
            value = "next" if _OPEN_NAME.search(line) else ""
        lines.append(walk.text(line, f"line {number}"))
    return Redacted(value="\n".join(lines) + "\n" if lines else "", removed=tuple(sorted(set(walk.removed))))


def redact_text(text: str) -> str:
    """Return a text without anything that has the form of a secret."""
    if "-----BEGIN" in text:
        text = _PRIVATE.sub(MASK, text)
    text = _USER_OF_URL.sub(f"://{MASK}@", text)
    text = _HEADER.sub(rf"\1 {MASK}", text)
    text = _AFTER_NAME.sub(lambda found: f"{found['name']} {MASK}", text)
    text = _TOKEN_FORMS.sub(MASK, text)
    return _LONG.sub(MASK, mask(text))


class _Walk:
    """One walk through a document. It keeps what it removed."""

    def __init__(self) -> None:
        self.removed: list[RemovedValue] = []

    def value(self, value: Any, key: str, at: str) -> Any:
        """Return the value of ``key`` without secrets."""
        if value is None or isinstance(value, bool) or value in ("", MASK):
            return value
        if _SENSITIVE_NAME.search(key):
            return self._remove(at, RemovalRule.NAME)
        special = self._special(value, key, at)
        if special is not None:
            return special
        if isinstance(value, Mapping):
            if value.get("kind") == "Secret":
                value = {
                    name: self._leaves(part, _join(at, name), RemovalRule.OBJECT_DATA) if name in _DATA else part
                    for name, part in value.items()
                }
            return self._mapping(value, at, digests=key in _DIGEST_MAPPINGS)
        if isinstance(value, (list, tuple)):
            return [self.value(entry, key if key in _DIGEST_FIELDS else "", f"{at}[{number}]") for number, entry in enumerate(value)]
        if isinstance(value, str):
            return value if key in _DIGEST_FIELDS and _DIGEST.fullmatch(value) else self.text(value, at)
        return value if isinstance(value, (int, float)) else self._remove(at, RemovalRule.TEXT)

    def text(self, text: str, at: str) -> str:
        """Return a text without secrets; JSON in it is a document of its own."""
        if text.startswith(("{", "[")):
            try:
                found = load_json(text)
            except NotJson:
                pass
            else:
                return json.dumps(self.value(found, "", at), ensure_ascii=False)
        kept = redact_text(text)
        if kept != text:
            self._remove(at, RemovalRule.TEXT)
        return kept

    def _special(self, value: Any, key: str, at: str) -> Any:
        """Return a value for whose key there is a rule of its own; None for any other."""
        if key in _ENVIRONMENT:
            return self._variables(value, at)
        if key in _COMMANDS:
            return self._command(value, at)
        if not isinstance(value, Mapping):
            return None
        if key.lower().endswith("annotations"):
            return self._listed(value, at, lambda name: name.startswith(ANNOTATIONS), RemovalRule.ANNOTATION)
        if key == "cilium-config":
            return self._listed(value, at, CONFIG.__contains__, RemovalRule.CONFIG)
        return self._leaves(value, at, RemovalRule.OBJECT_DATA) if key in _DATA else None

    def _mapping(self, value: Mapping[Any, Any], at: str, *, digests: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, part in value.items():
            kept = self._name(name, at)
            keep = digests and isinstance(part, str) and _DIGEST.fullmatch(part)
            found[kept] = part if keep else self.value(part, str(name), _join(at, kept))
        return found

    def _listed(self, value: Mapping[Any, Any], at: str, harmless: Any, rule: RemovalRule) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, part in value.items():
            kept = self._name(name, at)
            place = _join(at, kept)
            found[kept] = self.text(part, place) if isinstance(part, str) and harmless(str(name)) else self._remove(place, rule)
        return found

    def _name(self, name: Any, at: str) -> str:
        """Return the name of a field, which may hold a secret itself."""
        kept = redact_text(str(name))
        if kept != str(name):
            self._remove(_join(at, kept), RemovalRule.TEXT)
        return kept

    def _leaves(self, value: Any, at: str, rule: RemovalRule) -> Any:
        """Return a value with the same fields, and no text or number in it."""
        if isinstance(value, Mapping):
            return {
                kept: self._leaves(part, _join(at, kept), rule) for kept, part in ((self._name(name, at), p) for name, p in value.items())
            }
        if isinstance(value, (list, tuple)):
            return [self._leaves(part, f"{at}[{number}]", rule) for number, part in enumerate(value)]
        return value if value is None or value == "" else self._remove(at, rule)

    def _variables(self, value: Any, at: str) -> Any:
        """Return the variables of a container: of the form ``{name, value}`` in a list, the names stay."""
        if not isinstance(value, (list, tuple)):
            return self._leaves(value, at, RemovalRule.ENVIRONMENT)
        rows = [self._leaves(part, f"{at}[{number}]", RemovalRule.ENVIRONMENT) for number, part in enumerate(value)]
        return [
            {**row, "name": self.text(part["name"], f"{at}[{number}]/name")}
            if isinstance(part, Mapping) and isinstance(part.get("name"), str) and "value" in part
            else row
            for number, (row, part) in enumerate(zip(rows, value, strict=True))
        ]

    def _command(self, value: Any, at: str) -> Any:
        if isinstance(value, Mapping):
            return {self._name(name, at): self._command(part, _join(at, self._name(name, at))) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._argument(part, f"{at}[{number}]") for number, part in enumerate(value)]
        return self._argument(value, at)

    def _argument(self, value: Any, at: str) -> Any:
        if not isinstance(value, str):
            return self._remove(at, RemovalRule.COMMAND)
        flag, separator, rest = value.partition("=")
        if value in WORDS or (flag.startswith("--") and not separator and flag[2:] in FLAGS):
            return value
        if flag.startswith("--") and flag[2:] in FLAGS:
            return f"{flag}={self.text(rest, at)}"
        self._remove(at, RemovalRule.COMMAND)
        shown = flag if separator and re.fullmatch(r"--[a-z][a-z0-9.-]{0,60}", flag) and redact_text(flag) == flag else ""
        return f"{shown}={MASK}" if shown else MASK

    def _remove(self, at: str, rule: RemovalRule) -> str:
        self.removed.append(RemovedValue(at=at or "/", rule=rule))
        return MASK


def _join(at: str, name: Any) -> str:
    return f"{at}/{name}"


def as_pretty(value: Any) -> str:
    """Return a document as JSON for people and programs: sorted, one value to a line."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def paths(removed: Sequence[RemovedValue]) -> list[dict[str, str]]:
    """Return removals as rows of a manifest."""
    return [{"at": entry.at, "rule": entry.rule.value} for entry in removed]
