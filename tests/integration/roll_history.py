# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a CA roll did to the Secrets of its clusters, write by write, and whether that was each stage in its turn.

A watch of each cluster shows it, from before the roll on. So no write is missed, however short a stage is, and nothing polls meanwhile. The
first CA of a cluster is called "old", and the one that the roll has noted as the next "new".
"""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import urllib3
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from tests.integration.mesh_lab import NAMESPACE, MeshLab
from tests.testing.waiting import wait_for

Object = dict[str, Any]

STAGES: Final = (
    ("no roll", "old"),
    ("prepare", "old"),
    ("trust", "old"),
    ("clients", "new"),
    ("leaves", "new"),
    ("drop", "new"),
    ("no roll", "new"),
)
"""Stages of a roll, each with the CA that signs in it."""
TRUST: Final = (("no roll", "old"), ("trust", "new and old"), ("drop", "new"))
"""What a reader trusts, each with the stage in which it begins to: at no moment less than what the server may show."""
ISSUED: Final = {
    "clustermesh-apiserver-admin-cert": "clients",
    "clustermesh-apiserver-local-cert": "clients",
    "clustermesh-apiserver-remote-cert": "clients",
    "clustermesh-apiserver-server-cert": "leaves",
}
"""Certificates of a cluster's own, each with the stage in which the new CA issues it."""
_CA: Final = "cilium-ca"
_READERS: Final = "cilium-kvstoremesh"
_WATCH: Final = 30  # seconds of one watch
_SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"


@dataclass(frozen=True)
class Moment:
    """A cluster after one write. ``secrets``: all of the namespace by their names."""

    secrets: dict[str, Object]

    @property
    def mark(self) -> dict[str, str]:
        """What the roll has noted at the CA; {} outside of a roll."""
        annotations = self.secrets[_CA]["metadata"].get("annotations") or {}
        return next((json.loads(text) for key, text in annotations.items() if key.startswith("ca-roll.")), {})

    @property
    def stage(self) -> str:
        return self.mark.get("stage", "no roll")

    def certificates(self, secret: str, key: str) -> list[x509.Certificate]:
        """What a Secret holds there; [] where there is nothing."""
        text = (self.secrets.get(secret, {}).get("data") or {}).get(key, "")
        return x509.load_pem_x509_certificates(base64.b64decode(text)) if text else []


class RollHistory:
    """Use as a context manager around the roll. Its caller knows that no other writer changes Secrets."""

    def __init__(self, lab: MeshLab) -> None:
        self._lab = lab
        self._first = {name: _by_name(lab.api(name).list(_SECRETS)) for name in lab.names}
        self._writes: dict[str, list[tuple[str, Object]]] = {name: [] for name in lab.names}
        self._reached = {name: _version(self._first[name].values()) for name in lab.names}
        self._over = threading.Event()

    def __enter__(self) -> Self:
        for name in self._lab.names:
            threading.Thread(target=self._follow, args=(name,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """The threads end with their watches."""
        if error is None:
            self._catch_up()
        self._over.set()

    def problems(self) -> list[str]:
        """Return what was not as in a whole roll, in one line each."""
        if not self._over.is_set():
            self._catch_up()
        moments = {name: list(self._moments(name)) for name in self._lab.names}
        new = {name: _new(of_one) for name, of_one in moments.items()}
        names = {name: {_ca(of_one[0])[0]: "old"} | dict.fromkeys(new[name], "new") for name, of_one in moments.items()}
        found = []
        for cluster, of_one in moments.items():
            signing = [(moment.stage, _named(_ca(moment), names[cluster])) for moment in of_one]
            found += _unlike(f"the stages of {cluster}, each with its CA, were", _changes(signing), STAGES)
            for leaf, stage in ISSUED.items():
                issued = {moment.stage for moment in of_one if _is_issued(moment.certificates(leaf, "tls.crt"), new[cluster])}
                first = next((name for name, _ in STAGES if name in issued - {"no roll"}), "no stage")
                found += _unlike(f"the new CA issued {leaf} of {cluster} in", first, stage)
            for peer in moments.keys() - {cluster}:
                trusted = [_named(moment.certificates(_READERS, f"{peer}.etcd-client-ca.crt"), names[peer]) for moment in of_one]
                begun = [(moment.stage, now) for moment, now, before in zip(of_one, trusted, ["", *trusted], strict=False) if now != before]
                found += _unlike(f"{cluster} trusted of {peer}, each from a stage on,", tuple(begun), TRUST)
        return found

    def _follow(self, cluster: str) -> None:
        """Note every write; a connection that breaks is followed by one that goes on from there."""
        while not self._over.is_set():
            with suppress(urllib3.exceptions.HTTPError):
                for kind, obj in self._lab.api(cluster).watch(_SECRETS, str(self._reached[cluster]), seconds=_WATCH):
                    if self._over.is_set():
                        return
                    if kind != "BOOKMARK":
                        self._writes[cluster].append((kind, obj))
                    self._reached[cluster] = int(obj["metadata"]["resourceVersion"])

    def _catch_up(self) -> None:
        """Wait until the watches have brought what is in the clusters now."""
        last = {name: _version(self._lab.api(name).list(_SECRETS)) for name in self._lab.names}
        wait_for(
            lambda: [name for name, version in last.items() if self._reached[name] < version],
            lambda late: not late,
            what="the watches have brought every write",
        )

    def _moments(self, cluster: str) -> Iterator[Moment]:
        secrets = self._first[cluster]
        yield Moment(secrets)
        for kind, obj in self._writes[cluster]:
            name = obj["metadata"]["name"]
            secrets = {key: secret for key, secret in secrets.items() if key != name} | ({} if kind == "DELETED" else {name: obj})
            yield Moment(secrets)


def _by_name(secrets: Iterable[Object]) -> dict[str, Object]:
    return {secret["metadata"]["name"]: secret for secret in secrets}


def _version(secrets: Iterable[Object]) -> int:
    """The version of the last write to any of them."""
    return max(int(secret["metadata"]["resourceVersion"]) for secret in secrets)


def _ca(moment: Moment) -> list[x509.Certificate]:
    return moment.certificates(_CA, "ca.crt")


def _new(moments: list[Moment]) -> list[x509.Certificate]:
    """The CA that a roll has noted as the next one; without a roll the one of the end."""
    noted = [moment.mark["new"] for moment in moments if moment.mark]
    return x509.load_pem_x509_certificates(noted[-1].encode()) if noted else _ca(moments[-1])


def _named(certificates: list[x509.Certificate], names: dict[x509.Certificate, str]) -> str:
    return " and ".join(sorted(names.get(certificate, "another one") for certificate in certificates))


def _is_issued(leaf: list[x509.Certificate], authority: list[x509.Certificate]) -> bool:
    """Whether a CA signed it."""
    try:
        leaf[0].verify_directly_issued_by(authority[0])
    except (ValueError, TypeError, InvalidSignature, IndexError):
        return False
    return True


def _changes(values: Iterable[Any]) -> tuple[Any, ...]:
    """Every value that is not the one before it."""
    return tuple(value for value, _ in itertools.groupby(values))


def _unlike(what: str, found: object, wanted: object) -> list[str]:
    return [] if found == wanted else [f"{what} {found}, and not {wanted}"]
