# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Which resources were written, by the keys of etcd."""

from __future__ import annotations

from tests.lab.etcd_keys import written_resources


def test_a_key_that_is_new_gone_or_of_a_later_revision_names_its_resource() -> None:
    before = {"secrets/kube-system/a": 1, "cilium.io/ciliumnodes/n": 2, "services/specs/default/s": 3, "minions/n": 4, "pods/x/p": 5}
    assert written_resources(before, before) == frozenset()
    now = {"secrets/kube-system/b": 6, "cilium.io/ciliumnodes/n": 7, "services/specs/default/s": 8, "minions/n": 9, "pods/x/p": 5}
    assert written_resources(before, now) == {"secrets", "ciliumnodes", "services", "nodes"}
