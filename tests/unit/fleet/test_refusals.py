# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a member's API server says becomes a sentence of our own: of the right class, and without a word of the server's."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.fleet.refusals import _ROWS, UNKNOWN, refusal_of
from tests.testing.rows import in_one_test

APPLY: Final = "Failed to apply all manifests (0/1): "
SAID: Final = {
    "AlreadyExists": "resource(kind=Deployment, t1/conf) already exists in the cluster c1 and the work.karmada.io/conflict-resolution "
    "strategy value is empty, Karmada will not manage this resource",
    "PodSecurity": 'pods "web" is forbidden: violates PodSecurity "baseline:latest": privileged (container must not set privileged=true)',
    "AdmissionDenied": "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'no-ref' with binding 'no-ref' denied request: "
    "refused by c1",
    "QuotaExceeded": 'configmaps "conf" is forbidden: exceeded quota: of-the-bank, requested: count/configmaps=1, used: 5, limited: 5',
    "Forbidden": 'configmaps is forbidden: User "system:serviceaccount:karmada-cluster:karmada-c1" cannot create resource "configmaps"',
    "NamespaceMissing": 'namespaces "kcp-ddb805893818467b" not found',
    "KindMissing": 'no matches for kind "Ingress" in version "networking.k8s.io/v1"',
    "Immutable": 'Deployment.apps "web" is invalid: spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable',
    "Invalid": 'Service "web" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range',
    "Unreachable": 'Put "https://10.1.2.3:6443/api": dial tcp 10.1.2.3:6443: connect: connection refused',
}
"""Texts as API servers and Karmada write them, by the class that a tenant reads."""


def test_every_class_has_a_text_here() -> None:
    assert SAID.keys() == {reason for _, reason, _ in _ROWS}


@in_one_test
@pytest.mark.parametrize("reason", SAID)
@pytest.mark.parametrize("before", ["", APPLY])
def test_what_an_api_server_says_has_the_class_that_a_tenant_reads(reason: str, before: str) -> None:
    refused = refusal_of(before + SAID[reason])
    assert (refused.reason, refused.passes) == (reason, reason == "NamespaceMissing")


NAMES: Final = st.from_regex(re.compile(r"[a-z][a-z0-9]{5,11}-[0-9]{4}", re.ASCII), fullmatch=True)


@given(st.sampled_from([*SAID.values(), ""]), NAMES, NAMES)
def test_no_word_of_a_server_reaches_a_tenant(text: str, account: str, secret: str) -> None:
    refused = refusal_of(f"{account}: {text} token={secret}")
    assert account not in refused.sentence and secret not in refused.sentence
    known = {UNKNOWN.sentence, *(sentence for _, _, sentence in _ROWS)}
    assert refused.sentence in known


def test_a_text_of_no_class_is_said_to_be_in_the_log_alone() -> None:
    assert refusal_of("something else") == UNKNOWN and "log of the control plane" in UNKNOWN.sentence
