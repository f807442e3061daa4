# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""The last proof of a link: somebody opened a new connection with the link's own files and read the peer's heartbeat. Pure.

kvstoremesh goes on saying ready for 20 to 25 s after its connection was refused and for about 100 s after the peer fell silent: it says so
of a connection that it has. A proof is about now. There are two kinds. The link's own place (kvstoremesh, or an agent where none runs) can
prove and refute. The controller stands elsewhere: what it reads proves, what it cannot reach says nothing, and only a peer that its
certificate proves and that refuses the link's user refutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from .endpoints import DEFAULT_PORT, canonical_ip, is_ip
from .etcd_read import EtcdAccess
from .facts import ClusterFacts, LinkFacts, PeerSecretFacts
from .observe.objects import time_of
from .peers import DIRECTORY
from .redact import one_line
from .secrets import Sealed, SecretStore
from .yaml_text import NotYaml, load_yaml

HEARTBEAT: Final = "cilium/.heartbeat"  # pkg/kvstore/kvstore.go, HeartbeatPath
STALE_SECONDS: Final = 180
"""clustermesh-apiserver writes the heartbeat every 60 s (pkg/kvstore/kvstore.go, HeartbeatWriteInterval); three missed are no hiccup."""

PROOF_CHOICES: Final = ("auto", "readers", "none")
"""``auto``: by the readers, and by the controller where it can; ``readers``: the controller dials nobody; ``none``: as kvstoremesh says."""

_REMOTE_CERT: Final = "clustermesh-apiserver-remote-cert"
_COMMON: Final = {"common-etcd-client-ca.crt": "ca.crt", "common-etcd-client.crt": "tls.crt", "common-etcd-client.key": "tls.key"}


class Verdict(StrEnum):
    """What is known of a new connection."""

    PROVEN = "proven"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class ControllerProof:
    """What the controller found out about one link. ``heartbeat``: aware UTC, None when it was not read or is no time."""

    cluster: str  # inventory name
    peer: str  # inventory name
    verdict: Verdict
    heartbeat: datetime | None = None
    note: str = ""  # why it is not proven


@dataclass(frozen=True, kw_only=True)
class LinkProof:
    """Both kinds together. ``by`` is kvstoremesh, agent, controller or "" when nobody proved or refuted it."""

    verdict: Verdict = Verdict.UNKNOWN
    by: str = ""
    note: str = ""  # of a refuted one what fails; of an unknown one why nobody could tell
    heartbeat: datetime | None = None


def parse_heartbeat(value: bytes | None) -> datetime | None:
    """The time that the peer wrote (RFC 3339), or None: it is foreign data."""
    try:
        found = datetime.fromisoformat((value or b"")[:64].decode("ascii"))
        return found.astimezone(UTC) if found.tzinfo else None
    except (ValueError, OverflowError):  # the second: year 1 or 9999 with an offset that leads out of the calendar
        return None


def age_seconds(heartbeat: datetime | None, now: datetime) -> int | None:
    """Whole seconds; 0 for a heartbeat that a slower clock here would put into the future."""
    return None if heartbeat is None else max(0, int((now - heartbeat) / timedelta(seconds=1)))


def is_stale(heartbeat: datetime | None, now: datetime) -> bool:
    """Has the peer's clustermesh-apiserver stopped writing?"""
    age = age_seconds(heartbeat, now)
    return age is not None and age > STALE_SECONDS


def link_proof(links: Iterable[LinkFacts], controller: ControllerProof | None) -> LinkProof:
    """Everything about one link: a refutation of anybody counts, then the proof from where the link is used, then the controller's."""
    asked = [link for link in links if link.proof]
    heartbeat = controller.heartbeat if controller else None
    for link in asked:
        if link.proof == Verdict.REFUTED:
            return LinkProof(verdict=Verdict.REFUTED, by=link.reader, note=link.error, heartbeat=heartbeat)
    if controller is not None and controller.verdict is Verdict.REFUTED:
        return LinkProof(verdict=Verdict.REFUTED, by="controller", note=controller.note, heartbeat=heartbeat)
    notes = [link.proof_note for link in asked if link.proof_note]
    if controller is not None and controller.note:
        notes.append(f"controller: {controller.note}")
    by = next((link.reader for link in asked if link.proof == Verdict.PROVEN), "")
    if not by and controller is not None and controller.verdict is Verdict.PROVEN:
        by = "controller"
    verdict = Verdict.PROVEN if by else Verdict.UNKNOWN
    return LinkProof(verdict=verdict, by=by, note=one_line("; ".join(dict.fromkeys(notes)), 400), heartbeat=heartbeat)


def proof_columns(proof: LinkProof, *, now: datetime, previous: Mapping[str, Any] | None) -> dict[str, Any]:
    """``proof``, ``proofNote`` and ``lastProof`` of a row of ``links``.

    :param previous: the same row of the status before: its last proof stays until there is a newer one.
    """
    last: Any = None
    if proof.verdict is Verdict.PROVEN:
        when = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        last = {"time": when, "by": proof.by, "heartbeatAgeSeconds": age_seconds(proof.heartbeat, now)}
    elif isinstance((previous or {}).get("lastProof"), Mapping):
        last = _earlier((previous or {})["lastProof"])
    return {"proof": proof.verdict.value, "proofNote": proof.note, "lastProof": last}


def _earlier(last: Mapping[str, Any]) -> dict[str, Any] | None:
    """A proof out of an earlier status, which comes from outside: what has not its shape counts as none."""
    time, age = last.get("time"), last.get("heartbeatAgeSeconds")
    if not isinstance(time, str) or time_of(time) is None:
        return None
    known = isinstance(age, int) and not isinstance(age, bool)
    return {"time": time, "by": one_line(last.get("by"), 20), "heartbeatAgeSeconds": age if known else None}


def link_access(local: ClusterFacts, peer_name: str, secrets: SecretStore) -> EtcdAccess | str:
    """How ``local`` reaches the peer, exactly as its Secrets say it; or why that cannot be told.

    :param secrets: holds the keys of the Secret with the peers, and those of clustermesh-apiserver-remote-cert.
    """
    secret = local.kvstoremesh if local.runs_kvstoremesh else local.clustermesh
    entry = secret.keys.get(peer_name)
    config = _parsed(entry.config) if entry and entry.config else None
    if config is None:
        return f"Secret {secret.name} of {local.host} holds no configuration for it that could be used from here"
    where = _endpoint(config)
    if where is None:
        return f"the configuration in Secret {secret.name} of {local.host} has no https endpoint"
    files = [_file(local, secret, config.get(name), secrets) for name in ("trusted-ca-file", "cert-file", "key-file")]
    ca, certificate, key = files
    if ca is None or certificate is None or key is None:
        return f"a file that the configuration in Secret {secret.name} of {local.host} names is not in the Secrets that are read"
    hostname, port = where
    return EtcdAccess(hostname=hostname, port=port, ips=_aliases(local, config, hostname), ca=ca, certificate=certificate, key=key)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        config = load_yaml(text)
    except NotYaml:
        return None
    return config if isinstance(config, dict) else None


def _endpoint(config: Mapping[str, Any]) -> tuple[str, int] | None:
    """(name, port) of the first endpoint: this collection and the chart write one."""
    endpoints = config.get("endpoints")
    for endpoint in endpoints if isinstance(endpoints, list) else ():
        try:
            url = urlsplit(endpoint if isinstance(endpoint, str) else "")
            if url.scheme == "https" and url.hostname:
                return url.hostname, url.port or DEFAULT_PORT
        except ValueError:
            continue
    return None


def _file(local: ClusterFacts, secret: PeerSecretFacts, path: Any, secrets: SecretStore) -> Sealed | None:
    """The projected volume shows the keys of the Secret with the peers, and the remote certificate under the names common-*."""
    folder, _sep, name = (path if isinstance(path, str) else "").rpartition("/")
    if folder != DIRECTORY:
        return None
    source, key = (_REMOTE_CERT, _COMMON[name]) if name in _COMMON else (secret.name, name)
    return secrets.get(local.host, source, key) if secrets.has(local.host, source, key) else None


def _aliases(local: ClusterFacts, config: Mapping[str, Any], hostname: str) -> tuple[str, ...]:
    """Where the pod that dials finds the name: in the configuration (read from Cilium 1.20 on) or in its hostAliases."""
    found: list[str] = []
    entries = config.get("cilium-host-aliases")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("hostname") == hostname and isinstance(entry.get("ips"), list):
            found += [ip for ip in entry["ips"] if isinstance(ip, str)]
    workload = local.apiserver if local.runs_kvstoremesh else local.agent
    for alias in workload.host_aliases if workload else ():
        found += [alias.ip] if hostname in alias.hostnames else []
    return tuple(dict.fromkeys(canonical_ip(ip) for ip in found if is_ip(ip)))
