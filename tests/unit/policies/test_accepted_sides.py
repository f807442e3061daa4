# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whatever form of a side is accepted, it selects no pod that its author did not write down: judged by the text, not by the parser."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import event, given
from hypothesis import strategies as st

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.input_problems import Problems
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.labels import selects
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import PodSelection
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.parse import parse_intent

MEMBERS: Final = ("c1", "c2")
PODS: Final = tuple(
    (namespace, {key: value for key, value in (("app", app), ("role", role)) if value})
    for namespace in ("shop", "other", "kube-system")
    for app in ("web", "db", "")
    for role in ("front", "")
)
KEYS: Final = (
    *("app", "k8s:app", "any:app", "role", "k8s:role", "reserved:host", "k8s:io.kubernetes.pod.namespace", "io.cilium.k8s.policy.cluster"),
)
LABELS: Final = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["web", "db", "front", "shop", ""]), max_size=2)
EXPRESSIONS: Final = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(KEYS), "operator": st.sampled_from(["In", "Exists"])},
        optional={"values": st.sampled_from([[], ["web"], ["web", "db"]])},
    ),
    max_size=2,
)
SIDES: Final[Any] = st.fixed_dictionaries(
    {},
    optional={
        "namespace": st.sampled_from(["shop", "other"]),
        "name": st.sampled_from(["web", "db"]),
        "selector": LABELS,
        "expressions": EXPRESSIONS,
        "allPods": st.booleans(),
        "allNamespaces": st.booleans(),
        "clusters": st.sampled_from([[], ["c1"], ["c1", "c2"]]),
    },
)


def written_down(side: dict[str, Any], namespace: str, labels: dict[str, str]) -> bool:
    """Return whether the text of the side includes the pod: every condition that stands in it holds, and the namespace is named."""
    if not side.get("allNamespaces") and side.get("namespace") != namespace:
        return False
    wanted = [("app", [side["name"]])] if "name" in side else []
    wanted += [(key.split(":")[-1], [value]) for key, value in side.get("selector", {}).items()]
    wanted += [(entry["key"].split(":")[-1], entry.get("values")) for entry in side.get("expressions", [])]
    if not wanted and (side.get("allPods") is False or side.get("allNamespaces")) and not side.get("allPods"):
        return False
    return all(key in labels and (not values or labels[key] in values) for key, values in wanted)


def understood(key: str, side: dict[str, Any]) -> PodSelection | None:
    """Return the side as an accepted intent has it; None if the intent is refused."""
    spec = {
        "action": "Allow",
        "policyMode": "Clusterwide",
        "source": {"namespace": "shop"},
        "destination": {"namespace": "shop"},
        key: side,
    }
    intent = parse_intent(Problems(), "any", spec, MEMBERS)
    found = getattr(intent, key, None)
    return found if isinstance(found, PodSelection) else None


@given(key=st.sampled_from(["source", "destination"]), side=SIDES)
def test_an_accepted_side_selects_the_pods_that_its_text_includes_and_no_others(key: str, side: dict[str, Any]) -> None:
    found = understood(key, side)
    event("accepted" if found else "refused")
    if found is None:
        return
    for namespace, labels in PODS:
        assert selects(found, namespace, labels) is written_down(side, namespace, labels), (side, namespace, labels)
    assert found.clusters == tuple(side.get("clusters") or MEMBERS)


def test_each_form_that_a_portal_sends_is_accepted() -> None:
    forms: tuple[dict[str, Any], ...] = (
        {"namespace": "shop"},
        {"namespace": "shop", "selector": {}, "expressions": [], "clusters": []},
        {"namespace": "shop", "name": "web", "selector": {}},
        {"namespace": "shop", "selector": {"k8s:app": "web"}},
        {"namespace": "shop", "name": "web", "allPods": False, "allNamespaces": False},
    )
    assert [form for form in forms if understood("source", form) is None] == []
