# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Interfaces of pods on nodes with real agents: cilium-cni, called as a container runtime calls it (CNI specification 0.3.1)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from tests.lab.netns import NetNs
from tests.lab.node import PROGRAMS
from tests.lab.pods import AttachError
from tests.lab.processes import contained

Object = dict[str, Any]

_CONFIGURATION: Final = json.dumps({"cniVersion": "0.3.1", "name": "cilium", "type": "cilium-cni"}).encode()
_LIMIT: Final = 60.0


async def attach(agent: Path, container: str, pod: Object, netns: NetNs) -> str:
    """Give the pod's network namespace its interface; return the pod's address.

    :param agent: the launcher's SPEC of the agent's pod on that node; ``container``: the agent's
    :raises AttachError: with the plugin's words
    """
    answer = json.loads(await _call("ADD", agent, container, pod, netns))
    return str(answer["ips"][0]["address"]).partition("/")[0]


async def detach(agent: Path, container: str, pod: Object, netns: NetNs) -> None:
    """Take it away. :raises AttachError: with the plugin's words"""
    await _call("DEL", agent, container, pod, netns)


async def _call(command: str, agent: Path, container: str, pod: Object, netns: NetNs) -> bytes:
    metadata = pod["metadata"]
    about = f"K8S_POD_NAMESPACE={metadata['namespace']};K8S_POD_NAME={metadata['name']};K8S_POD_UID={metadata['uid']}"
    variables = {
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": metadata["uid"].replace("-", ""),
        "CNI_NETNS": netns.node_path,
        "CNI_IFNAME": "eth0",
        "CNI_PATH": PROGRAMS,
        "CNI_ARGS": f"IgnoreUnknown=1;{about}",
    }
    argv = ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), f"{PROGRAMS}/cilium-cni"]
    process = await asyncio.create_subprocess_exec(
        *contained(agent, container, argv), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        said, errors = await asyncio.wait_for(process.communicate(_CONFIGURATION), _LIMIT)
    except TimeoutError:
        raise AttachError(f"cilium-cni {command} gave no answer within {_LIMIT:g} s") from None
    finally:  # also when the pod ends meanwhile
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise AttachError(f"cilium-cni {command}: {(said or errors).decode(errors='replace').strip()[-400:]}")
    return said
