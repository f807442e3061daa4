# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Client certificate that a peer's CA issued for a link earlier, as the link's files hold it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ..endpoints.etcd_config import keys_of
from ..facts.cluster import CertificateFacts, ClusterFacts

_DIGEST: Final = re.compile(r"^# trust-sha256: ([0-9a-f]{64})$", re.MULTILINE)


class IssuedCertificate(NamedTuple):
    """Certificate in the files of a link. ``digest``: trust digest of the configuration that was written with it."""

    certificate: CertificateFacts
    server_ca: CertificateFacts
    digest: str


def issued_certificate(local: ClusterFacts, peer: ClusterFacts, manager: str) -> IssuedCertificate | None:
    """Return the certificate with which ``local`` dials ``peer``; None if the link has no whole set of files that ``manager`` owns."""
    secret = local.kvstoremesh if local.runs_kvstoremesh else local.clustermesh
    found = [secret.keys.get(key) for key in keys_of(peer.name)]
    if any(key is None or manager not in key.managers for key in found):
        return None
    config, ca, certificate, _key = (key for key in found if key is not None)
    digest = _DIGEST.search(config.config or "")
    if digest is None or ca.certificate is None or certificate.certificate is None or certificate.certificate_key_matches is not True:
        return None
    return IssuedCertificate(certificate.certificate, ca.certificate, digest[1])
