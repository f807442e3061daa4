# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of an explanation."""

from __future__ import annotations

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.explain.hop import Explanation, Hop, HopVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.explain.question import question_of
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.explain_lines import explain_lines

QUESTION = question_of(
    {
        "source": {"cluster": "c1", "namespace": "shop", "pod": "web-0"},
        "target": {"namespace": "shop", "service": "nginx"},
        "port": 80,
        "protocol": "UDP",
    },
    ("c1", "c2"),
)
HOPS = (
    Hop(name="source", answer=HopVerdict.OK, cluster="c1", summary="1 pod"),
    Hop(name="ingress policy", answer=HopVerdict.BROKEN, cluster="c2", summary="no", evidence=("one", "two\x1b[31m\nred"), fix="change it"),
)


def test_every_hop_has_a_row_and_below_it_what_was_read_and_what_to_do() -> None:
    lines = [line.text for line in explain_lines(QUESTION, Explanation(hops=HOPS))]
    assert lines == [
        "Can pod shop/web-0 in c1 reach Service shop/nginx on 80/UDP?",
        "  ok       source          c1  1 pod",
        "  broken   ingress policy  c2  no",
        "           read: one",
        "           read: two[31m red",
        "           fix:  change it",
        "No: ingress policy: no",
    ]


def test_colours_follow_the_verdicts() -> None:
    colours = [line.colour for line in explain_lines(QUESTION, Explanation(hops=HOPS))]
    assert (colours[1], colours[2], colours[-1]) == ("green", "red", "red")
