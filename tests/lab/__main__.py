# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.lab``: real control planes as plain processes, all on loopback."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lab import control, launch, report, workloads
from tests.lab.addresses import OUTSIDE
from tests.lab.api import ApiError, LabApi
from tests.lab.control import LabError
from tests.lab.karmada import PROGRAMS as KARMADA_PARTS
from tests.lab.nodeports import PORTS as NODE_PORTS
from tests.lab.options import (
    AGENTS,
    AUTH_MODES,
    CONTROLLER,
    KARMADA_PACES,
    PROFILES,
    SERVICES,
    TLS_METHODS,
    USUAL,
    LabOptions,
    OptionError,
    parse_list,
    parse_switches,
)
from tests.lab.responder import PORT as SERVE_PORT
from tests.lab.toolbox import resolve
from tests.lab.tools import ToolUnavailable
from tests.lab.tools.progress import console


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0; 1 when the lab could not do it; 2 for wrong arguments."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        return int(args.run(args))
    except OptionError as error:
        parser.error(str(error))
    except (LabError, ToolUnavailable) as error:
        print(f"error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--name", default="lab", help="name of the lab (default: lab)")
    verbs = parser.add_subparsers(dest="verb", required=True)
    _add_up(verbs, parent)
    verbs.add_parser("down", parents=[parent], help="end the lab; nothing is left").set_defaults(run=_down)
    status = verbs.add_parser("status", parents=[parent], help="clusters, pods, addresses, faults, what is played")
    status.add_argument("--json", action="store_true")
    status.set_defaults(run=_status)
    kubeconfigs = verbs.add_parser("kubeconfigs", parents=[parent], help="where the kubeconfigs are")
    kubeconfigs.add_argument("--export", action="store_true", help="print `export KUBECONFIG=…` for a shell to eval")
    kubeconfigs.set_defaults(run=_kubeconfigs)
    for verb, what in (
        ("cut", "refuse connections"),
        ("heal", "undo cut, freeze, slow and block"),
        ("freeze", "let bytes vanish"),
        ("slow", "delay bytes"),
        ("block", "refuse ports of nodes"),
    ):
        fault = verbs.add_parser(verb, parents=[parent], help=f"{what} between two clusters")
        fault.add_argument("source", metavar="A", help=f"a cluster, or {CONTROLLER!r} for where the collection runs")
        fault.add_argument("target", metavar="B", help="a cluster")
        if verb == "slow":
            fault.add_argument("milliseconds", metavar="MS", type=float)
        if verb == "block":
            fault.add_argument("ports", metavar="PORT", nargs="+", choices=NODE_PORTS, help=" or ".join(NODE_PORTS))
        fault.add_argument("--one-way", action="store_true", help="only connections that A opens to B")
        fault.set_defaults(run=_command)
    for verb, what in (
        ("kill", "end the whole mesh endpoint of a cluster"),
        ("restart", "start a killed mesh endpoint again"),
        ("freeze-api", "let kube-apiserver of a cluster answer nothing"),
        ("thaw-api", "let a frozen kube-apiserver go on"),
    ):
        endpoint = verbs.add_parser(verb, parents=[parent], help=what)
        endpoint.add_argument("cluster", metavar="CLUSTER")
        endpoint.set_defaults(run=_command)
    _add_workloads(verbs, parent)
    karmada = verbs.add_parser("karmada", parents=[parent], help="kill or freeze a part of Karmada, or let it go on")
    karmada.add_argument("act", choices=("kill", "freeze", "revive"))
    karmada.add_argument("part", choices=tuple(KARMADA_PARTS))
    karmada.set_defaults(run=_command)
    helm = verbs.add_parser(
        "helm-upgrade", parents=[parent], help="do to the objects that Helm owns what `helm upgrade --reuse-values` does"
    )
    helm.add_argument("cluster", metavar="CLUSTER")
    helm.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a chart value; may be repeated")
    helm.add_argument("--version", help=f"another chart: {PROFILES[0]} to {PROFILES[-1]}")
    helm.add_argument(
        "--force-replace", action="store_true", help="replace objects whole, as Helm's --force-replace and Argo CD's Replace=true"
    )
    helm.set_defaults(run=_command)
    return parser


def _add_workloads(verbs: Any, parent: argparse.ArgumentParser) -> None:
    about = "in a lab with real agents"
    pod = verbs.add_parser("pod", parents=[parent], help=f"{about}: make a pod whose command runs, and wait until it is ready")
    pod.add_argument("cluster", metavar="CLUSTER")
    pod.add_argument("pod", metavar="POD")
    pod.add_argument("--namespace", default="default")
    pod.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="may be repeated (default: app=POD)")
    pod.add_argument("--node", default="", help="the node that is to run it (default: one that the scheduler chooses)")
    pod.add_argument("--serve", default="", metavar="TEXT", help=f"answer HTTP at port {SERVE_PORT} with TEXT")
    pod.add_argument("command", nargs="*", metavar="COMMAND", help="after --: what runs instead (default: a pod that waits)")
    pod.set_defaults(run=_pod)
    enter = verbs.add_parser("exec", parents=[parent], help=f"{about}: run a command in a pod")
    curl = verbs.add_parser("curl", parents=[parent], help=f"{about}: ask a URL from a pod; the host may be SERVICE or SERVICE.NAMESPACE")
    for entered in (enter, curl):
        entered.add_argument("cluster", metavar="CLUSTER")
        entered.add_argument("pod", metavar="POD")
        entered.add_argument("--namespace", default="default")
    enter.add_argument("command", nargs="+", metavar="COMMAND", help="after --")
    enter.set_defaults(run=_exec)
    curl.set_defaults(run=_curl)
    outside = verbs.add_parser("outside", parents=[parent], help=f"{about}: ask a URL from a host outside of the clusters")
    outside.add_argument("--from", dest="source", choices=OUTSIDE, default=OUTSIDE[0], help=f"its address (default: {OUTSIDE[0]})")
    outside.set_defaults(run=_outside)
    for asking in (curl, outside):
        asking.add_argument("url", metavar="URL")
        asking.add_argument("--times", type=int, default=1, metavar="N")


def _add_up(verbs: Any, parent: argparse.ArgumentParser) -> None:
    up = verbs.add_parser(
        "up",
        parents=[parent],
        help="start a lab",
        description="Where VALUES stands: one value for all clusters, or one per cluster (a,b,…).",
    )
    up.add_argument("--clusters", type=int, metavar="N", help="default: 2, or as many as --names")
    up.add_argument("--names", default="", metavar="VALUES", help="names of contexts and Cilium clusters (default: c1,c2,…)")
    usual = f"default: {USUAL['stand-in']}, with real agents {USUAL['real']}"
    up.add_argument("--cilium", default="", metavar="VALUES", help=f"{PROFILES[0]} to {PROFILES[-1]} ({usual})")
    up.add_argument("--kvstoremesh", default="on", metavar="VALUES", help="on or off (default: on)")
    up.add_argument("--auth-mode", default="", metavar="VALUES", help=f"{', '.join(AUTH_MODES)} (default: as that version's chart)")
    up.add_argument("--service", default="LoadBalancer", metavar="VALUES", help=f"{' or '.join(SERVICES)} (default: LoadBalancer)")
    up.add_argument("--ca", default="own", choices=("own", "shared"), help="a Cilium CA per cluster, or one for all (default: own)")
    up.add_argument(
        "--tls-method", default="helm", metavar="VALUES", help=f"who makes the certificates: {', '.join(TLS_METHODS)} (default: helm)"
    )
    up.add_argument(
        "--binary-version", default="", metavar="V", help="Cilium version of the clustermesh-apiserver binary (default: what the tools say)"
    )
    up.add_argument(
        "--config-enabled",
        default="false",
        metavar="VALUES",
        help="whether Helm owns the peer objects, clustermesh.config.enabled (default: false)",
    )
    up.add_argument("--nodes", default="1", metavar="VALUES", help="nodes per cluster (default: 1)")
    up.add_argument("--pod-cidrs", default="", metavar="VALUES", help="pod CIDR per cluster (default: 10.1.0.0/16,10.2.0.0/16,…)")
    up.add_argument(
        "--sync-delay", type=float, default=0.2, metavar="SECONDS", help="until a changed Secret reaches the pods (default: 0.2)"
    )
    up.add_argument("--karmada", action="store_true", help="a Karmada control plane beside the clusters, which are not joined")
    up.add_argument(
        "--karmada-pace", default="quick", choices=KARMADA_PACES, help="quick for tests, its own defaults, or wide limits (default: quick)"
    )
    up.add_argument("--agents", default="stand-in", choices=AGENTS, help="real ones need root and clang (default: stand-in)")
    up.add_argument("--foreground", action="store_true", help="stay until Ctrl-C, then end the lab")
    up.set_defaults(run=_up)


def _options(args: argparse.Namespace) -> LabOptions:
    names = parse_list(args.names)
    try:
        nodes = tuple(int(value) for value in parse_list(args.nodes))
    except ValueError:
        raise OptionError(f"nodes {args.nodes!r}: use numbers") from None
    return LabOptions(
        name=args.name,
        clusters=args.clusters or len(names) or 2,
        names=names,
        cilium=parse_list(args.cilium) or "",
        kvstoremesh=parse_switches(parse_list(args.kvstoremesh), "kvstoremesh"),
        auth_mode=parse_list(args.auth_mode) or None,
        service=parse_list(args.service),
        ca=args.ca,
        binary_version=args.binary_version,
        config_enabled=parse_switches(parse_list(args.config_enabled), "config-enabled"),
        nodes=nodes,
        pod_cidrs=parse_list(args.pod_cidrs),
        sync_delay=args.sync_delay,
        tls_method=parse_list(args.tls_method),
        karmada=args.karmada,
        karmada_pace=args.karmada_pace,
        agents=args.agents,
    )


def _up(args: argparse.Namespace) -> int:
    options = _options(args)
    found = resolve(options, progress=console())
    began = time.monotonic()
    running = launch.start(options, found.paths, binary_version=found.binary_version, owned=args.foreground)
    try:
        running.wait_ready(lambda text: print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True))
        _kubeconfigs(argparse.Namespace(name=args.name, export=False))
        if args.foreground:
            print("Ctrl-C ends the lab", flush=True)
            running.keeper.wait()
    except KeyboardInterrupt:
        print("ending the lab", flush=True)
        running.stop()
        return 130
    except BaseException:
        running.stop()
        raise
    return 0


def _down(args: argparse.Namespace) -> int:
    folder = launch.folder_of(args.name)
    if not folder.exists():
        others = control.beside(folder)
        print(f"No lab of the name {args.name} runs{', and these do: ' + ', '.join(others) if others else ''}. Nothing was ended.")
    launch.stop(folder)
    return 0


def _status(args: argparse.Namespace) -> int:
    found = control.call(launch.folder_of(args.name), "status")
    print(json.dumps(found, indent=2) if args.json else report.text(found))
    return 0


def _kubeconfigs(args: argparse.Namespace) -> int:
    found = control.call(launch.folder_of(args.name), "status")
    if args.export:
        print(f"export KUBECONFIG={found['kubeconfig']}")
        return 0
    print(f"all contexts: {found['kubeconfig']}")
    for cluster in found["clusters"]:
        print(f"{cluster['name']}: {cluster['kubeconfig']}")
    if found["karmada"]:
        print(f"karmada: {found['karmada']['kubeconfig']}")
    return 0


def _cluster_of(args: argparse.Namespace) -> Path:
    """Return the kubeconfig of the cluster that is named. :raises LabError: the lab has none of that name"""
    clusters = {cluster["name"]: cluster for cluster in control.call(launch.folder_of(args.name), "status")["clusters"]}
    if args.cluster not in clusters:
        raise LabError(f"there is no cluster {args.cluster!r}; this lab has {', '.join(clusters)}")
    if clusters[args.cluster]["agents"] != "real":
        raise LabError(f"the agents of {args.cluster} are stand-ins, and no pod of it has a network; start the lab with --agents real")
    return Path(clusters[args.cluster]["kubeconfig"])


def _pod(args: argparse.Namespace) -> int:
    api = LabApi.from_kubeconfig(_cluster_of(args))
    labels = dict(entry.partition("=")[::2] for entry in args.label) or {"app": args.pod}
    command = ["serve", args.serve] if args.serve else args.command or list(workloads.PAUSE)
    try:
        api.create(workloads.pod(args.pod, labels, command, namespace=args.namespace, node=args.node))
    except ApiError as error:
        raise LabError(str(error)) from None
    print(f"{args.namespace}/{args.pod} {workloads.wait_ready(api, args.namespace, args.pod)}")
    return 0


def _exec(args: argparse.Namespace) -> int:
    return _show(workloads.execute(_cluster_of(args), args.namespace, args.pod, args.command))


def _curl(args: argparse.Namespace) -> int:
    kubeconfig = _cluster_of(args)
    return max([_show(workloads.curl(kubeconfig, args.namespace, args.pod, args.url)) for _ in range(args.times)], default=0)


def _outside(args: argparse.Namespace) -> int:
    words = {"source": args.source, "url": args.url}
    answers = (control.call(launch.folder_of(args.name), "outside", words) for _ in range(args.times))
    return max([_show(workloads.Answer(**answer)) for answer in answers], default=0)


def _show(answer: workloads.Answer) -> int:
    print(answer.text, end="")
    print(answer.errors, end="", file=sys.stderr)
    return answer.code


def _command(args: argparse.Namespace) -> int:
    words = {key: value for key, value in vars(args).items() if key not in ("run", "verb", "name")}
    answer = control.call(launch.folder_of(args.name), args.verb, words)
    if isinstance(answer, dict):
        answer = "\n".join(f"{key}: {', '.join(names)}" for key, names in answer.items() if names) or "nothing changed"
    print(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
