# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""``kubectl exec`` for pages that are followed on a machine without kubectl: the same requests, by the client library.

kubectl --kubeconfig FILE -n NAMESPACE exec ds/NAME|deploy/NAME -- COMMAND...
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from tests.collection_path import CHECKOUT
from tests.lab import workloads
from tests.lab.api import LabApi
from tests.lab.control import LabError

_KINDS: Final = {"ds": "daemonsets", "deploy": "deployments"}


def write_command(folder: Path) -> None:
    """Write a program ``kubectl`` that is this module."""
    path = folder / "kubectl"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} -m tests.integration.kubectl "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def main() -> int:
    parser = argparse.ArgumentParser("kubectl")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("-n", dest="namespace", required=True)
    parser.add_argument("verb", choices=["exec"])
    parser.add_argument("object")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    if not args.kubeconfig.is_file():
        parser.error(f"there is no file {args.kubeconfig}; give the kubeconfig of a cluster of the lab")
    kind, _, name = args.object.partition("/")
    api = LabApi.from_kubeconfig(args.kubeconfig)
    found = api.get(f"/apis/apps/v1/namespaces/{args.namespace}/{_KINDS[kind]}/{name}")
    if found is None:
        print(f"there is no {args.object} in {args.namespace}", file=sys.stderr)
        return 1
    selector = ",".join(f"{key}={value}" for key, value in found["spec"]["selector"]["matchLabels"].items())
    pod = api.list(f"/api/v1/namespaces/{args.namespace}/pods", label_selector=selector)[0]["metadata"]["name"]
    try:
        answer = workloads.execute(args.kubeconfig, args.namespace, pod, args.command)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    print(answer.text, end="")
    print(answer.errors, end="", file=sys.stderr)
    return answer.code


if __name__ == "__main__":
    sys.exit(main())
