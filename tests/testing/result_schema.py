# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The JSON schema of results, ``docs/schemas/result/mesh_result.json``, and the check that a result has no field beside it.

The statuses of custom resources come from the CRDs, the words of an enum from the engine; the rest stands here. A field that is always
there is required. ``python -m tests.testing.result_schema --write`` writes the file, and a unit test holds that it is current.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import yaml

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.explain.hop import HopVerdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.findings.finding import Severity
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.link_stage import LinkStage
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse.harm import Harm, Verdict
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.mesh_result import SCHEMA, mesh_result
from tests.collection_path import CHECKOUT
from tests.testing.json_schema import validator
from tests.testing.status_schemas import status_schemas, text_of

FILE: Final = CHECKOUT / "docs" / "schemas" / "result" / "mesh_result.json"
Schema = dict[str, Any]

S: Final[Schema] = {"type": "string"}
I: Final[Schema] = {"type": "integer"}  # noqa: E741 - one letter, so that a record is read at one glance
B: Final[Schema] = {"type": "boolean"}


def one_of(*words: str) -> Schema:
    """Return the schema of a text that is one of these."""
    return {"type": "string", "enum": list(words)}


def many(inner: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": inner}


def by_name(inner: Schema) -> Schema:
    """Return the schema of a mapping whose keys are names."""
    return {"type": "object", "additionalProperties": inner}


def maybe(inner: Schema) -> Schema:
    """Return the schema that takes null too."""
    return {"anyOf": [inner, {"type": "null"}]}


def record(description: str = "", /, **fields: Schema) -> Schema:
    """Return the schema of an object with these fields and no others. A field whose name ends in ``_`` may be absent."""
    found: Schema = {"type": "object"}
    if description:
        found["description"] = description
    found["properties"] = {name.removesuffix("_"): inner for name, inner in fields.items()}
    found["required"] = [name for name in fields if not name.endswith("_")]
    return found | {"additionalProperties": False}


def fields(inner: Schema, *names: str) -> dict[str, Schema]:
    """Return fields of one schema."""
    return dict.fromkeys(names, inner)


def of_kind(kind: str, **more: Schema) -> Schema:
    """Return the schema of a row: fields of its own, and those of the status of a kind, each of which may be absent."""
    status = status_schemas()[f"{kind}.json"]
    return record(**more) | {"properties": {**more, **{name: _types(inner) for name, inner in status["properties"].items()}}}


def _types(schema: Mapping[str, Any]) -> Schema:
    """Return a schema without its bounds, which hold for custom resources alone: rows of a run may be longer."""
    kept = {key: schema[key] for key in ("type", "description", "enum") if key in schema}
    if "properties" in schema:
        kept["properties"] = {name: _types(inner) for name, inner in schema["properties"].items()}
    if "items" in schema:
        kept["items"] = _types(schema["items"])
    if "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        kept["additionalProperties"] = _types(inner) if isinstance(inner, Mapping) else inner
    return kept


NAMED: Final = {"name": S}
PLACE: Final = record(kind=S, cluster=S, namespace=S, workloads=many(S), name=S)
FLOW: Final[dict[str, Schema]] = {
    "source": PLACE,
    "destination": PLACE,
    "verdict": S,
    "ports": S,
    "ranges": many(record(protocol=S, first=I, last=I)),
    "policies": many(S),
    "reasons": many(S),
}
BACKENDS: Final = record(live=I, frozen=I, dead=I)
CERTIFICATE: Final = maybe(record(commonName=S, issuer=S, fingerprint=S, expires=S))
CONDITION: Final = record(type=S, status=S, reason=S, message=S, lastTransitionTime_=S)
COUNT: Final = record(total=I, connected=I)
READY: Final = record(total=I, ready=I)
PROOFS: Final = record(oldest=maybe(S), newest=maybe(S), missing=I)
UNKNOWN: Final = many(record(cluster=S, reason=S))


def _finding() -> Schema:
    return record(
        "What is wrong, on which object, what follows, and what to do.",
        code={"type": "string", "pattern": "^CM-[A-Z]+-[0-9]+$"},
        severity=one_of(*(severity.value for severity in Severity)),
        accepted=B,
        **fields(S, "cluster", "peer", "summary", "evidence", "fix", "anchor", "item_"),
    )


def _plan() -> Schema:
    return record(
        "The writes of the run, in the order in which they are carried out.",
        hash=S,
        steps=many(record(wave=I, cluster=S, verb=S, object=S, why=S, disruption=S, undo=S, digest=S, item_=S)),
        options={"type": "object", "description": "What the plan was made with; the keys differ by playbook."},
        reliedOn=by_name(by_name(S)),
        notCarriedOut_=many(S),
    )


def _binding() -> Schema:
    link = record(
        cluster=S,
        peer=S,
        stage=one_of(*(stage.value for stage in LinkStage)),
        ready=B,
        reader=S,
        error=S,
        **fields(I, "nodesReady", "nodesAsked", "nodesTotal"),
        arrived_=record(nodes=I, services=I, endpoints=I, identities=I),
        nodePaths_=record(reached=I, asked=I, oldestProbe=maybe(S), blocked=S, podsProbed=B, failed=many(S), message=S),
        proof=one_of("proven", "refuted", "unknown"),
        proofNote=S,
        lastProof=maybe(record(time=S, by=S, heartbeatAgeSeconds=maybe(I))),
    )
    member = record(
        clusterName=S,
        ciliumName_=S,
        clusterId_=I,
        connected=B,
        asked_=B,
        **fields(I, "readyNodes", "askedNodes", "totalNodes"),
        probedFrom_=many(S),
    )
    return record(phase=S, lastSyncTime_=S, meshStatus_=many(member), links_=many(link), conditions_=many(CONDITION), observedGeneration_=I)


def _fabric() -> Schema:
    row = record(name=S, phase=S, lastSyncTime_=S, clusters=COUNT, links=READY, lastProof=PROOFS, message_=S)
    return record(
        **fields(S, "name", "phase", "lastSyncTime_"),
        counts=record(bindings=COUNT, clusters=COUNT, links=READY),
        lastProof=PROOFS,
        bindings=many(row),
        conditions=many(CONDITION),
    )


def _rehearsal() -> Schema:
    client = record(
        clusters=many(S),
        before=BACKENDS,
        atOnce=BACKENDS,
        keptForSeconds=maybe(many(I)),
        contracted_=BACKENDS,
        contractedWithinSeconds_=maybe(I),
        dropped_=BACKENDS,
    )
    service = record(kind=S, namespace=S, name=S, readyBefore=I, ready=I, readyByCluster=by_name(I), clients=many(client))
    sums = ("withoutBackend", "contractNotMet", "clientsWithoutBackend", "clientsWithoutBackendLater")
    more = ("clientsWithDeadBackends", "clientsWithFrozenBackends", "keptForEver")
    loss = record(
        name=S,
        kind=S,
        members=many(S),
        links=many(many(S)),
        networks=many(many(S)),
        verdict=one_of(*(verdict.value for verdict in Verdict)),
        harms={"type": "object", "properties": {harm.value: I for harm in Harm}, "additionalProperties": False},
        summary=S,
        servicesWithoutBackend=many(S),
        sums=record(**dict.fromkeys((*sums, *more), I)),
        services=many(service),
        servicesOmitted=I,
        exposures=many(record(name=S, namespace=S, service=S, fate=S, servedBy=many(S), servedByAfterwards=many(S), waitsForAddress=B)),
        stalls=many(record(harm=one_of(*(harm.value for harm in Harm)), summary=S)),
        noticed=many(record(who=S, afterSeconds=maybe(many(I)), clusters=many(S), how=S)),
        returnsUntil=S,
    )
    return record(services=I, verdicts=record(**{verdict.value: I for verdict in Verdict}), losses=many(loss), unknown=UNKNOWN)


def _envelope() -> Schema:
    number = maybe(I)
    load = {"keys": number, "cachedKeys": number, **dict.fromkeys(("watchesOfPeers", "watchesOfAgents", "connections"), I)}
    row = record(
        **fields(S, "limit", "cluster", "detail"),
        used=number,
        most=I,
        **fields(number, "left", "percent", "usedWithOneMore", "moreClusters"),
        estimate=B,
        unknownOf=many(S),
    )
    return record(
        rows=many(row),
        limits=by_name(record(title=S, source=S, consequence=S, remedy=S)),
        loads=many(record(cluster=S, **load, withOneMore=maybe(record(**load)))),
        newcomer=maybe(by_name(I)),
        newcomerRows=many(record(limit=S, used=number, most=I, percent=number, unknownOf=many(S))),
        moreClusters=number,
        unread=many(record(cluster=S, reasons=many(S))),
        unknown=UNKNOWN,
    )


def _archive() -> Schema:
    return record(
        path=S,
        bytes=I,
        pseudonyms=B,
        files=many(record(path=S, bytes=I, removed=I, cutBytes=I)),
        missing=many(record(cluster=S, what=S, reason=S)),
        leftOut=many(record(path=S, what=S, bytes=I)),
    )


def _upgrade() -> Schema:
    hop = record(
        **fields(S, "cluster", "before", "after"),
        writes=many(record(cluster=S, verb=S, object=S, disruption=S)),
        findings=many(_finding()),
        planned=B,
    )
    return record(
        target=S,
        members=many(record(cluster=S, minor=S)),
        unknown=UNKNOWN,
        skewed=many(many(S)),
        steps=many(record(number=I, kind=S, cluster=S, hop=S, text=S, values=many(S), commands=many(S), restarts=many(S))),
        effects=many(record(rule=S, cluster=S, need=S, summary=S, evidence=many(S), values=many(S), commands=many(S), source=S)),
        hops=many(hop),
        changes=many(record(change=S, before=S, **FLOW)),
        changesLeftOut=I,
    )


def _reach() -> Schema:
    cell = {"from": S, "to": S, "access": S, **dict.fromkeys(("pairs", "allowed", "partly", "unknown", "denied"), I), "ports": S}
    return record(
        workloads=I,
        distinct=I,
        pairs=by_name(I),
        matrix=many(record(**cell)),
        flows=many(record(**FLOW)),
        outsiders=many(record(**FLOW, published=many(S))),
        planned=B,
        changes=many(record(change=S, before=S, **FLOW)),
        notCarriedOut=many(S),
        notes=many(S),
        leftOut=record(matrix=I, flows=B, outsiders=I, changes=I),
    )


def _trust() -> Schema:
    cluster = record(cluster=S, ca=CERTIFICATE, canIssue=B, method=S, how=S, schedule=S, nextRenewal=S, expires=S, roll=S)
    pair = record(
        **fields(S, "cluster", "peer", "mode", "reason", "user"),
        connected=B,
        issuer=S,
        certificates=record(client=CERTIFICATE, server=CERTIFICATE, serverCa=CERTIFICATE, clientCa=CERTIFICATE),
        **fields(S, "expires", "expiresFirst", "renewFrom"),
        due=B,
    )
    return record(clusters=many(cluster), pairs=many(pair))


def _roll() -> Schema:
    return record(
        stage=S,
        clusters=many(S),
        stages=many(record(stage=S, what=S, state=one_of("done", "now", "later"))),
        waits=many(record(cluster=S, text=S)),
        held=B,
    )


def _explanation() -> Schema:
    answer = one_of(*(answer.value for answer in HopVerdict))
    return record(verdict=answer, summary=S, hops=many(record(hop=S, verdict=answer, cluster=S, summary=S, evidence=many(S), fix=S)))


def _status() -> Schema:
    return record(
        binding=maybe(_binding()), **{kind.value: many(of_kind(kind.crd.lower(), **NAMED)) for kind in ItemKind}, fabric_=maybe(_fabric())
    )


def _run() -> Schema:
    return record(
        "How the run ended. Only in the file, and not in the statistic mesh_result.",
        playbook=S,
        mesh=S,
        time={"type": "string", "format": "date-time"},
        checkMode=B,
        failed=B,
        error=S,
    )


@cache
def result_schema() -> Schema:
    """Return the schema of mesh_result, and of the file of a run, which has the key ``run`` too."""
    workload = record(name=S, status=_types(status_schemas()["fleetworkload.json"]))
    service = record(name=S, meshRef=record(name=S), selector={"type": "object"}, affinity_=S)
    found = record(
        schema={"const": SCHEMA},
        run_=_run(),
        changed=B,
        findings=many(_finding()),
        plan=_plan(),
        outages=many(S),
        status=_status(),
        withheld_=many(record(cluster=S, peer=S, reason=S)),
        requeueSeconds=I,
        explanation_=maybe(_explanation()),
        reach_=maybe(_reach()),
        rehearsal_=maybe(_rehearsal()),
        upgrade_=maybe(_upgrade()),
        envelope_=maybe(_envelope()),
        archive_=maybe(_archive()),
        rbac_=maybe(record(manifests=many(record(clusters=many(S), manifest=S)))),
        trust_=maybe(_trust()),
        roll_=maybe(_roll()),
        workloads_=maybe(many(workload)),
        global_services_=maybe(many(service)),
        fleets_=maybe(many(of_kind("fleet", **NAMED))),
        placement_policies_=maybe(many(of_kind("placementpolicy", **NAMED))),
        leaving_=maybe(many(S)),
        clusters_=maybe(many(of_kind("kubernetescluster", **NAMED, member=S))),
        metrics_=maybe(many(of_kind("clustermetrics", **NAMED))),
    )
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Result of a playbook of edge_portal.cilium_mesh",
        "description": "The statistic mesh_result, and the file that cilium_mesh_result_file names; see docs/results.md.",
    }
    return head | found


def problems_of(result: Mapping[str, Any]) -> list[str]:
    """Return what of a result is not as the schema says, the first places first."""
    steps = {tuple(step): step for step in result["plan"]["steps"]}  # of thousands of steps, one with each set of keys is validated
    sampled = {**result, "plan": {**result["plan"], "steps": list(steps.values())}}
    return [f"{error.json_path}: {error.message[:300]}" for found in _validator().iter_errors(sampled) for error in _leaves(found)]


def _leaves(error: Any) -> list[Any]:
    """Return what is wrong with a value that may also be null: of the errors of its alternatives, those of objects rather than of null."""
    inner = [found for found in error.context or () if found.validator_value != "null"]
    return [leaf for found in inner for leaf in _leaves(found)] if inner else [error]


def hold_to_schema(result: Mapping[str, Any]) -> None:
    """Check a result.

    :raises AssertionError: it is not as the schema says.
    """
    problems = problems_of(result)
    assert not problems, f"{FILE.relative_to(CHECKOUT)} does not have it so:\n" + "\n".join(problems[:10])


@cache
def _validator() -> Any:
    validator.Draft202012Validator.check_schema(result_schema())
    return validator.Draft202012Validator(result_schema())


@cache
def published_keys() -> frozenset[str]:
    """Return the further keys that the playbooks publish, as their tasks say."""
    found: set[str] = set()
    for path in sorted((CHECKOUT / "playbooks").glob("*.yml")):
        for play in yaml.safe_load(path.read_text(encoding="utf-8")):
            for block in play["tasks"]:
                for task in block.get("always", ()):
                    found |= set((task.get("edge_portal.cilium_mesh.mesh_publish") or {}).get("keys", ()))
    return frozenset(found)


def published_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the playbook of an action publishes of its result."""
    status = result.get("status") or {}
    items = "globalServices" in status
    found = mesh_result({} if items else result, result if items else {})
    if "counts" in status:
        found["status"] |= {"fabric": status, "binding": None}
    # The facts of mesh_info have the key clusters too, and no playbook publishes them.
    facts = {"clusters"} if isinstance(result.get("clusters"), dict) else set[str]()
    return found | {key: result[key] for key in sorted(published_keys() - facts) if key in result}


def main() -> int:
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text_of(result_schema()), encoding="utf-8")
    print(FILE)
    return 0


if __name__ == "__main__":
    sys.exit(main() if sys.argv[1:] == ["--write"] else "Usage: python -m tests.testing.result_schema --write")
