# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The Job of a probe: an identity and nothing else, no traffic, no rights; and what its end means."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.items.models import PortRule
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.item_kinds import ItemKind, ItemRef
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.binding.model import Binding
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.mesh.versions.minors import SUPPORTED
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.policies.evaluate.label_filters import label_filters
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe import job
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.job import ConnectionResult, JobTarget
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.limits import Limits
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.probe.pods import ProbedPod
from tests.lab.patience import scaled
from tests.lab.trials import Trials
from tests.testing.rows import one_test

BINDING = Binding(name="edge-mesh-eu", cluster_refs=("c1", "c2"))
LIKE = ProbedPod(
    namespace="production",
    name="frontend-7d9f-x",
    account="frontend",
    labels={
        "app": "frontend",
        "tier": "web",
        "pod-template-hash": "7d9f",
        "controller-revision-hash": "a",
        "statefulset.kubernetes.io/pod-name": "frontend-0",
        "apps.kubernetes.io/pod-index": "0",
        "batch.kubernetes.io/job-name": "x",
        "job-name": "x",
        "controller-uid": "y",
    },
)
TARGET = JobTarget(cluster="c2", pod="production/backend-1", address="10.2.0.20", port=8080)


def body(**fields: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"image": "busybox:1.36", "command": (), "expects": ConnectionResult.CONNECTED, "limits": Limits()}
    ref = ItemRef(ItemKind.INTENT, "front-to-back")
    return job.job_body(BINDING, ref, "front-to-back-0123456789", LIKE, [TARGET], **{**values, **fields})


def test_its_pod_has_the_identity_of_the_source_and_no_label_more_that_counts() -> None:
    template = body()["spec"]["template"]
    own = "annotation.cilium-mesh.edge-portal.eu/probe"
    assert template["metadata"]["labels"] == {"app": "frontend", "tier": "web", own: "front-to-back-0123456789"}
    for version in SUPPORTED.minors:
        filters = label_filters(version, {})
        assert {key for key in template["metadata"]["labels"] if filters.counts(key)} == {"app", "tier"}, version
    assert template["spec"]["serviceAccountName"] == "frontend"
    assert (body()["spec"]["manualSelector"], body()["spec"]["selector"]) == (True, {"matchLabels": {own: "front-to-back-0123456789"}})


def test_it_is_never_ready_has_no_rights_and_ends_by_itself() -> None:
    spec = body()["spec"]
    pod = spec["template"]["spec"]
    assert pod["readinessGates"] == [{"conditionType": "cilium-mesh.edge-portal.eu/never-ready"}]
    assert (pod["automountServiceAccountToken"], pod["restartPolicy"], spec["backoffLimit"]) == (False, "Never", 0)
    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"], spec["parallelism"], spec["completions"]) == (30, 60, 1, 1)
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]["limits"]) == {"cpu", "memory"}


def test_it_carries_the_marks_of_its_binding_and_intent() -> None:
    metadata = body()["metadata"]
    assert metadata["labels"]["cilium-mesh.edge-portal.eu/owner"] == BINDING.owner
    assert metadata["labels"]["cilium-mesh.edge-portal.eu/probe"] == "true"
    assert metadata["annotations"] == {"cilium-mesh.edge-portal.eu/item": "connectivityIntents/front-to-back"}


def test_address_and_port_are_arguments_and_never_part_of_the_script() -> None:
    (container,) = body()["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["/bin/sh", "-c", job.SCRIPT, "probe", "10.2.0.20", "8080", "3", "4", "connected"]
    own = body(command=("/agnhost", "connect", "$(PROBE_TARGET)", "--timeout=3s"))["spec"]["template"]["spec"]["containers"][0]
    assert own["command"] == ["/agnhost", "connect", "$(PROBE_TARGET)", "--timeout=3s"]
    assert {entry["name"]: entry["value"] for entry in own["env"]}["PROBE_TARGET"] == "10.2.0.20:8080"
    assert JobTarget(cluster="c2", pod="p", address="fd00::1", port=80).shown == "[fd00::1]:80"


@one_test(
    "rules declared port",
    ((PortRule(protocol="TCP", port=8080),), (9090, 8080), 8080),
    ((PortRule(protocol="TCP", port=8080),), (), 8080),
    ((PortRule(protocol="UDP", port=53), PortRule(protocol="ANY", port=54)), (), 54),
    ((PortRule(protocol="TCP", port=8000, end_port=9000),), (80, 8443), 8443),
    ((PortRule(protocol="TCP"),), (80,), 80),
    ((PortRule(protocol="TCP"),), (), 0),
    ((PortRule(protocol="ICMP", icmp_type=8),), (80,), 0),
    ((), (80,), 80),
    ((), (), 0),
)
def test_the_port_that_is_tried(rules: tuple[PortRule, ...], declared: tuple[int, ...], port: int) -> None:
    assert job.tcp_port(rules, declared) == port


@one_test(
    "code words tried",
    (0, "", ConnectionResult.CONNECTED),
    (0, "refused", ConnectionResult.CONNECTED),
    (1, "nc: (10.2.0.20:8080): Connection refused\nrefused after 1", ConnectionResult.REFUSED),
    (1, "timeout after 4", ConnectionResult.TIMEOUT),
    (1, "nc: timed out\n\n", ConnectionResult.TIMEOUT),
    (1, "REFUSED", ConnectionResult.REFUSED),
    (1, "TIMEOUT", ConnectionResult.TIMEOUT),
    (1, "other after 4", ConnectionResult.OTHER),
    (2, "", ConnectionResult.OTHER),
)
def test_the_end_of_a_command_of_any_image(code: int, words: str, tried: ConnectionResult) -> None:
    assert job.connection_result(code, words) is tried


def status(**state: Any) -> dict[str, Any]:
    return {"status": {"phase": "Running", "containerStatuses": [{"name": "probe-0", "state": state}]}}


def test_containers_that_cannot_run_are_distinguished_from_those_that_failed() -> None:
    assert job.container_ends(status(running={"startedAt": "x"}), 1) == [None]
    assert job.container_ends(status(waiting={"reason": "ContainerCreating"}), 1) == [None]
    assert job.container_ends({}, 2) == [None, None]
    (image,) = job.container_ends(status(waiting={"reason": "ImagePullBackOff", "message": "secret"}), 1)
    assert image is not None and (image.tried, image.words) == (ConnectionResult.NOTHING, "its container does not start (ImagePullBackOff)")
    (start,) = job.container_ends(status(terminated={"reason": "StartError", "exitCode": 128}), 1)
    assert start is not None and start.tried is ConnectionResult.NOTHING
    (hostile,) = job.container_ends(status(terminated={"exitCode": 1, "message": "\x1b[31m" + "x\n" * 9000 + "timeout after 4"}), 1)
    assert hostile is not None and hostile.tried is ConnectionResult.TIMEOUT and hostile.words.isprintable() and len(hostile.words) <= 120
    assert job.container_ends(status(terminated="never"), 1) == [None]


def test_a_service_that_publishes_unready_addresses_is_found() -> None:
    def service(name: str, publishes: Any, selector: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"publishNotReadyAddresses": publishes, "selector": selector}}

    services = [
        service("usual", False, {"app": "frontend"}),
        service("peers", True, {"app": "frontend"}),
        service("others", True, {"app": "x"}),
        service("none", True, {}),
        service("odd", "true", {"app": "frontend"}),
    ]
    assert job.publishing_services(services, {"app": "frontend", "tier": "web"}) == ["peers"]


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def run_script(folder: Path, routes: dict[str, str], expects: str, *, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """The built-in command in the POSIX shell of this machine, with the lab's ``nc``."""
    trials = Trials(folder)
    trials.prepare()
    trials.lead(routes)
    argv = ["/bin/sh", "-c", job.SCRIPT, "probe", "10.2.0.20", "8080", "1", "2", expects]
    found = subprocess.run(argv, env=environment or trials.environment({}), capture_output=True, text=True, timeout=scaled(20), check=False)
    return found.returncode, found.stdout


@pytest.mark.parametrize("expects", ["connected", "timeout"])
def test_the_built_in_command_reports_what_it_met(tmp_path: Path, listener: int, expects: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        unused = closed.getsockname()[1]
    code, words = run_script(tmp_path, {"10.2.0.20:8080": f"127.0.0.1:{listener}"}, expects)
    assert (code, job.connection_result(code, words)) == (0, ConnectionResult.CONNECTED)
    assert words.splitlines()[-1] == ("connected after 1" if expects == "connected" else "connected after 2")
    code, words = run_script(tmp_path, {"10.2.0.20:8080": f"127.0.0.1:{unused}"}, expects)
    assert (job.connection_result(code, words), words.splitlines()[-1]) == (ConnectionResult.REFUSED, "refused after 1")
    code, words = run_script(tmp_path, {}, expects)
    assert (job.connection_result(code, words), words.splitlines()[-1]) == (
        ConnectionResult.TIMEOUT,
        "timeout after 2" if expects == "connected" else "timeout after 1",
    )


def test_an_image_without_nc_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("tail", "sleep"):
        os.symlink(f"/usr/bin/{name}", tmp_path / "empty" / name)
    code, words = run_script(tmp_path, {}, "connected", environment={"PATH": str(tmp_path / "empty")})
    assert code != 0 and job.connection_result(code, words) is ConnectionResult.OTHER


def test_a_busybox_without_the_option_z_is_asked_with_e(tmp_path: Path, listener: int) -> None:
    """BusyBox 1.35 of Debian: "nc: invalid option -- 'v'" and its usage, exit code 1; with -e it connects."""
    program = tmp_path / "old" / "nc"
    program.parent.mkdir()
    trials = Trials(tmp_path)
    trials.prepare()
    trials.lead({"10.2.0.20:8080": f"127.0.0.1:{listener}"})
    real = trials.environment({})["PATH"].split(":")[0] + "/nc"
    program.write_text(
        '#!/bin/sh\n[ "$1" = -v ] && { echo "nc: invalid option -- v" >&2; echo "Usage: nc [-iN] [-wN]" >&2; exit 1; }\n'
        f'[ "$5 $6" = "-e true" ] || exit 9\nexec {real} -v -z -w "$2" "$3" "$4"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin", "LAB_ROUTES": trials.environment({})["LAB_ROUTES"]}
    assert json.loads(Path(environment["LAB_ROUTES"]).read_text())
    argv = ["/bin/sh", "-c", job.SCRIPT, "probe", "10.2.0.20", "8080", "1", "2", "connected"]
    found = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=scaled(20), check=False)
    assert (found.returncode, found.stdout.splitlines()[-1]) == (0, "connected after 1")
