# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""State of a CA roll in one cluster, kept as an annotation of Secret ``cilium-ca``; it holds certificates, which are public, and no key.

Every run that plans links reads the annotation together with the CA itself, so that a ``connect`` in the middle of a roll goes on trusting
both CAs. Meanwhile, the keys of both CAs are in a Secret of the binding beside it (``keys_secret``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ...base.json_reader import load_json
from ..binding.model import MANAGER_DOMAIN
from ..facts.cluster import CaSecretFacts
from ..x509.shared_pem import shared_certificates

MARK: Final = f"ca-roll.{MANAGER_DOMAIN}/state"  # annotation of Secret cilium-ca
LIMIT: Final = 64 * 1024  # characters: a longer annotation is not parsed; two chains of certificates take a tenth of it


class RollStage(StrEnum):
    """Stages of a CA roll, in order. A stage ends when everything in it is proven on every member."""

    PREPARE = "prepare"  # the next CA is stored beside the present one
    TRUST = "trust"  # every reader and every mesh etcd trusts both
    CLIENTS = "clients"  # cilium-ca is the next one; every client certificate comes from it: the peers' and the cluster's own
    LEAVES = "leaves"  # the server's certificate comes from it too
    DROP = "drop"  # no reader and no mesh etcd trusts the old one any more

    @property
    def place(self) -> int:
        """Position of the stage in the order of the roll, from 0."""
        return list(RollStage).index(self)


BOTH: Final = (RollStage.TRUST, RollStage.CLIENTS, RollStage.LEAVES)
"""Stages in which readers trust the old and the new CA."""


@dataclass(frozen=True, kw_only=True)
class Roll:
    """One cluster's part of a CA roll. ``old`` and ``new`` are PEM texts, exactly as they stand in ``ca.crt``."""

    stage: RollStage
    owner: str  # owner of the binding that rolls (model.Binding.owner)
    old: str
    new: str

    @property
    def bundle(self) -> str:
        """PEM text of both CAs, for readers and servers that have to trust both.

        It is never written to ``cilium-ca``: certgen takes several certificates for a chain.
        """
        return self.old.rstrip("\n") + "\n" + self.new.rstrip("\n") + "\n"

    @property
    def trusted(self) -> str | None:
        """PEM text that readers of the cluster trust in this stage; None if the stage does not change it."""
        if self.stage is RollStage.PREPARE:
            return None
        return self.bundle if self.stage in BOTH else self.new


def shared_trust(roll: Roll) -> str | None:
    """Return the PEM text of ``Roll.trusted`` for other clusters; None if the stage does not change it.

    :raises CertificateProblem: when they cannot get it (mesh/x509/shared_pem.py).
    """
    if roll.trusted is None:
        return None
    parts = (roll.old, roll.new) if roll.stage in BOTH else (roll.new,)
    clean = [shared_certificates(part.encode()).decode() for part in parts]
    return roll.trusted if clean == list(parts) else "".join(f"{part.rstrip()}\n" for part in clean)


def keys_secret(owner: str) -> str:
    """Return the name of the Secret that holds both CAs under the keys ``old.crt``, ``old.key``, ``new.crt`` and ``new.key``."""
    return f"cilium-mesh-next-ca-{owner}"


def write_roll(roll: Roll) -> str:
    """Format a roll as the text of the annotation."""
    data = {"stage": roll.stage.value, "owner": roll.owner, "old": roll.old, "new": roll.new}
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def roll_of(ca: CaSecretFacts) -> Roll | None:
    """Return the CA roll that a cluster is in.

    Returns None if it is in none, or if the annotation cannot be parsed (see ``has_invalid_mark``).
    """
    text = ca.annotations.get(MARK, "")
    if not text or len(text) > LIMIT:
        return None
    try:
        data = load_json(text)
        values = {key: data[key] for key in ("stage", "owner", "old", "new")}
        if not all(isinstance(value, str) for value in values.values()):
            return None
        return Roll(**{**values, "stage": RollStage(values["stage"])})
    except (ValueError, KeyError, TypeError):
        return None


def has_invalid_mark(ca: CaSecretFacts) -> bool:
    """Return whether the annotation of a CA roll is present but cannot be parsed."""
    return MARK in ca.annotations and roll_of(ca) is None
