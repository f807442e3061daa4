# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a CA roll has to know of one cluster. Frozen values; ``problem`` says what could not be read: an unknown never counts as proof."""

from __future__ import annotations

from dataclasses import dataclass, field

from .issuing import Issuing


@dataclass(frozen=True, kw_only=True)
class ReaderTrust:
    """Trust of one reader in one peer, as it reports it.

    Serial numbers are hexadecimal without leading zeros; "" and an empty set mean that it did not report them.
    """

    roots: frozenset[str] = frozenset()
    client: str = ""
    connected: bool = False


@dataclass(frozen=True, kw_only=True)
class KeysFacts:
    """The binding's Secret with both CAs (state.keys_secret).

    The certificates are PEM texts; the keys are in the SecretStore.
    """

    present: bool = False
    uid: str = ""
    resource_version: str = ""
    old: str = ""
    new: str = ""
    complete: bool = False  # all four keys are there


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """State of the Job that issues the leaf certificates again (certgen)."""

    present: bool = False
    uid: str = ""
    succeeded: bool = False
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class EtcdPod:
    """One pod with a mesh etcd, and the CAs whose clients it accepts.

    ``serves`` says which of the two CAs signed the certificate that it presents: "old", "new" or "".
    """

    name: str
    ready: bool
    accepts_old: bool = False
    accepts_new: bool = False
    serves: str = ""
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One pod that reads the mesh etcd of ``server`` (inventory name), and its trust as it reports it."""

    server: str
    kind: str  # "kvstoremesh" or "agent"
    pod: str
    trust: ReaderTrust = field(default_factory=ReaderTrust)
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class RollFacts:
    """Everything that a roll has to know of one cluster.

    ``readers`` are pods of this cluster, whichever etcd they read.
    """

    host: str
    issuing: Issuing
    keys: KeysFacts = field(default_factory=KeysFacts)
    job: JobFacts = field(default_factory=JobFacts)
    pods: tuple[EtcdPod, ...] = ()
    readers: tuple[Reader, ...] = ()


def job_name(owner: str) -> str:
    """Return the name of the Job that issues the certificates again."""
    return f"cilium-mesh-reissue-{owner}"
