# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""A kind of item: NamespaceIsolation, a policy in one namespace of each cluster, by which only pods of that namespace get in."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Final

from tests.collection_path import CHECKOUT
from tests.recipes.recipe import Edit, Recipe

_LICENSED: Final = """\
# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""

_SPEC: Final = """\
            spec:
              type: object
              required: [meshRef, namespace]
              properties:
                namespace:
                  description: The namespace, in each cluster that has it.
                  type: string
                  minLength: 1
                  maxLength: 63
                  pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'
            status:
              type: object
              properties:
                phase:
                  type: string
                  enum: [Pending, Isolating, Isolated, Degraded, Error]
                observedGeneration:
                  type: integer
                  format: int64
                lastSyncTime:
                  type: string
                  format: date-time
                isolatedClusters:
                  description: Clusters in which the policy is there.
                  type: array
                  items:
                    type: string
"""


def _crd() -> str:
    """Return the CRD: that of another kind, whose status has the fields that all of them have, with a spec and a status of its own."""
    text = (CHECKOUT / "operator" / "deploy" / "crds" / "exposedservices.yaml").read_text(encoding="utf-8")
    common = text[text.index("                findings:\n") :]
    names = text[text.index("apiVersion:") : text.index("            spec:\n")]
    for former, own in (("exposedservice", "namespaceisolation"), ("ExposedService", "NamespaceIsolation"), ("xsvc", "nsiso")):
        names = names.replace(former, own)
    names = re.sub(r"(?m)^.*name: (Class|Hostname|Address),.*\n", "", names)
    names = re.sub("description: .*", "description: Lets only pods of one namespace reach the pods in it, in every cluster.", names)
    reference = text[text.index("                meshRef:\n") : text.index("                service:\n")].replace("&name\n", "\n")
    spec = _SPEC.replace("              properties:\n", f"              properties:\n{reference}", 1)
    return _LICENSED + "#\n# Spec and status: plugins/module_utils/isolation.\n" + names + spec + common


_ENGINE: Final = "plugins/module_utils"
_PACKAGE: Final = '''\
"""Isolated namespaces: parsing, planning, status.

May import: what python -m tests.testing.drawings writes here.
"""
'''
_MODEL: Final = '''
"""Model of a NamespaceIsolation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..items.item import Item
from ..mesh.binding.item_kinds import ItemKind


@dataclass(frozen=True, kw_only=True)
class NamespaceIsolation(Item):
    """Spec of a NamespaceIsolation."""

    KIND: ClassVar = ItemKind.ISOLATION
    namespace: str
'''
_PARSE: Final = '''
"""The spec of a NamespaceIsolation -> ``NamespaceIsolation``. Its structure is that of the CRD (mesh/binding/schemas.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.input_problems import Problems
from ..base.structure import SchemaReader
from ..mesh.binding.schemas import SPECS
from .model import NamespaceIsolation


def parse_isolation(problems: Problems, name: str, spec: Mapping[str, Any], _members: tuple[str, ...]) -> NamespaceIsolation | None:
    """See ``parse`` of ``reconcile.kinds.KindRow``."""
    before = len(problems.found)
    given = SchemaReader(problems, {}).read(SPECS["NamespaceIsolation"], spec)
    return NamespaceIsolation(name=name, namespace=given["namespace"]) if len(problems.found) == before else None
'''
_PLAN: Final = '''
"""Plan of NamespaceIsolations: items into steps."""

from __future__ import annotations

from ..findings.finding import Finding
from ..items.desired import Desired
from ..items.owned import DesiredObject, object_changes, object_name, owned_object, prune_steps
from ..items.planned import ItemPlan, ItemVerdict
from ..items.scene import Scene
from ..mesh.binding.item_kinds import ItemKind
from ..plan.steps import Step
from .model import NamespaceIsolation


def plan_isolations(desired: Desired, scene: Scene) -> list[ItemPlan]:
    """Return the plan of each NamespaceIsolation. See ``KindRow`` (reconcile/kinds.py)."""
    return [_plan(item, scene) for item in desired.each(NamespaceIsolation)]


def prune_isolations(desired: Desired, scene: Scene) -> tuple[list[Step], list[Finding]]:
    """Return the steps that prune policies of removed items. See ``KindRow`` (reconcile/kinds.py)."""
    kind = ItemKind.ISOLATION
    observed = {host: scene.traffic[host].policies for host in scene.hosts}
    return prune_steps(scene.binding, kind, desired.kept(kind), observed) if kind in desired.kinds else [], []


def places(item: NamespaceIsolation, scene: Scene) -> list[str]:
    """Return the clusters that have the namespace."""
    return [host for host in scene.hosts if item.namespace in scene.traffic[host].namespaces]


def policy_of(item: NamespaceIsolation, host: str, scene: Scene) -> DesiredObject:
    """Return the policy of the item in one cluster."""
    body = {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": {"name": object_name(scene.binding, item.ref), "namespace": item.namespace},
        "spec": {"endpointSelector": {}, "ingress": [{"fromEndpoints": [{}]}]},
    }
    collection = f"/apis/cilium.io/v2/namespaces/{item.namespace}/ciliumnetworkpolicies"
    return owned_object(scene.binding, item.ref, host, collection, body, why=f"isolates the namespace {item.namespace}")


def _plan(item: NamespaceIsolation, scene: Scene) -> ItemPlan:
    wanted = [policy_of(item, host, scene) for host in places(item, scene)]
    steps, foreign = object_changes(scene.binding, item.ref, wanted, {host: scene.traffic[host].policies for host in scene.hosts})
    if foreign:
        message = foreign[0].summary
        return ItemPlan(ref=item.ref, verdict=ItemVerdict.REFUSED, reason="ForeignObject", message=message, findings=tuple(foreign))
    return ItemPlan(ref=item.ref, steps=tuple(steps), unplaced=not wanted)
'''
_STATUS: Final = '''
"""Status of a NamespaceIsolation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.conditions import condition
from ..base.tables import count
from ..findings.wording import listed
from ..items.item import Item
from ..items.owned import DesiredObject, matches_body
from ..items.planned import ItemPlan
from ..items.scene import Scene
from .model import NamespaceIsolation
from .plan import places, policy_of


def isolation_status(item: Item, plan: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> dict[str, Any]:
    """Return the status. See ``KindRow`` (reconcile/kinds.py)."""
    lacking, hosts = lacking_places(item, plan, scene, failed), _isolated(item, scene)
    phase = "Isolated" if hosts and not lacking else "Degraded" if hosts or failed else "Isolating" if plan.steps else "Pending"
    reason, message = phase, f"{listed(sorted(lacking))} lacks the policy" if lacking else "" if hosts else "no cluster has the namespace"
    whole = phase == "Isolated"
    return {
        "phase": phase,
        "isolatedClusters": hosts,
        "conditions": [
            condition("Accepted", True, plan.reason, plan.message),
            condition("Ready", whole, reason, message),
            condition("Degraded", phase == "Degraded", reason, "" if whole else message),
        ],
    }


def lacking_places(item: Item, _plan: ItemPlan, scene: Scene, failed: Mapping[str, str]) -> frozenset[str]:
    """Return the clusters that keep the item from being as asked: silent ones, and those without the policy."""
    isolated = _isolated(item, scene)
    return frozenset(host for host in _wanted(item, scene) if host not in isolated) | frozenset(scene.silent) | frozenset(failed)


def isolation_brief(status: Mapping[str, Any]) -> str:
    """Return a status in a few words for a table."""
    return count(len(status.get("isolatedClusters") or ()), "cluster")


def _wanted(item: Item, scene: Scene) -> dict[str, DesiredObject]:
    if not isinstance(item, NamespaceIsolation):
        raise TypeError(f"not a NamespaceIsolation: {item.name}")
    return {host: policy_of(item, host, scene) for host in places(item, scene)}


def _isolated(item: Item, scene: Scene) -> list[str]:
    wanted = _wanted(item, scene)
    found = {host: scene.traffic[host].by_path.get(entry.path) for host, entry in wanted.items()}
    return [host for host, entry in found.items() if entry is not None and matches_body(entry, wanted[host].body)]
'''
_TESTS: Final = '''
"""NamespaceIsolations: what is refused, what is written, and what the status says of it."""

from __future__ import annotations

from typing import Any

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.planned import ItemVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.scene import Scene
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.parse import desired_of
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.plan import ItemsPlan, plan_items
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile.status import Course, item_rows
from tests.testing.facts_builders import NOW
from tests.testing.simulated_items import applied
from tests.testing.traffic_builders import NAMESPACE, object_facts, scene, traffic


def planned(current: Scene, *items: dict[str, Any]) -> ItemsPlan:
    return plan_items(desired_of({"namespaceIsolations": list(items)}, current.mesh), current)


def row(current: Scene, after: Scene) -> dict[str, Any]:
    wanted = desired_of({"namespaceIsolations": [{"name": "shop", "namespace": NAMESPACE}]}, current.mesh)
    return item_rows(wanted, plan_items(wanted, current), after, Course(), now=NOW)["namespaceIsolations"][0]


def test_each_cluster_with_the_namespace_gets_one_policy_and_loses_it_with_the_item() -> None:
    before = scene(traffic("c1"), traffic("c2"))
    steps = planned(before, {"name": "shop", "namespace": NAMESPACE}).plan.steps
    assert [(step.verb, step.cluster) for step in steps] == [("create", "c1"), ("create", "c2")]
    after = applied(before, steps, before.binding)
    assert planned(after, {"name": "shop", "namespace": NAMESPACE}).plan.steps == ()
    assert [step.verb for step in planned(after).plan.steps] == ["delete", "delete"]
    assert row(before, after)["phase"] == "Isolated" and row(before, before)["phase"] == "Isolating"


def test_a_policy_of_another_owner_refuses_the_item() -> None:
    before = scene(traffic("c1"), traffic("c2"))
    name = planned(before, {"name": "shop", "namespace": NAMESPACE}).plan.steps[0].object.rpartition("/")[2]
    foreign = object_facts("CiliumNetworkPolicy", "ciliumnetworkpolicies", name, namespace=NAMESPACE, api="/apis/cilium.io/v2")
    found = scene(traffic("c1", policies=(foreign,)), traffic("c2"))
    assert planned(found, {"name": "shop", "namespace": NAMESPACE}).items[0].verdict is ItemVerdict.REFUSED


def test_a_spec_without_a_namespace_is_refused() -> None:
    found = planned(scene(traffic("c1"), traffic("c2")), {"name": "shop"}).items[0]
    assert found.verdict is ItemVerdict.REFUSED and "namespace" in found.message
'''
_STATUSES: Final = """

def _isolations() -> list[Made]:
    items = [{"name": "shop", "namespace": NAMESPACE}, {"name": "nowhere", "namespace": "absent"}, {"name": "wrong"}]
    kind, name, before = "NamespaceIsolation", "namespaceIsolations", scene(traffic("c1"), traffic("c2"), members=["c3"])
    return [*_rows(kind, name, "run", items, before), *_rows(kind, name, "before the writes", items, before, before)]
"""
_SAMPLE: Final = """\
#
# Lets only pods of namespace production reach the pods in it.
apiVersion: networking.edge-portal.eu/v1alpha1
kind: NamespaceIsolation
metadata:
  name: production
spec:
  meshRef:
    name: edge-mesh-eu
  namespace: production
"""
_CASES: Final = """\
    "an isolation that every member has": Case(ISOLATION, ISOLATED, both(), "Isolated", "Isolated", False),
    "an isolation that is not there yet": Case(ISOLATION, ISOLATED, both(), "Isolating", "Isolating", False, lambda _written: both()),
    "an isolation whose namespace is nowhere": Case(ISOLATION, {**ISOLATED, "namespace": "absent"}, both(), "Pending", "Pending", False),
    "an isolation in a silent member": Case(ISOLATION, ISOLATED, scene(traffic("c1"), **silent("c2")), "Degraded", "Degraded", False),
    "an isolation whose spec is refused": Case(ISOLATION, {**ISOLATED, "namespace": 7}, both(), "Error", "SpecInvalid", False),
"""
_PAGE: Final = """\
# Namespace isolations

A NamespaceIsolation lets only the pods of one namespace reach the pods in it. Each cluster that has the namespace gets one policy.
[items.md](items.md) describes how it is carried out.

```yaml
cilium_mesh:
  namespaceIsolations:
    - name: shop
      namespace: production
```

## Every field of NamespaceIsolation

As the custom resource has them, made from the CRD (`python -m tests.testing.kind_schemas --write`):

<!-- fields of NamespaceIsolation: begin -->
<!-- fields of NamespaceIsolation: end -->
"""

RECIPE: Final = Recipe(
    heading="A kind of item",
    new={
        "operator/deploy/crds/namespaceisolations.yaml": _crd(),
        f"{_ENGINE}/isolation/__init__.py": _LICENSED + _PACKAGE,
        f"{_ENGINE}/isolation/model.py": _LICENSED + _MODEL.lstrip(),
        f"{_ENGINE}/isolation/parse.py": _LICENSED + _PARSE.lstrip(),
        f"{_ENGINE}/isolation/plan.py": _LICENSED + _PLAN.lstrip(),
        f"{_ENGINE}/isolation/status.py": _LICENSED + _STATUS.lstrip(),
        "docs/namespace-isolations.md": _PAGE,
        "samples/namespace-isolation.yaml": _LICENSED + _SAMPLE,
        "tests/unit/isolation/test_isolation.py": _LICENSED + _TESTS.lstrip(),
    },
    edits=(
        Edit(
            path=f"{_ENGINE}/mesh/binding/item_kinds.py",
            at='    EXPOSURE = "exposedServices"\n',
            text='    ISOLATION = "namespaceIsolations"\n',
        ),
        Edit(
            path=f"{_ENGINE}/mesh/binding/item_kinds.py",
            at="        waves=(16, 17),\n    ),\n",
            text='    ItemKind.ISOLATION: _Traits(crd="NamespaceIsolation", going_on="Isolating", good="Isolated", reads=_POLICIES),\n',
        ),
        Edit(
            path=f"{_ENGINE}/reconcile/kinds.py",
            at="from ..findings.finding import Finding\n",
            text=dedent(
                """\
                from ..isolation.parse import parse_isolation
                from ..isolation.plan import plan_isolations, prune_isolations
                from ..isolation.status import isolation_brief, isolation_status, lacking_places
                """
            ),
        ),
        Edit(
            path=f"{_ENGINE}/reconcile/kinds.py",
            at="        brief=exposure_brief,\n    ),\n",
            text=(
                "    ItemKind.ISOLATION: KindRow(\n"
                "        parse=parse_isolation,\n"
                "        plan=plan_isolations,\n"
                "        prune=prune_isolations,\n"
                "        status=isolation_status,\n"
                "        lacking=lacking_places,\n"
                "        brief=isolation_brief,\n"
                "    ),\n"
            ),
        ),
        Edit(path="docs/architecture.md", at="| `services`, `policies`, `exposure`", text=", `isolation`"),
        Edit(
            path="tests/testing/layers.py",
            at='    "exposure": "base findings items mesh plan policies services",\n',
            text='    "isolation": "base findings items mesh plan",\n',
        ),
        Edit(path="tests/testing/layers.py", at='    "reconcile": "base exposure findings', text=" isolation"),
        Edit(path="tests/testing/layers.py", at='"services", "policies", "exposure", ', text='"isolation", '),
        Edit(
            path="tests/testing/crd_examples.py",
            at='"port": {"number": 80}, "class": "LoadBalancer"},\n',
            text='    "NamespaceIsolation": {**_MESH, "namespace": "production"},\n',
        ),
        Edit(
            path="docs/README.md",
            at="| How do I publish a Service to the outside? | [exposed-services.md](exposed-services.md) |\n",
            text="| How do I isolate a namespace? | [namespace-isolations.md](namespace-isolations.md) |\n",
        ),
        Edit(
            path="tests/unit/items/test_unmet_items.py",
            at="GLOBAL, INTENT, EXPOSURE = ItemKind.GLOBAL_SERVICE, ItemKind.INTENT, ItemKind.EXPOSURE\n",
            text='ISOLATION, ISOLATED = ItemKind.ISOLATION, {"name": "shop", "namespace": NAMESPACE}\n',
        ),
        Edit(path="tests/unit/items/test_unmet_items.py", at="CASES: Final[Mapping[str, Case]] = {\n", text=_CASES),
        Edit(path="tests/testing/crd_statuses.py", at="*_services(), *_intents(), *_exposures(), ", text="*_isolations(), "),
        Edit(
            path="tests/testing/crd_statuses.py",
            at='        *_rows(kind, name, "of a global Service", items[:1], with_global),\n    ]\n',
            text=_STATUSES,
        ),
    ),
    generators=(
        ("-m", "tests.testing.kind_schemas", "--write"),
        ("-m", "tests.testing.result_schema", "--write"),
        ("-m", "tests.testing.drawings"),
        ("-m", "tests.testing.status_schemas", "--write"),
    ),
    tests=(
        "tests/unit/isolation",
        "tests/unit/project/test_kind_schemas.py",
        "tests/unit/project/test_layers.py",
        "tests/unit/project/test_architecture.py",
        "tests/unit/items/test_unmet_items.py",
        "tests/unit/operator/test_samples.py",
    ),
    around=(
        *("tests/unit/project", "tests/unit/isolation", "tests/unit/items", "tests/unit/operator", "tests/unit/report"),
        *("tests/unit/metrics", "tests/unit/plugins"),
    ),
    packages=("isolation", "reconcile"),
)
