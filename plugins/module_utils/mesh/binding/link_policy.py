# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a run and its binding choose about the links of a mesh, and what the run found out for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...base.errors import InvalidInput
from .trust_mode import AUTO, TRUST_CHOICES

ADDRESS_CHOICES: Final = ("InternalIP", "ExternalIP")


@dataclass(frozen=True, kw_only=True)
class LinkPolicy:
    """Choices about links, each in this one place.

    :raises InvalidInput: when a choice has no such value.
    """

    trust: str = AUTO  # or a TrustMode
    node_addresses: str = "InternalIP"  # or ExternalIP; of Services of type NodePort
    repair: bool = False  # write drifted keys again: this binding wrote them, and another writer changed them
    follow: bool = False  # write new addresses without a hold-down (mesh/endpoints/address_moves.py)
    resolved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # DNS name -> addresses, where the caller looked them up
    unproven: frozenset[str] = frozenset()  # members whose new address showed another server, or none while the one in use is proven

    def __post_init__(self) -> None:
        """Check the choices.

        :raises InvalidInput: when a choice has no such value.
        """
        for name, value, choices in (("trust", self.trust, TRUST_CHOICES), ("node_addresses", self.node_addresses, ADDRESS_CHOICES)):
            if value not in choices:
                raise InvalidInput(f"{name} is {value!r}.", remedy=f"Use one of: {', '.join(choices)}.")
