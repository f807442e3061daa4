# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What the probes of a cluster meet: flows that its agents tell of, and what is behind the addresses of its pods. Tests write both.

There is no datapath in the lab, so neither can be real. The command of a probe's Job is: it runs as a process of this machine, with
``nc.py`` for ``nc``.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

LABEL = "annotation.cilium-mesh.edge-portal.eu/probe"
"""On every pod of a probe's Job."""

FLOWS = "/var/run/cilium/lab-hubble"
"""Where agents find their flows (lab-hubble)."""


def is_trial(pod: Mapping[str, Any]) -> bool:
    """Is it a pod of a probe's Job?"""
    return LABEL in (pod["metadata"].get("labels") or {})


class Trials:
    """The files of one cluster, below its folder."""

    def __init__(self, folder: Path) -> None:
        self.flows = folder / "hubble"
        self._bin = folder / "probe-bin"
        self._routes = folder / "probe-routes.json"

    def prepare(self) -> None:
        self.flows.mkdir(exist_ok=True)
        self._bin.mkdir(exist_ok=True)
        self.lead({})
        program = self._bin / "nc"
        words = shlex.join([sys.executable, "-I", "-S", str(Path(__file__).with_name("nc.py"))])
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        program.chmod(0o755)

    def show(self, lines: Iterable[str] | None) -> None:
        """From now on agents tell of these flows, each a line; None: Hubble's server does not answer."""
        path = self.flows / "flows.jsonl"
        if lines is None:
            path.unlink(missing_ok=True)
        else:
            _replace(path, "".join(f"{line}\n" for line in lines))

    def lead(self, routes: Mapping[str, str]) -> None:
        """What is behind the addresses of pods; see nc.py."""
        _replace(self._routes, json.dumps(dict(routes)))

    def environment(self, container: Mapping[str, Any]) -> dict[str, str]:
        """Variables of a container of a probe's pod."""
        own = {str(entry["name"]): str(entry.get("value", "")) for entry in container.get("env") or []}
        return {**own, "PATH": f"{self._bin}:/usr/bin:/bin", "LAB_ROUTES": str(self._routes)}


def _replace(path: Path, text: str) -> None:
    """At once: another process may be reading."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.rename(path)
