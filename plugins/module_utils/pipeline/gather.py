# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The run that makes an archive for a bug report: it reads the members, judges and measures them, and packs that. It writes nothing.

A bug report is made when something does not work, so no part of the run stops another one: what fails is named in the manifest.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from ..base.errors import MeshError
from ..findings.finding import Severity
from ..gather.archive import Guards, Heading, Packed, pack, summary
from ..gather.contents import Extras, cluster_documents, missing_of, names_of
from ..gather.document import Document, Missing
from ..gather.known_secrets import KnownSecrets
from ..gather.objects import container_states, global_services
from ..gather.pseudonyms import Pseudonyms
from ..mesh.facts.cluster import ClusterFacts, as_data
from ..observe import Observation
from ..observe.reads import Read, pods_read
from .judgement import context_of, judge_and_plan
from .links import contacts
from .options import PARALLEL, ConnectOptions
from .outcome import Outcome, failure_findings
from .run import Run, measure_readers

_Found = TypeVar("_Found")


@dataclass(frozen=True, kw_only=True)
class GatherInput:
    """What the archive holds besides what the clusters say. ``pseudonym_key``: None keeps names and addresses."""

    versions: Mapping[str, str]
    collection: str
    documents: tuple[Document, ...] = ()  # results and logs that the user names
    proof: str = "auto"
    pseudonym_key: bytes | None = None
    most: int = 2**25  # bytes


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """The archive, its outcome, and the pseudonyms that were given."""

    packed: Packed
    outcome: Outcome
    pseudonyms: Mapping[str, str] = field(default_factory=dict)


def gather(run: Run, given: GatherInput, where: str) -> Gathered:
    """Read everything and pack it.

    :param where: path of the archive, to be shown.
    """
    missing: list[Missing] = []
    with run.observe(PARALLEL) as observation:
        extras = _extras(run, observation, missing)
        documents = [*_mesh_documents(run, given, observation, missing), *_silent_documents(observation, missing)]
        for host, facts in sorted(observation.facts.items()):
            missing += missing_of(facts)
            made = _part("documents", host, missing, partial(_cluster_documents, facts, extras[host]))
            documents += made or []
        documents += given.documents
        pseudonyms = None
        if given.pseudonym_key is not None:
            pseudonyms = Pseudonyms(key=given.pseudonym_key, names=names_of(run.mesh, observation.facts, extras))
        known = KnownSecrets(value.reveal() for value in observation.secrets.values())
        heading = Heading(
            made=run.now.isoformat(timespec="seconds"), mesh=run.mesh.binding.name, collection=given.collection, missing=tuple(missing)
        )
        packed = pack(documents, heading, Guards(known=known, pseudonyms=pseudonyms), most=given.most)
        said = summary(packed.manifest)
        outcome = Outcome(
            findings=failure_findings(observation.failures.values(), Severity.ADVISORY, "The archive has nothing of it."),
            clusters=run.mesh.clusters,
            **contacts(observation),
            extra={"archive": {"path": where, "bytes": len(packed.content), **said}},
        )
        return Gathered(packed=packed, outcome=outcome, pseudonyms=dict(pseudonyms.given) if pseudonyms else {})


def _mesh_documents(run: Run, given: GatherInput, observation: Observation, missing: list[Missing]) -> list[Document]:
    """Return the documents about the mesh as a whole: the first are those that a maintainer reads first."""
    judged = _part("findings", "", missing, lambda: _judge(run, observation))
    measured = _part("links", "", missing, lambda: measure_readers(run.ports, run.mesh, observation, given.proof))
    found = [
        _document("versions", "the collection and what it runs on", "to reproduce it", ("controller",), dict(given.versions)),
        _document("mesh", "the binding as it was understood", "to know what was asked for", ("cilium_mesh",), as_data(run.mesh.binding)),
    ]
    if judged is not None:
        why = "a blocking finding explains most failures"
        found.append(_document("findings", "the findings of verify", why, ("facts of all members",), judged[0]))
        if judged[1] is not None:
            why = "what connect would do now shows what it takes for wrong"
            found.append(_document("plan", "the plan of connect, which was not carried out", why, ("facts of all members",), judged[1]))
    if measured is not None:
        readers, status = measured
        missing += [Missing(cluster=host, what="a reader", reason=why) for host, reader in readers.items() for why in reader.problems]
        sources = ("status of kvstoremesh and agents", "new connections of readers and the controller")
        found.append(
            _document("links", "the state of each link, and the conditions", "where a link stops is where to look", sources, status)
        )
        why = "the summary of a link hides which reader lags"
        rows = {host: as_data(reader) for host, reader in readers.items()}
        found.append(_document("readers", "what each reader reports of each peer", why, sources[:1], rows))
    return found


def _cluster_documents(facts: ClusterFacts, extras: Extras) -> list[Document]:
    return list(cluster_documents(facts, extras))


def _judge(run: Run, observation: Observation) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    options = ConnectOptions()
    findings, plan = judge_and_plan(context_of(run.ports, observation, run.mesh, options, run.now), options, "verify")
    kept = {key: value for key, value in plan.to_dict().items() if key != "reliedOn"} if plan is not None else None
    return [finding.to_dict() for finding in findings], kept


def _silent_documents(observation: Observation, missing: list[Missing]) -> list[Document]:
    found = []
    for host, failure in sorted(observation.failures.items()):
        missing.append(Missing(cluster=host, what="the whole cluster", reason=failure.message))
        content = {"code": failure.code, "message": failure.message, "remedy": failure.remedy}
        why = "nothing else of it could be read"
        found.append(_document(f"clusters/{host}/silent", "why the cluster did not answer", why, ("its API server",), content))
    return found


def _extras(run: Run, observation: Observation, missing: list[Missing]) -> dict[str, Extras]:
    hosts = sorted(observation.facts)

    def read(host: str) -> tuple[Extras, list[Missing]]:
        unread: list[Missing] = []
        pods, services = pods_read(observation.facts[host].namespace), Read(path="/api/v1/services", many=True)

        def answer(wanted: Read) -> Any:
            return run.ports.read(observation, host, {"": wanted})[""]

        containers = _part("states of containers", host, unread, lambda: container_states(answer(pods)))
        global_ones = _part("global Services", host, unread, lambda: global_services(answer(services)))
        return Extras(containers=containers, services=global_ones), unread

    with ThreadPoolExecutor(PARALLEL) as pool:
        found = dict(zip(hosts, pool.map(read, hosts), strict=True))
    missing += [entry for host in hosts for entry in found[host][1]]
    return {host: extras for host, (extras, _unread) in found.items()}


def _part(what: str, cluster: str, missing: list[Missing], make: Callable[[], _Found]) -> _Found | None:
    """Return what ``make`` returns; None if it fails, which is then named. The text of an error that is not of the engine is withheld."""
    try:
        return make()
    except MeshError as error:
        reason = error.message
    except Exception as error:  # a defect is what bug reports are about; its text might hold a value of a Secret
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
        reason = f"Unexpected {type(error).__name__}{place}; its text is withheld."
    missing.append(Missing(cluster=cluster, what=what, reason=reason))
    return None


def _document(name: str, what: str, why: str, source: Sequence[str], content: Any) -> Document:
    return Document(path=f"{name}.json", what=what, why=why, source=tuple(source), content=content)
