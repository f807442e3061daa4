# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.stack up [kcp|kubernetes] [--karmada]`` starts the stack in the background and prints how to use it; ``down`` ends it.

The stack is one process with children. It has a folder with a lock, which it holds as long as it lives, the kubeconfigs, and the log of
the operator. A second ``up`` says that there is one; ``down`` without one says so and is no failure.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from select import select
from typing import Any, Final

import yaml

from tests.collection_path import CHECKOUT
from tests.demo.stages import StageFailed, find_servers, say
from tests.integration.mesh_lab import MeshLab
from tests.integration.operator_lab import OperatorLab
from tests.integration.shop import furnish
from tests.lab.api import LabApi
from tests.lab.control import LabError
from tests.lab.controlplane import StartError
from tests.lab.options import LabOptions
from tests.lab.tools import KARMADA, ToolUnavailable, ensure
from tests.testing.karmada_members import operator_kubeconfig
from tests.testing.kcp_world import ACCOUNT, open_world
from tests.testing.management_plane import ManagementPlane

FOLDER: Final = CHECKOUT / ".build" / "stack"
SOURCES: Final = ("kcp", "kubernetes")
CLUSTERS: Final = ("cluster-ffm-1", "cluster-ber-2", "cluster-muc-3")
CILIUM: Final = "1.20"
TENANT: Final = "team-a"
LOCK: Final = "lock"
CHECK: Final = 15  # seconds between two looks at a mesh
_OF_FLEETS: Final = "  kubectl apply -f samples/fleet\n  kubectl get kubernetesclusters,fleets,placementpolicies,fleetworkloads\n"
_PATIENCE: Final = 900.0  # seconds for the first start, which may build servers, and for the end


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0; 1 when the stack could not be started or ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.stack", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("verb", choices=("up", "down", "hold"), help="hold: in the foreground, as up starts it")
    parser.add_argument("source", nargs="?", default="kcp", choices=SOURCES, help="where the custom resources are")
    parser.add_argument("--karmada", action="store_true", help="with a Karmada, and the kinds of fleets (kcp alone)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of kubeconfigs and logs (default: .build/stack)")
    given = parser.parse_args(arguments)
    folder: Path = given.folder.absolute()
    if given.karmada and given.source != "kcp":
        parser.error("--karmada is for the source kcp: the manifests of the source kubernetes are those of the mesh alone")
    try:
        if given.verb == "down":
            return _down(folder)
        return {"up": _up, "hold": _hold}[given.verb](folder, given.source, karmada=given.karmada)
    except (StageFailed, LabError, StartError, ToolUnavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _up(folder: Path, source: str, *, karmada: bool) -> int:
    if _pid(folder):
        say(f"The stack is up already. Its folder is {_shown(folder)}; make stack-down ends it.")
        return 1
    if folder.exists() and not (folder / LOCK).exists() and any(folder.iterdir()):
        print(
            f"error: {_shown(folder)} holds something else than a stack. Give an empty folder, or one that does not exist.", file=sys.stderr
        )
        return 1
    shutil.rmtree(folder, ignore_errors=True)  # what a killed stack left
    folder.mkdir(parents=True, mode=0o700)
    find_servers(CILIUM, KARMADA if karmada else ())
    began, log = time.monotonic(), folder / "stack.log"
    with log.open("wb") as out:
        command = (sys.executable, "-m", "tests.stack", "hold", source, "--folder", str(folder), *(("--karmada",) if karmada else ()))
        held = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    while not (folder / "ready.json").exists():
        if held.poll() is not None or time.monotonic() - began > _PATIENCE:
            say(log.read_text(encoding="utf-8", errors="replace")[-2000:])
            print("error: the stack did not come up; the end of what it said stands above", file=sys.stderr)
            if _pid(folder):
                _down(folder)
            return 1
        time.sleep(0.2)
    ready: dict[str, Any] = json.loads((folder / "ready.json").read_text(encoding="utf-8"))
    seconds, clusters = time.monotonic() - began, ", ".join(CLUSTERS)
    say(
        f"The stack is up after {seconds:.0f} s: {ready['source']}; clusters {clusters}; the operator is ready.\n"
        f"\n  export KUBECONFIG={_shown(folder)}/tenant.yaml     # of tenant {TENANT}, who has the clusters\n"
        "  kubectl apply -f samples\n"
        "  kubectl get clustermeshbindings,globalservices,connectivityintents,exposedservices\n"
        f"{_OF_FLEETS if karmada else ''}\n"
        f"The kubeconfigs of the clusters are in {_shown(folder)}/clusters, the log of the operator is {_shown(folder)}/operator.log.\n"
        "make stack-down ends all of it."
    )
    return 0


def _down(folder: Path) -> int:
    pid, began = _pid(folder), time.monotonic()
    if not pid:
        say("There is no stack.")
        return 0
    with suppress(ProcessLookupError), ExitStack() as handles:  # it may have ended just now
        process = os.pidfd_open(pid)
        handles.callback(os.close, process)
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select([process], [], [], _PATIENCE)[0]:  # the process, which gives its lock back a little before it ends
            print(f"error: process {pid} of the stack does not end", file=sys.stderr)
            return 1
    shutil.rmtree(folder, ignore_errors=True)
    say(f"The stack is gone after {time.monotonic() - began:.0f} s.")
    return 0


def _hold(folder: Path, source: str, *, karmada: bool) -> int:
    """Run the stack until SIGTERM or SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    with _locked(folder), _stack(folder, source, karmada=karmada) as told:
        (folder / "ready.json.part").write_text(json.dumps({"source": told}), encoding="utf-8")
        (folder / "ready.json.part").rename(folder / "ready.json")
        while True:
            signal.pause()


@contextmanager
def _stack(folder: Path, source: str, *, karmada: bool) -> Iterator[str]:
    """Yield in words where the custom resources are."""
    with ExitStack() as stack:
        management = stack.enter_context(ManagementPlane())
        management.install()
        kind = _kcp() if source == "kcp" else "double"
        world = stack.enter_context(open_world(kind))
        clusters = stack.enter_context(
            MeshLab(LabOptions(name=f"stack-{os.getpid()}", clusters=len(CLUSTERS), names=CLUSTERS, cilium=CILIUM, karmada=karmada))
        )
        furnish(clusters)
        lab = OperatorLab(world, management, clusters, folder)
        if source == "kubernetes":
            lab = stack.enter_context(lab.without_kcp())
        tenant = lab.workspace(TENANT, *CLUSTERS)
        config = tenant.client.kubeconfig()
        config["contexts"][0]["context"]["namespace"] = tenant.tenant.home
        _private(folder / "tenant.yaml", yaml.safe_dump(config))
        (folder / "clusters").mkdir(mode=0o700)
        for name in CLUSTERS:
            _private(folder / "clusters" / f"{name}.yaml", clusters.lab.clusters[name].kubeconfig.read_text(encoding="utf-8"))
        flags = _fleet_flags(lab) if karmada else ()
        operator = stack.enter_context(lab.operator("--mesh-check-interval", f"{CHECK}s", *flags))
        operator.wait_ready()
        (folder / "operator.log").symlink_to(operator.log)
        where = f"workspace {tenant.tenant.path} of {'a kcp' if kind == 'kcp' else 'the test double of kcp'}"
        yield where if source == "kcp" else tenant.tenant.path


def _fleet_flags(lab: OperatorLab) -> tuple[str, ...]:
    """Return the flags by which the operator carries out the kinds of fleets too, with the documented rights and no others."""
    karmada = operator_kubeconfig(LabApi.from_kubeconfig(lab.clusters.lab.karmada), lab.clusters.lab.karmada, lab.folder)
    kubeconfig = lab.folder / "fleet.kubeconfig"
    _private(kubeconfig, json.dumps(lab.world.account(ACCOUNT, workspace="root:fleet").kubeconfig()))
    return "--profile", "all", "--karmada-kubeconfig", str(karmada), "--fleet-kcp-kubeconfig", str(kubeconfig)


def _kcp() -> str:
    with suppress(ToolUnavailable):
        ensure(["kcp"], progress=lambda line: None)
        return "kcp"
    return "double"


def _private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder, with the number of this process in it."""
    with (folder / LOCK).open("w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _pid(folder: Path) -> int:
    """Return the process that holds the lock; 0 if none does."""
    with suppress(FileNotFoundError), (folder / LOCK).open("r+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read() or 0)
    return 0


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(CHECKOUT) else str(path)


if __name__ == "__main__":
    sys.exit(main())
