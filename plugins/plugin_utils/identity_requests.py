# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Parser of the option ``names``: the cluster names and ids that the user wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.base.errors import InvalidInput
from ..module_utils.identity.decide import IdentityRequest


def identity_requests(names: Any) -> dict[str, IdentityRequest]:
    """Parse the option ``names``: inventory name -> {name, id}.

    :raises InvalidInput: when a value is not of that form.
    """
    requests: dict[str, IdentityRequest] = {}
    for host, wanted in dict(names).items():
        known = isinstance(wanted, Mapping) and set(wanted) <= {"name", "id"}
        name, number = (wanted.get("name", ""), wanted.get("id")) if known else ("", None)
        if isinstance(number, str) and number.isascii() and number.isdecimal():
            number = int(number)
        if not known or not isinstance(name, str) or isinstance(number, bool) or not isinstance(number, int | None):
            raise InvalidInput(
                f"names gives {str(host)!r} something else than a name and an id.", remedy="Write HOST: {name: NAME, id: 7}."
            )
        requests[str(host)] = IdentityRequest(name=name, id=None if number is None else int(number))  # Ansible tags numbers too
    return requests
