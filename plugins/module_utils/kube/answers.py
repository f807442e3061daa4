# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Whether an answer is one that an API server gives to a request, and not a login page's, or the answer to another request.

A success that is not checked would turn a proxy's page into a cluster without objects, or into a write that was never made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .errors import Request

NOT_SERVED: Final = b"404 page not found"  # Go's net/http, for a resource that the API server does not know


def says_absent(data: bytes, decoded: Any) -> bool:
    """Return whether the body of a 404 is an API server's: a Status, or the plain text for a resource that is not served."""
    return data.strip() == NOT_SERVED or (isinstance(decoded, Mapping) and decoded.get("kind") == "Status")


def answers(request: Request, answer: Mapping[str, Any], sent: Mapping[str, Any] | None) -> bool:
    """Return whether the body of a success fits its request: a list to a list, and otherwise the object of that name.

    A deletion is answered by the object or by a Status of success. Paths that are no resource, and subresources, are not checked.

    :param sent: the body of the request; a creation has its name there.
    """
    metadata = answer.get("metadata")
    if not request.resource or "/" in request.resource:
        return True
    if request.verb == "list":
        return "items" in answer and isinstance(answer["items"], (list, type(None)))  # null: Go's empty list
    if request.verb == "delete" and answer.get("kind") == "Status":
        return answer.get("status") == "Success"
    name = request.name or ((sent or {}).get("metadata") or {}).get("name")
    return isinstance(metadata, Mapping) and (name is None or metadata.get("name") == name)
