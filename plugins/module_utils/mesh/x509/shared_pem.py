# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""PEM texts of one cluster as they are written into the Secrets of others: certificates and keys alone, few and small.

Cilium takes every file of that Secret with the text "endpoints:" for the configuration of a peer (pkg/clustermesh/common/config.go,
isEtcdConfigFile). PEM may have any text around its blocks (RFC 7468, 2), and headers within them (RFC 1421): the owner of
``ca.crt`` could so name endpoints and files. Base64 and the boundaries have no colon.
"""

from __future__ import annotations

import re
from typing import Final

from .certificates import CertificateProblem, encode, load_certificates

MOST_CERTIFICATES: Final = 8  # of one text; chains of more than three are unheard of, and a bundle for readers needs the CA of one server
MOST_BYTES: Final = 16 * 1024  # of one text; a CA with an RSA key of 4,096 bits takes 2 KiB

_BLOCK: Final = rb"-----BEGIN (?P<label>%s)-----\r?\n[A-Za-z0-9+/=\r\n]+-----END (?P=label)-----\s*"
_CERTIFICATE: Final = re.compile(_BLOCK % rb"CERTIFICATE")
_KEY: Final = re.compile(_BLOCK % rb"(?:[A-Z]+ )?PRIVATE KEY|EC PARAMETERS")


def shared_certificates(pem: bytes) -> bytes:
    """Return the certificates of a PEM text for another cluster: the text itself if there is nothing else in it, else encoded anew.

    :raises CertificateProblem: when they are too many or too large, or one does not parse.
    """
    if len(pem) > MOST_BYTES and _is_made_of(_CERTIFICATE, pem):
        raise CertificateProblem(f"has {len(pem)} bytes, and {MOST_BYTES} are the limit")
    certificates = load_certificates(pem)
    if len(certificates) > MOST_CERTIFICATES:
        raise CertificateProblem(f"has {len(certificates)} certificates, and {MOST_CERTIFICATES} are the limit")
    if _is_made_of(_CERTIFICATE, pem):
        return pem
    encoded = encode(certificates)
    if len(encoded) > MOST_BYTES:
        raise CertificateProblem(f"has {len(encoded)} bytes, and {MOST_BYTES} are the limit")
    return encoded


def problem_of_shared_key(pem: bytes) -> str:
    """Return why a private key cannot be copied to another cluster, as the end of a sentence about it; "" if it can be."""
    if len(pem) > MOST_BYTES:
        return f"has {len(pem)} bytes, and {MOST_BYTES} are the limit"
    return "" if _is_made_of(_KEY, pem) else "has text besides the PEM of a key"


def _is_made_of(block: re.Pattern[bytes], pem: bytes) -> bool:
    """Return whether a text is blocks of one kind with whitespace between them, and nothing else."""
    place = len(pem) - len(pem.lstrip())
    if place == len(pem):
        return False
    while place < len(pem):
        found = block.match(pem, place)
        if found is None:
            return False
        place = found.end()
    return True
