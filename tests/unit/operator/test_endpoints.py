# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which virtual workspaces an APIExportEndpointSlice names, and what becomes of them behind another address."""

from __future__ import annotations

from typing import Any

import pytest

from mesh_operator.source.endpoints import urls_of
from tests.testing.rows import one_test

PATH = "/services/apiexport/2k5m8k3p1q7z/edge-portal-networking"


def made(*urls: str) -> dict[str, Any]:
    return {"metadata": {"name": "edge-portal-networking"}, "status": {"endpoints": [{"url": url} for url in urls]}}


def test_one_url_per_shard_in_the_order_of_the_slice_and_none_twice() -> None:
    one, other = f"https://shard-b:6443{PATH}", f"https://shard-a:6443{PATH}"
    assert urls_of(made(one, other, one)) == (one, other)


@one_test("found", None, {}, {"status": {}}, {"status": None}, {"status": {"endpoints": None}}, made(), made(""))
def test_a_slice_without_endpoints_has_no_urls(found: dict[str, Any] | None) -> None:
    assert urls_of(found) == ()
    assert urls_of(found, "https://outside") == ()


@pytest.mark.parametrize("external", ["http://[::1]:8443", "http://[::1]:8443/", "http://[::1]:8443/clusters/root:provider?x=1"])
def test_an_external_url_replaces_scheme_host_and_port_and_no_more(external: str) -> None:
    assert urls_of(made(f"https://10.0.0.7:6443{PATH}"), external) == (f"http://[::1]:8443{PATH}",)


def test_a_path_is_kept_as_it_was_published() -> None:
    odd = "/services/apiexport/root%3Aorg/a%2Fb//c;d"
    assert urls_of(made(f"https://kcp.internal{odd}"), "https://outside:443") == (f"https://outside:443{odd}",)


def test_shards_that_differ_in_their_host_alone_are_one_behind_an_external_url() -> None:
    assert urls_of(made(f"https://shard-a{PATH}", f"https://shard-b{PATH}"), "https://outside") == (f"https://outside{PATH}",)
