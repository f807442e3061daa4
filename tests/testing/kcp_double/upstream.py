# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Requests to the real API server behind the double, as its administrator: as they are, whatever the answer."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
import yaml

_SILENCE: Final = 3700.0  # longest watch that the server offers, and a little


class Upstream:
    """Thread-safe. Raises urllib3.exceptions.HTTPError when there is no answer."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=ca)
        with tempfile.NamedTemporaryFile() as pair:  # ssl takes a client's certificate from files only
            pair.write(base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
        self._server = cluster["server"]
        self._pool = urllib3.PoolManager(maxsize=32, ssl_context=context, retries=False)

    def send(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> urllib3.BaseHTTPResponse:
        """The whole answer. ``body`` is sent as JSON."""
        data = None if body is None else json.dumps(body).encode()
        target = f"{self._server}{path}" + (f"?{urlencode(query)}" if query else "")
        return self._pool.request(method, target, headers=_headers(headers, body), body=data, timeout=60.0)

    def stream(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """An answer whose body is still to be read: a watch. Close it."""
        limit = urllib3.Timeout(connect=5.0, read=_SILENCE)
        target = f"{self._server}{path}?{urlencode(query)}"
        return self._pool.request("GET", target, headers=_headers(headers, None), timeout=limit, preload_content=False)

    def json(self, method: str, path: str, body: Any) -> dict[str, Any]:
        """For what cannot fail."""
        answer = self.send(method, path, body=body)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.data[:300]!r}")
        found: dict[str, Any] = json.loads(answer.data)
        return found

    def close(self) -> None:
        self._pool.clear()


def _headers(headers: Mapping[str, str] | None, body: Any) -> dict[str, str]:
    return {"Accept": "application/json", **({} if body is None else {"Content-Type": "application/json"}), **(headers or {})}
