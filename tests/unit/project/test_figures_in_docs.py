# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Figures that pages promise are those of the code: who changes a bound finds the sentence that names it here."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Final

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base import spec_limits
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.etcd import peer_records
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure import ranges
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.exposure.assessment import PATIENCE
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kube import authorization, client, exec_plugin
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.lock import state as lock
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding import waivers
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.observe import (
    REQUESTS_AT_ONCE,
    health,
    heartbeats,
    new_connections,
    node_health,
    reads,
    sizes,
    tls_probe,
)
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.pipeline import meaning
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies import compile as policies
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.limits import Limits
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.seen_flows import LIMITS as SEEN
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.reconcile import status as items
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.rehearse import rehearsal
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.report.plan import LINKS_SHOWN
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.services import failover_findings
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.status import link_proof, withheld
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils import report
from mesh_operator import first_status, operator, replica
from mesh_operator.base import serve
from mesh_operator.credentials import clusters, labelled_secrets, namespace_clusters, tenant_addresses
from mesh_operator.meshes import awaited_links, reconcile
from mesh_operator.runs import dry_runs
from mesh_operator.runs.confined import process
from mesh_operator.schedule import leader, queue, turns
from mesh_operator.source import endpoint_watches, resource_writer, status_patch, store, watch
from mesh_operator.statuses import findings as status_findings
from tests.collection_path import CHECKOUT

PROBE: Final = Limits()
WAITS: Final = client.Timeouts()
LEASE_RENEWAL: Final = inspect.signature(leader.Election).parameters["renew"].default
COMMANDS: Final = 1 + new_connections.SHARED * (new_connections.ROUNDS - 1)
OBSERVED: Final = 1 + len(reads.other_reads("kube-system", "leases"))
NUMBERS: Final[Mapping[float, str]] = {2: "two", 3: "three", 4: "four", 5: "five", 8: "eight", 9: "nine", 10: "ten"}
SHARES: Final = {8: "an eighth"}


def spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


FIGURES: Final[Mapping[str, tuple[str, ...]]] = {
    "docs/operator-status.md": (
        f"One object gets it {first_status.SOON} seconds after",
        f"{first_status.A_TURN} of one mesh get it every {first_status.SOON} seconds",
        f"2,000 need {2000 / first_status.A_TURN * first_status.SOON:g} seconds at least",
        f"written once in {status_patch.SYNC_SECONDS // 60} minutes",
        f"the worst first, {status_findings.MOST} at most",
        f"{NUMBERS[resource_writer.EVENTS]} at once at most",
        f"tries again after {meaning.RETRY_SECONDS:g} seconds",
        f"deleted only after {NUMBERS[store.KEEP // 60]} minutes",
    ),
    "docs/operator.md": (
        f"dry runs after {awaited_links.FIRST:g} second, then less and less often up to every {awaited_links.LONGEST:g} seconds",
        f"After {NUMBERS[awaited_links.PATIENCE // 60]} minutes without success",
        f"the last turn took less than {turns.SLOW:g} seconds",
        f"takes longer than {turns.TOO_LONG:g} seconds is ended",
        f"more often than every {reconcile.SOONEST:g} seconds",
        f"for {SHARES[queue.RESYNC_SHARE]} of the time",
        f"missing for {NUMBERS[store.KEEP // 60]} minutes",
        f"between two looks | {operator.ENDING:g}, and",
        f"a request for the Lease | {replica.RETRY:g} of silence | if the Lease was not renewed for {LEASE_RENEWAL:g},",
        f"| {WAITS.connect:g} for a connection, {WAITS.read:g} of silence, {WAITS.answer:g} in all,",
        f"| {exec_plugin.SECONDS:g}, or {authorization.RENEWAL_SECONDS:g} |",
        f"a watch | {watch.LONGEST[1]:g}, and {client.WATCH_GRACE} more",
        f"two tries of a watch | {watch.BACKOFF[1]:g} |",
        f"own servers | {tenant_addresses.PATIENCE:g}, if",
        f"credentials of its clusters | {clusters.RESOLVING:g} |",
        f"| {process.STARTING:g} for the first one of an operator to start;",
        f"up to {dry_runs.LONGEST} times that; {process.ENDING:g} for its end |",
        f"| {namespace_clusters.POLLED:g} for each page,",
        f"for the workers | {operator.STOPPING:g};",
        f"a client of a health port | {serve.SECONDS} | {serve.CONNECTIONS} later connections",
    ),
    "docs/operator-kubernetes.md": (
        f"It reads the metadata of {labelled_secrets.MOST:,} Secrets at most",
        f"What has not been read after {clusters.RESOLVING:g} seconds",
    ),
    "docs/management-plane.md": (
        f"looks the names of its own servers up every {tenant_addresses.AGAIN / 60:g} minutes",
        f"the first turns wait for it for up to {tenant_addresses.PATIENCE:g} seconds",
    ),
    "docs/operator-flags.md": (
        f"A connection has {serve.SECONDS} seconds",
        f"each port has {serve.CONNECTIONS} connections at once",
        f"for {operator.HANG_MARGIN / 60:g} minutes longer than credentials, dry run and `--job-timeout` may take together",
        f"a stop has lasted for {2 * operator.STOPPING:g} seconds",
        f"without an answer for more than {endpoint_watches.OUT_OF_REACH:g} seconds",
        f"| all ask every | {replica.RETRY:g} |",
        f"gets {withheld.MOST} such lines within an hour",
    ),
    "docs/dead-peers.md": (
        f"({COMMANDS} commands and {new_connections.ROUNDS * new_connections.COMMAND_SECONDS:g} seconds per pod)",
        f"A peer that does not answer costs {new_connections.PEER_SECONDS} seconds",
        f"reads up to {heartbeats.LINKS_EACH} links one by one, {heartbeats.AT_ONCE} at a time",
        f"older than {NUMBERS[link_proof.STALE_SECONDS // 60]} minutes",
        f"reads up to {peer_records.KEYS * len(peer_records.PREFIXES)} keys of each member",
    ),
    "docs/results.md": (
        f"Of more than {health.AGENTS_ASKED} agents {health.AGENTS_ASKED} are asked",
        f"more than {node_health.REPORTED:,} nodes, fewer of them are",
        f"none if one alone would report more than {node_health.MOST_NODES:,}",
    ),
    "docs/verify.md": (
        f"`verify` makes {OBSERVED + len(sizes.COUNTED)} requests per cluster",
        f"over {NUMBERS[REQUESTS_AT_ONCE]} connections at most: {OBSERVED} to observe it",
        f"of more than {client.PAGE} objects",
    ),
    "docs/locking.md": (
        f"| `cilium_mesh_lock_duration` | {lock.DURATION} |",
        f"was killed; {lock.SHORTEST} to {lock.LONGEST} |",
        f"for that time and {lock.MARGIN:g} seconds more is free",
        f"usually, {lock.DURATION + lock.MARGIN:g} seconds",
    ),
    "docs/items.md": (
        f"may have {spec_limits.DEPTH} levels, {spaced(spec_limits.VALUES)} values and {spaced(spec_limits.CHARACTERS)} characters",
        f"The first {spec_limits.PROBLEMS} problems",
        f"pages of {client.PAGE} objects",
        f"is the smallest of: {items.CHECK_INTERVAL};",
        f"{items.GOING_ON_AGAIN} while a write is under way",
        f"{items.WAITING_AGAIN} while an item waits; {items.DEGRADED_AGAIN} while",
    ),
    "docs/policies.md": (
        f"in groups of {policies.PER_RULE},",
        f"the last {SEEN.window / 60:g} minutes: at most {SEEN.agents} agents of a cluster and the last {SEEN.flows} flows of each,"
        f" for {SEEN.intents} intents, in {SEEN.total:g} s",
    ),
    "docs/probe.md": (
        f"| intents probed in a run | {PROBE.intents};",
        f"| {PROBE.total:g} s for all, {PROBE.per_intent:g} s for one intent, {PROBE.exec_seconds:g} s for an agent's answer |",
        f"| {PROBE.agents} per intent and cluster,",
        f"the last {PROBE.flows}; {PROBE.output // 1024**2} MiB of its answer",
        f"| {PROBE.pods} per end and cluster |",
        f"at most {PROBE.window:g} s old, and at least {PROBE.settle:g} s younger",
        f"ends within {PROBE.job_seconds} s, Kubernetes removes it {PROBE.job_ttl} s later",
    ),
    "docs/endpoints.md": (f"from the controller, {tls_probe.PARALLEL} at a time, with {tls_probe.TIMEOUT:g} seconds for each of the two",),
    "docs/failover.md": (f"A value below {failover_findings.SHORTEST_DETECTION} s cannot be promised",),
    "docs/exposed-services.md": (
        f"it gets {NUMBERS[PATIENCE.seconds // 60]} minutes; then a standby takes over",
        f"At most {ranges.LIMIT} |",
    ),
    "docs/choices.md": (f"more than {waivers.LONGEST.days} days has no effect",),
    "docs/topologies.md": (
        f"with more than {LINKS_SHOWN} links",
        f"with more than {report.STEPS_SHOWN} steps",
        f"With more than {report.CLUSTERS_SHOWN} clusters only {report.BEHIND} clusters and {report.BEHIND} links",
        f"sends {NUMBERS[len(reads.FOR_LINKS) + 2]} requests to each",
    ),
    "docs/rehearse.md": (f"at most {rehearsal.ROWS_LISTED:,} rows of services",),
}
"""Page -> texts as they stand there, with the figures of the code. ``status`` reads the namespace and the pods besides ``FOR_LINKS``."""


@pytest.mark.parametrize("page", FIGURES)
def test_the_figures_of_a_page_are_those_of_the_code(page: str) -> None:
    text = " ".join((CHECKOUT / page).read_text(encoding="utf-8").split())
    assert [figure for figure in FIGURES[page] if figure not in text] == []


def test_a_job_that_a_killed_run_left_ends_within_the_time_that_the_page_says() -> None:
    assert PROBE.job_seconds + PROBE.job_ttl <= 120
    assert "they end by themselves within two minutes" in (CHECKOUT / "docs/rbac.md").read_text(encoding="utf-8")
