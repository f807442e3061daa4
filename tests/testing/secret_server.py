# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Stand-in for an API server that has Secrets: selectors, pages, metadata alone, and an account of what was asked and answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import Forbidden
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube.client import PAGE

Object = dict[str, Any]


class SecretServer:
    """``asked``: "get PATH", "list PATH SELECTOR" and "metadata PATH SELECTOR"; ``answered``: bytes; ``largest``: bytes of one answer."""

    def __init__(self, secrets: list[Object] | None = None) -> None:
        self.secrets, self.error = secrets or [], False
        self.asked: list[str] = []
        self.answered = self.largest = 0
        self.before: Callable[[str], None] = lambda asked: None  # called before each answer

    def get(self, path: str) -> Object | None:
        self._ask(f"get {path}")
        namespace, _, name = path.partition("/namespaces/")[2].partition("/secrets/")
        found = [s for s in self.secrets if (s["metadata"]["namespace"], s["metadata"]["name"]) == (namespace, name)]
        return self._counted(found[0]) if found else None

    def page(
        self, path: str, *, token: str = "", label_selector: str = "", metadata_only: bool = False, most: int = 0, longest: int = 0
    ) -> Object:
        self._ask(f"{'metadata' if metadata_only else 'list'} {path} {label_selector}")
        namespace, first = path.split("/")[4], int(token or 0)
        chosen = [s for s in self.secrets if s["metadata"]["namespace"] == namespace and _chooses(label_selector, s["metadata"]["labels"])]
        size = most or PAGE
        while True:  # as the client does with an answer that is too long
            items = [{"metadata": s["metadata"]} if metadata_only else s for s in chosen[first : first + size]]
            page = {"metadata": {"continue": str(first + size) if first + size < len(chosen) else ""}, "items": items}
            if size == 1 or not longest or len(json.dumps(page)) <= longest:
                return self._counted(page)
            size = max(1, size // 4)

    def _ask(self, asked: str) -> None:
        self.asked.append(asked)
        self.before(asked)
        if self.error:
            raise Forbidden("RBAC forbids it.")

    def _counted(self, answer: Object) -> Object:
        length = len(json.dumps(answer))
        self.answered, self.largest = self.answered + length, max(self.largest, length)
        return answer


def _chooses(selector: str, labels: dict[str, str]) -> bool:
    wanted = dict(pair.partition("=")[::2] for pair in selector.split(",") if pair)
    return all(key in labels and value in ("", labels[key]) for key, value in wanted.items())
