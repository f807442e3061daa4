# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""What a pod sees of a file system: programs, volumes, /etc, and how a process enters it."""

from __future__ import annotations

import base64
import json
import marshal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab.netns import NetNs
from tests.lab.pki import write_private
from tests.lab.processes import LAUNCHER
from tests.lab.translate import HOST_ALIASES_SINCE, expand, parse_version
from tests.lab.trials import FLOWS, Trials
from tests.lab.volumes import AtomicFolder, FileEntry, Lookup, VolumeNotReadyError, is_projection, references, render

Object = dict[str, Any]
KUBECONFIG = "/var/lib/lab/kubeconfig"
"""Where a pod finds a kubeconfig, instead of a ServiceAccount token."""

_ETCD_CONFIG = "/var/lib/cilium/etcd-config.yaml"
# The file of that name in the image (cilium/cilium: images/clustermesh-apiserver/etcd-config.yaml).
_ETCD_CONFIG_TEXT = """\
---
endpoints:
- https://127.0.0.1:2379
trusted-ca-file: /var/lib/cilium/etcd-secrets/ca.crt
key-file: /var/lib/cilium/etcd-secrets/tls.key
cert-file: /var/lib/cilium/etcd-secrets/tls.crt
"""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


AGENT, MESH = "cilium", "clustermesh-apiserver"


def role_of(pod: Object) -> str:
    """Value of label k8s-app, by which Cilium's charts select agents and the mesh's Deployment."""
    return str((pod["metadata"].get("labels") or {}).get("k8s-app", ""))


@dataclass(frozen=True)
class PodWorld:
    """What all pods of a cluster have in common. ``programs``: per role (value of label k8s-app), path in the pod to file on this machine.
    ``profile`` and ``binary_version`` are Cilium's; ``pods`` is the folder that the lab's kubelet reads, ``folder`` that of the pods' own
    files; ``trials`` is what probes meet (None: nothing is played for them). ``names``: of a namespace, lines of /etc/hosts in the place of
    the cluster's DNS, which the lab has not."""

    cluster_name: str
    profile: str
    binary_version: str
    programs: Mapping[str, Mapping[str, Path]]
    kubeconfig: Path
    cluster_ip: str
    folder: Path
    pods: Path
    trials: Trials | None = None
    names: Callable[[str], Iterable[str]] = lambda namespace: ()

    @property
    def reads_host_aliases(self) -> bool:
        """Whether Cilium of the profile's version reads `cilium-host-aliases`."""
        return parse_version(self.profile) >= HOST_ALIASES_SINCE

    @property
    def plays_host_aliases(self) -> bool:
        """Whether the lab has to resolve those names because the binary does not."""
        return self.reads_host_aliases and parse_version(self.binary_version) < HOST_ALIASES_SINCE


class PodFiles:
    """The files of one pod. ``played`` says in words what the lab does in the place of a newer binary."""

    def __init__(self, world: PodWorld, pod: Object, lookup: Lookup) -> None:
        self.world = world
        self.pod = pod
        self.folder = world.folder / str(pod["metadata"]["uid"])
        self.played: dict[str, str] = {}
        self._lookup = lookup
        self._etc = self.folder / "etc"
        self._hosts = ""
        self._listing = world.pods / f"{pod['metadata']['namespace']}_{pod['metadata']['name']}.json"
        for path in (self._etc, self.folder / "root", self.folder / "logs"):
            path.mkdir(parents=True, exist_ok=True)
        (self._etc / "resolv.conf").write_text("", encoding="ascii")
        (self._etc / "nsswitch.conf").write_text("hosts: files\n", encoding="ascii")
        (self.folder / "etcd-config.yaml").write_text(_ETCD_CONFIG_TEXT, encoding="ascii")
        self._volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
        self._folders = {name: AtomicFolder(self.folder / "volumes" / name) for name in self._volumes}

    @property
    def spec(self) -> Path:
        """The launcher's description of this pod."""
        return self.folder / "spec"

    def log(self, container: str) -> Path:
        return self.folder / "logs" / f"{container}.log"

    def concerns(self, kind: str, name: str) -> bool:
        """Whether a Secret or ConfigMap is shown in one of the volumes or variables."""
        spec = self.pod["spec"]
        containers = [*(spec.get("initContainers") or []), *spec["containers"]]
        return any((kind, name) in references(volume) for volume in self._volumes.values()) or any(
            (kind, name) in variable_references(container) for container in containers
        )

    def project(self) -> bool:
        """Bring the volumes in step with the API. Returns whether a file changed. Raises VolumeNotReadyError."""
        rendered = {name: self._render(name) for name, volume in self._volumes.items() if is_projection(volume)}
        self._write_hosts([entry for files in rendered.values() for entry in files.values()])
        changed = [self._folders[name].show(files) for name, files in rendered.items()]
        return any(changed)

    def write_spec(self, netns: NetNs | None, environments: Mapping[str, Mapping[str, str]], system: Object | None = None) -> None:
        """Describe the pod to the launcher and to the lab's kubelet.

        ``environments``: container name to its variables; ``system``: what it has of a node with a real agent (node.py).
        """
        spec = self.pod["spec"]
        containers = {
            container["name"]: {"env": environments[container["name"]], "mounts": list(self._mounts(container))}
            for container in [*(spec.get("initContainers") or []), *spec["containers"]]
        }
        programs = self.world.programs.get(role_of(self.pod), {})
        binds: list[tuple[str, str, bool]] = [(str(source), path, True) for path, source in programs.items()]
        binds += [(device, device, False) for device in _DEVICES]
        binds += [
            *([] if system else [("/proc", "/proc", False)]),
            (str(self._etc), "/etc", True),
            (str(self.folder / "etcd-config.yaml"), _ETCD_CONFIG, True),
            (str(self.world.kubeconfig), KUBECONFIG, True),
        ]
        if self.world.trials is not None and role_of(self.pod) == AGENT and system is None:
            binds.append((str(self.world.trials.flows), FLOWS, True))
        content = {
            "netns": netns.path if netns else None,
            "root": str(self.folder / "root"),
            "dirs": ["/tmp", "/run", "/var/run/cilium"],
            "links": [["cilium", "/usr/bin/cilium-dbg"]] if "/usr/bin/cilium" in programs else [],  # its name in images from 1.15 on
            "binds": binds,
            "containers": containers,
        }
        if system is not None:  # its folders come first, since others lie in them
            late = [("/etc/alternatives", "/etc/alternatives", True)]  # Debian's programs are links into it
            (self._etc / "alternatives").mkdir(exist_ok=True)
            content |= {**system, "binds": [*system["binds"], *binds, *late]}
        write_private(self.spec, marshal.dumps(content))
        entries = {name: {"exec": [*LAUNCHER, "run", str(self.spec), name, "--"], "log": str(self.log(name))} for name in containers}
        listing = {"containers": entries, "connect": [*LAUNCHER, "connect", str(self.spec)] if netns else []}
        write_private(self._listing, json.dumps(listing).encode())

    def unlist(self) -> None:
        """The lab's kubelet no longer knows the pod."""
        self._listing.unlink(missing_ok=True)

    def _render(self, name: str) -> dict[str, FileEntry]:
        try:
            return render(self._volumes[name], self._lookup)
        except VolumeNotReadyError as error:
            raise VolumeNotReadyError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from None

    def _mounts(self, container: Object) -> Iterable[tuple[str, str, bool]]:
        # Shorter paths first: a mount may lie below another one.
        for mount in sorted(container.get("volumeMounts") or [], key=lambda mount: len(mount["mountPath"])):
            projection = is_projection(self._volumes[mount["name"]])
            yield str(self._folders[mount["name"]].path), mount["mountPath"].rstrip("/"), projection or bool(mount.get("readOnly"))

    def _write_hosts(self, entries: Iterable[FileEntry]) -> None:
        namespace = self.pod["metadata"]["namespace"]
        lines = ["127.0.0.1 localhost", f"{self.world.cluster_ip} clustermesh-apiserver.{namespace}.svc"]
        for alias in self.pod["spec"].get("hostAliases") or []:
            lines.append(" ".join([alias["ip"], *alias.get("hostnames", [])]))
        if role_of(self.pod) not in (AGENT, MESH):  # of which the charts' pods ask for one name, and expect no other
            lines += self.world.names(namespace)
        if self.world.plays_host_aliases:
            played = sorted({pair for entry in entries for pair in host_aliases(entry.content)})
            lines += [f"{address} {name}" for address, name in played]
            names = ", ".join(sorted({name for _, name in played}))
            self.played["cilium-host-aliases"] = f"cilium-host-aliases resolved through /etc/hosts: {names}" if names else ""
        text = "\n".join(lines) + "\n"
        if text != self._hosts:
            fresh = self._etc / "hosts.new"
            fresh.write_text(text, encoding="utf-8")
            fresh.rename(self._etc / "hosts")
            self._hosts = text


def host_aliases(content: bytes) -> list[tuple[str, str]]:
    """(address, name) of every `cilium-host-aliases` entry of an etcd client configuration; nothing for any other file."""
    if b"cilium-host-aliases" not in content:
        return []
    try:
        entries = yaml.safe_load(content)["cilium-host-aliases"] or []
        return [(str(address), str(entry["hostname"])) for entry in entries for address in entry["ips"]]
    except (yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError):
        return []  # Cilium refuses the whole file then; a name that does not resolve comes to the same


def variable_references(container: Object) -> Iterable[tuple[str, str]]:
    """(kind, name) of every Secret and ConfigMap that a container's variables come from."""
    for variable in container.get("env") or []:
        source = variable.get("valueFrom") or {}
        for key, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if key in source:
                yield kind, source[key]["name"]


def environment(container: Object, lookup: Lookup, fields: Mapping[str, str], base: Mapping[str, str]) -> dict[str, str]:
    """Variables of a container: ``base``, then those of its template with ``$(NAME)`` replaced by what stands before.

    ``fields``: downward API paths such as `metadata.uid`. A reference to something missing that is not optional gives KeyError naming it.
    """
    result = dict(base)
    for variable in container.get("env") or []:
        source = variable.get("valueFrom") or {}
        if "fieldRef" in source:
            result[variable["name"]] = fields[source["fieldRef"]["fieldPath"]]
        elif "configMapKeyRef" in source or "secretKeyRef" in source:
            kind = "ConfigMap" if "configMapKeyRef" in source else "Secret"
            reference = source.get("configMapKeyRef") or source["secretKeyRef"]
            value = ((lookup(kind, reference["name"]) or {}).get("data") or {}).get(reference["key"])
            if value is not None:
                result[variable["name"]] = base64.b64decode(value).decode() if kind == "Secret" else str(value)
            elif not reference.get("optional"):
                raise KeyError(f"{kind} {reference['name']} has no key {reference['key']}")
        else:
            result[variable["name"]] = expand(str(variable.get("value") or ""), result)
    return result
