# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Facts of the Secret with the IPsec keys: key ids, and digests that show whether two clusters hold the same key.

Keys stay out of the facts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..base.json_fields import items, secret_values, text
from ..base.redact import digest
from ..mesh.facts.cluster import IpsecFacts
from ..mesh.versions.cilium_config import flag_of, value_of

VOLUME: Final = "cilium-ipsec-secrets"  # name in the charts' DaemonSet
DEFAULT_SECRET: Final = "cilium-ipsec-keys"  # Helm value encryption.ipsec.secretName
KEY: Final = "keys"  # Helm value encryption.ipsec.keyFile
HIGHEST_ID: Final = 15  # linux_defaults.IPsecMaxKeyVersion
LIMIT: Final = 64 * 1024  # bytes; a key is a line of some 60


def ipsec_enabled(config: Mapping[str, str]) -> bool:
    """Return whether the data of cilium-config turns IPsec on."""
    return flag_of(config, None, "enable-ipsec")


def secret_name(agent: Any) -> str:
    """Return the name of the Secret that the agents' DaemonSet mounts."""
    volumes = items(agent, "spec", "template", "spec", "volumes")
    return next((n for v in volumes if text(v, "name") == VOLUME and (n := text(v, "secret", "secretName"))), DEFAULT_SECRET)


def ipsec_facts(value: Any, name: str, config: Mapping[str, str]) -> IpsecFacts:
    """Return the facts of the Secret with the IPsec keys, present or missing.

    :param config: data of cilium-config: it names the file, which is the key of the Secret.
    """
    if value is None:
        return IpsecFacts(name=name)
    key = value_of(config, None, "ipsec-key-file").rpartition("/")[2] or KEY
    content = secret_values(value).get(key, b"")
    keys, problem = parse_keys(content) if content else ({}, f"it has no key {key}")
    return IpsecFacts(name=name, present=True, problem=problem, keys=keys)


def parse_keys(content: bytes) -> tuple[dict[int, str], str]:
    """Return (key id -> digest in the order of the lines, ""), or ({}, why the agents refuse the keys).

    A line is "ID algorithm key icv-length" or "ID authentication key encryption key [interface]", the id perhaps with a "+" behind it
    (Cilium pkg/datapath/linux/ipsec, loadIPSecKeys). The agents use the last line.
    """
    try:
        rows = [line.split() for line in content[:LIMIT].decode("ascii").splitlines()]
    except ValueError:
        return {}, "its keys are not text"
    keys: dict[int, str] = {}
    for row in rows:
        number = row[0].removesuffix("+") if row else ""
        if len(row) not in (4, 5, 6) or not number.isdecimal() or len(number) > 3 or not 0 < int(number) <= HIGHEST_ID:
            return {}, f"a line is not of the form ID ALGORITHM KEY LENGTH with an ID from 1 to {HIGHEST_ID}"
        keys.pop(int(number), None)
        keys[int(number)] = digest(json.dumps(_comparable_parts(row)).encode())
    return (keys, "") if keys else ({}, "it holds no key")


def _comparable_parts(row: Sequence[str]) -> list[str]:
    """Return the parts of a line that must be equal on both ends: algorithms by name, keys without "0x" and in one case.

    The interface of the long form may differ.
    """
    if len(row) == 4:
        return [row[1], _hex(row[2]), row[3]]
    return [row[1], _hex(row[2]), row[3], _hex(row[4])]


def _hex(key: str) -> str:
    return key.removeprefix("0x").lower()
