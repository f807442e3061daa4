# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory clusters: one host per Kubernetes cluster, from kubeconfig contexts or a folder of kubeconfigs."""

from __future__ import annotations

DOCUMENTATION = r"""
name: clusters
version_added: 0.1.0
short_description: One host per Kubernetes cluster, from kubeconfig contexts or a folder of kubeconfigs
description:
  - Makes a host of each context of a kubeconfig, or of each kubeconfig in a folder, in the group C(cilium_mesh_clusters).
  - A host gets the variables C(cilium_mesh_kubeconfig), C(cilium_mesh_context), C(cilium_mesh_namespace) and C(ansible_connection=local).
    They are never taken for templates, whatever a kubeconfig holds.
  - The plugin makes hosts of the names of the contexts of a kubeconfig; credentials stay in the file.
  - The file is called C(clusters.yml), C(clusters.yaml), or ends in C(.clusters.yml) or C(.clusters.yaml). Any other YAML file will do when
    its key O(plugin) stands at the beginning of a line.
  - Variables of single hosts, such as C(cilium_mesh_endpoint_override), go into C(host_vars) beside the file.
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
options:
  plugin:
    description: Marks the file as one of this plugin.
    type: str
    required: true
    choices: [edge_portal.cilium_mesh.clusters]
  kubeconfig:
    description:
      - A kubeconfig file, each of whose contexts is a cluster. A relative path starts at the folder of the inventory file.
      - Several files are joined by C(:), and mean what they mean to kubectl in E(KUBECONFIG).
      - Exactly one of O(kubeconfig) and O(kubeconfigs) is given.
    type: str
  kubeconfigs:
    description:
      - A folder, each of whose files is the kubeconfig of one cluster, under its current context, or its only one.
      - Names beginning with a dot or ending in C(~) are left out. So is a file without contexts whose name has another ending than
        C(.kubeconfig), C(.conf), C(.config), C(.yaml), C(.yml) and C(.json), such as a certificate; C(-v) shows it.
    type: str
  contexts:
    description:
      - The contexts to take, in this order; all when empty. A context that the kubeconfig lacks is an error.
      - Only with O(kubeconfig).
    type: list
    elements: str
    default: []
  pattern:
    description:
      - A shell-style pattern. Only contexts (with O(kubeconfig)) or file names without their ending (with O(kubeconfigs)) that match it are
        taken.
    type: str
    default: "*"
  names:
    description:
      - Context or file name without its ending, and the name of the host to make of it. It is the name that C(clusterRefs) uses.
      - Without an entry here the name is lower-cased, and each run of characters that a Kubernetes name cannot hold becomes a hyphen.
    type: dict
    default: {}
  namespace:
    description:
      - Namespace in which Cilium runs.
    type: str
    default: kube-system
seealso:
  - module: edge_portal.cilium_mesh.mesh_connect
"""

EXAMPLES = r"""
# clusters.yml: two contexts of your own kubeconfig
plugin: edge_portal.cilium_mesh.clusters
kubeconfig: ~/.kube/config
contexts:
  - kind-ffm
  - admin@ber.example.com
names:
  kind-ffm: cluster-ffm-1
  admin@ber.example.com: cluster-ber-2
---
# clusters.yml: a file per cluster, named after it
plugin: edge_portal.cilium_mesh.clusters
kubeconfigs: kubeconfigs/
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.document import Kubeconfig
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.files import read_kubeconfigs, split_paths
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.invalid import KubeconfigInvalid, Subject
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.host_credentials import CONTEXT, KUBECONFIG
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import NAMESPACE

PLUGIN = "edge_portal.cilium_mesh.clusters"
GROUP = "cilium_mesh_clusters"
ENDINGS = (".kubeconfig", ".conf", ".config", ".yaml", ".yml", ".json")

_MARK = re.compile(rf"^plugin:\s*[\"']?{re.escape(PLUGIN)}[\"']?\s*(?:#.*)?$", re.MULTILINE)
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)*")  # DNS-1123 subdomain


@dataclass(frozen=True)
class FoundCluster:
    """Cluster of a kubeconfig: its context or file name as ``key``, the path of its kubeconfig, and its context."""

    key: str
    file: str
    context: str


class InventoryModule(BaseInventoryPlugin):  # type: ignore[misc]  # ansible-core has no types
    """Inventory of the clusters of one or several kubeconfigs."""

    NAME = PLUGIN

    def verify_file(self, path: str) -> bool:
        """Return whether the file is a configuration of this plugin."""
        if not super().verify_file(path) or not path.endswith((".yml", ".yaml")):
            return False
        if os.path.basename(path) in ("clusters.yml", "clusters.yaml") or path.endswith((".clusters.yml", ".clusters.yaml")):
            return True
        try:
            with open(path, encoding="utf-8") as stream:
                return _MARK.search(stream.read(65536)) is not None
        except (OSError, ValueError):
            return False

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """Add the clusters that the configuration names to the inventory.

        :raises AnsibleParserError: when the configuration or a kubeconfig is not valid.
        """
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            self._add(list(self._clusters(os.path.dirname(os.path.abspath(path)))))
        except KubeconfigInvalid as error:
            raise AnsibleParserError(" ".join(filter(None, (f"{error.message}.", error.remedy)))) from None

    def _clusters(self, folder: str) -> Iterator[FoundCluster]:
        single, several = self.get_option("kubeconfig"), self.get_option("kubeconfigs")
        if bool(single) == bool(several):
            raise AnsibleParserError("Give exactly one of kubeconfig (a file) and kubeconfigs (a folder).")
        if single:
            return self._clusters_of_file(os.pathsep.join(_path(folder, path) for path in split_paths(str(single))))
        if self.get_option("contexts"):
            raise AnsibleParserError("contexts goes with kubeconfig; with kubeconfigs choose by pattern.")
        return self._clusters_of_folder(_path(folder, str(several)))

    def _clusters_of_file(self, file: str) -> Iterator[FoundCluster]:
        contexts = read_kubeconfigs(split_paths(file)).contexts
        wanted = [str(name) for name in self.get_option("contexts")]
        missing = [name for name in wanted if name not in contexts]
        if missing:
            raise AnsibleParserError(f"Kubeconfig {file} has no context {', '.join(missing)}; it has {', '.join(contexts) or 'none'}.")
        for name in wanted or contexts:
            if self._matches(name):
                yield FoundCluster(name, file, name)

    def _clusters_of_folder(self, folder: str) -> Iterator[FoundCluster]:
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            raise AnsibleParserError(f"The folder {folder} of kubeconfigs cannot be read: {error.strerror}.") from None
        for name in names:
            file = os.path.join(folder, name)
            if name.startswith(".") or name.endswith("~") or not os.path.isfile(file):
                continue
            stem = next((name.removesuffix(ending) for ending in ENDINGS if name.endswith(ending)), name)
            if self._matches(stem) and (found := self._kubeconfig_of(file, expected=stem != name or "." not in name)):
                yield FoundCluster(stem, file, _only_context(file, found))

    def _kubeconfig_of(self, file: str, *, expected: bool) -> Kubeconfig | None:
        """Return the kubeconfig in a file of a folder; None where nobody expects one and there is none."""
        try:
            found = read_kubeconfigs((file,))
        except KubeconfigInvalid:
            if expected:
                raise
            found = Kubeconfig()
        if found.contexts or expected:
            return found
        self.display.v(f"{file} is left out: it is no kubeconfig by its name, and none by its content.")
        return None

    def _matches(self, name: str) -> bool:
        return fnmatchcase(name, str(self.get_option("pattern")))

    def _add(self, clusters: list[FoundCluster]) -> None:
        names = self._host_names(clusters)
        if not names:
            raise AnsibleParserError("No cluster was found; look at contexts and pattern.")
        self.inventory.add_group(GROUP)
        for host, found in names.items():
            before = self.inventory.hosts.get(host)
            other = None if before is None else before.vars.get(KUBECONFIG)
            if other is not None and other != found.file:
                raise AnsibleParserError(f"The host {host} is made of {found.file} here, and of {other} by another inventory source.")
            self.inventory.add_host(host, group=GROUP)
            for name, value in self._variables(found).items():
                self.inventory.set_variable(host, name, value)

    def _host_names(self, clusters: list[FoundCluster]) -> Mapping[str, FoundCluster]:
        """Return the cluster of each host name.

        :raises AnsibleParserError: when two clusters have one name; the message names both.
        """
        chosen: Mapping[str, Any] = self.get_option("names")
        unknown = sorted(set(map(str, chosen)) - {found.key for found in clusters})
        if unknown:
            raise AnsibleParserError(f"names speaks of {', '.join(unknown)}, which is no cluster found here.")
        hosts: dict[str, FoundCluster] = {}
        for found in clusters:
            host = _host_name(found, chosen.get(found.key))
            if host in hosts:
                first = hosts[host]
                raise AnsibleParserError(
                    f"The host name {host} comes from {first.key} in {first.file} and from {found.key} in {found.file}; "
                    "tell them apart with names."
                )
            hosts[host] = found
        return hosts

    def _variables(self, found: FoundCluster) -> dict[str, str]:
        return {
            KUBECONFIG: found.file,
            CONTEXT: found.context,
            NAMESPACE: str(self.get_option("namespace")),
            "ansible_connection": "local",
        }


def _path(folder: str, path: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def _only_context(file: str, found: Kubeconfig) -> str:
    """Return the current context, or the only one.

    :raises KubeconfigInvalid: when there are several contexts and none is current.
    """
    if found.current_context in found.contexts:
        return found.current_context
    if len(found.contexts) == 1:
        return next(iter(found.contexts))
    what = f"has {len(found.contexts)} contexts and none of them is its current-context"
    raise KubeconfigInvalid(what, subject=Subject(f"Kubeconfig {file}", "The kubeconfig"))


def _host_name(found: FoundCluster, chosen: Any) -> str:
    name = str(chosen) if chosen is not None else re.sub(r"[^a-z0-9.]+", "-", found.key.lower()).strip("-.")
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise AnsibleParserError(
            f"{name or found.key!r}, for {found.key!r} in {found.file}, is not a DNS-1123 name; choose one with names."
        )
    return name
