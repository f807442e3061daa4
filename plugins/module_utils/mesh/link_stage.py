# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Stages of a link, from not configured to ready."""

from __future__ import annotations

from enum import StrEnum


class LinkStage(StrEnum):
    """How far a link has come, in the order in which a connection is made. UNKNOWN: nothing is proven, neither good nor bad.

    NOT_ASKED: a limit leaves out the cluster that reads, so that nothing is said of the link.
    """

    SECRET_NOT_PROJECTED = "secret_not_projected"
    DIALLING = "dialling"
    TLS = "tls"
    AUTHORISATION = "authorisation"
    RETRIEVING_CONFIGURATION = "retrieving_configuration"
    SYNCHRONISING = "synchronising"
    NOT_ASKED = "not_asked"
    UNKNOWN = "unknown"
    READY = "ready"
