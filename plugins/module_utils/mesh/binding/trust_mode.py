# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The trust modes, and everything that differs between them.

The documentation lists them too, as Ansible reads it without running it; tests/unit/project/test_options.py holds that it lists these.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final


class ClientCertificate(Enum):
    """Where the client certificate comes from that a cluster shows to a peer."""

    OWN_REMOTE = "the cluster's own remote certificate"
    PEER_ISSUES = "the peer's CA issues it"
    PEER_REMOTE = "the peer's own remote certificate"


@dataclass(frozen=True, kw_only=True)
class _Traits:
    spelled: str  # in a custom resource
    client: ClientCertificate
    own_files: bool  # the peer has three files of its own beside its configuration, instead of common-etcd-client*
    renewable: bool = False  # connect issues the certificate again before it ends
    outdated_by_peer: bool = False  # a renewal in the peer does not reach the cluster by itself


class TrustMode(StrEnum):
    """What is written for a peer, besides its configuration. ``auto`` takes the first that works, in this order."""

    SAME_CA = "same_ca"  # nothing: the files common-etcd-client* serve
    MINTED = "minted"  # a client certificate for local, issued by peer's CA
    COPIED = "copied"  # peer's own remote certificate

    @property
    def spelled(self) -> str:
        """How a custom resource writes it, and so the binding of a file."""
        return _TRAITS[self].spelled

    @property
    def client(self) -> ClientCertificate:
        """Where the client certificate comes from."""
        return _TRAITS[self].client

    @property
    def own_files(self) -> bool:
        """Whether the CA, certificate and key of the link stand beside its configuration; else the files common-etcd-client* serve."""
        return _TRAITS[self].own_files

    @property
    def renewable(self) -> bool:
        """Whether connect issues the client certificate again before it ends."""
        return _TRAITS[self].renewable

    @property
    def outdated_by_peer(self) -> bool:
        """Whether a renewal in the peer leaves the cluster with a certificate that ends."""
        return _TRAITS[self].outdated_by_peer

    def issuer(self, local: str, peer: str) -> str:
        """Return which of the two clusters issues the client certificate."""
        return local if self.client is ClientCertificate.OWN_REMOTE else peer

    def file_prefix(self, peer: str) -> str:
        """Return how the names of the files begin with which the peer is reached."""
        return f"{peer}." if self.own_files else "common-"


_TRAITS: Final = {
    TrustMode.SAME_CA: _Traits(spelled="SameCA", client=ClientCertificate.OWN_REMOTE, own_files=False),
    TrustMode.MINTED: _Traits(spelled="Minted", client=ClientCertificate.PEER_ISSUES, own_files=True, renewable=True),
    TrustMode.COPIED: _Traits(spelled="Copied", client=ClientCertificate.PEER_REMOTE, own_files=True, outdated_by_peer=True),
}

AUTO: Final = "auto"
MODES: Final = tuple(mode.value for mode in TrustMode)
TRUST_CHOICES: Final = (AUTO, *MODES)


def one_of_modes(*before: str) -> str:
    """Return the names as a list for a sentence: "auto, same_ca, minted or copied"."""
    names = (*before, *MODES)
    return f"{', '.join(names[:-1])} or {names[-1]}"
