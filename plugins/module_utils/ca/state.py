# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Where a CA roll stands in a cluster, as a mark on its Secret ``cilium-ca``; the mark holds certificates, which are public, and no key.

Everybody who plans links reads the mark with the CA itself, so that a ``connect`` in the middle of a roll goes on trusting both. The keys
of both CAs stand meanwhile in a Secret of ours beside it (``keys_secret``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..facts import CaSecretFacts
from ..model import MANAGER_DOMAIN

MARK: Final = f"ca-roll.{MANAGER_DOMAIN}/state"  # annotation of Secret cilium-ca
LIMIT: Final = 64 * 1024  # characters of a mark that is looked at; two chains of certificates take a tenth


class Stage(StrEnum):
    """What is being done, in order. A stage ends when everything in it is proven on every member."""

    PREPARE = "prepare"  # the next CA is stored beside the present one
    TRUST = "trust"  # every reader and every mesh etcd trusts both
    CLIENTS = "clients"  # cilium-ca is the next one; every client certificate comes from it: the peers' and the cluster's own
    LEAVES = "leaves"  # the server's certificate comes from it too
    DROP = "drop"  # nobody trusts the old one any more

    @property
    def place(self) -> int:
        return list(Stage).index(self)


BOTH: Final = (Stage.TRUST, Stage.CLIENTS, Stage.LEAVES)
"""Stages in which readers trust the old and the new CA."""


@dataclass(frozen=True, kw_only=True)
class Roll:
    """One cluster's part of a roll. ``old`` and ``new`` are PEM texts, exactly as they stand in ``ca.crt``."""

    stage: Stage
    owner: str  # owner of the binding that rolls (model.Binding.owner)
    old: str
    new: str

    @property
    def bundle(self) -> str:
        """Both, for whoever has to trust both. Never for ``cilium-ca``: certgen takes several certificates for a chain."""
        return self.old.rstrip("\n") + "\n" + self.new.rstrip("\n") + "\n"

    @property
    def trusted(self) -> str | None:
        """What readers of the cluster trust in this stage; None: what they trust anyway."""
        if self.stage is Stage.PREPARE:
            return None
        return self.bundle if self.stage in BOTH else self.new


def keys_secret(owner: str) -> str:
    """Name of the Secret with both CAs: keys ``old.crt``, ``old.key``, ``new.crt``, ``new.key``."""
    return f"cilium-mesh-next-ca-{owner}"


def write_roll(roll: Roll) -> str:
    """The mark's text."""
    data = {"stage": roll.stage.value, "owner": roll.owner, "old": roll.old, "new": roll.new}
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def roll_of(ca: CaSecretFacts) -> Roll | None:
    """The roll that the cluster is in; None when it is in none, or the mark is not ours to understand (see ``spoiled``)."""
    text = ca.annotations.get(MARK, "")
    if not text or len(text) > LIMIT:
        return None
    try:
        data = json.loads(text)
        values = {key: data[key] for key in ("stage", "owner", "old", "new")}
        if not all(isinstance(value, str) for value in values.values()):
            return None
        return Roll(**{**values, "stage": Stage(values["stage"])})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def spoiled(ca: CaSecretFacts) -> bool:
    """Is there a mark that nobody can read?"""
    return MARK in ca.annotations and roll_of(ca) is None
