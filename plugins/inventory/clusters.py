# Copyright: Contributors to the edge_portal.cilium_mesh project
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory clusters: one host per Kubernetes cluster, from kubeconfig contexts or a folder of kubeconfigs."""

from __future__ import annotations

DOCUMENTATION = r"""
name: clusters
version_added: 0.1.0
short_description: One host per Kubernetes cluster, from kubeconfigs or a management cluster
description:
  - Makes a host of each context of a kubeconfig, of each kubeconfig in a folder, or of each cluster that a management cluster knows, in the
    group C(cilium_mesh_clusters).
  - A host gets the variables C(cilium_mesh_namespace), C(ansible_connection=local), and C(cilium_mesh_kubeconfig) with
    C(cilium_mesh_context), or C(cilium_mesh_kubeconfig_from). They are never taken for templates, whatever a source holds.
  - Credentials stay in the file, or in the Secret that C(cilium_mesh_kubeconfig_from) names. Each run reads that Secret itself, with the
    rights of O(kubeconfig).
  - A cluster of a management cluster that is not ready, or whose Secret is missing, cannot be read, or has no kubeconfig that can be used,
    is a host with the reason in C(cilium_mesh_unavailable). When clusters cannot be listed, the inventory fails.
  - The file is called C(clusters.yml), C(clusters.yaml), or ends in C(.clusters.yml) or C(.clusters.yaml). Any other YAML file will do when
    its key O(plugin) stands at the beginning of a line.
  - Variables of single hosts, such as C(cilium_mesh_endpoint_override), go into C(host_vars) beside the file.
  - Expressions of O(compose), O(groups) and O(keyed_groups) see the variables of the host, and C(cluster), a mapping with C(name),
    C(namespace) and C(labels), as the source has them. Values of a source are data in them and in what comes of them; they are never
    evaluated themselves.
  - With O(cache), names and labels of clusters, paths of files and names of Secrets are cached, and no credentials. A changed option takes
    effect at once; a change of the source does when the cache ends, or with C(--flush-cache).
author:
  - Contributors to the edge_portal.cilium_mesh project (@edge-portal)
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Marks the file as one of this plugin.
    type: str
    required: true
    choices: [edge_portal.cilium_mesh.clusters]
  source:
    description:
      - Where clusters are found.
      - V(kubeconfig) means the contexts of O(kubeconfig), or the files of O(kubeconfigs). With the others O(kubeconfig) is that of a
        management cluster.
      - V(management_plane) means its Clusters of C(platform.edge-portal.eu). A host has the name in the label
        C(edge-connect.eu/source-name), which is that of the KubernetesCluster, else that of the Cluster.
      - V(cluster_api) means its Clusters of C(cluster.x-k8s.io), with the Secret that Cluster API makes, C(NAME-kubeconfig).
      - V(argocd) means its Secrets with the label C(argocd.argoproj.io/secret-type=cluster). A Secret with C(awsAuthConfig) is refused.
    type: str
    default: kubeconfig
    choices: [kubeconfig, management_plane, cluster_api, argocd]
  kubeconfig:
    description:
      - A kubeconfig file, each of whose contexts is a cluster. A relative path starts at the folder of the inventory file.
      - Several files are joined by C(:), and mean what they mean to kubectl in E(KUBECONFIG).
      - A single file may be one that ansible-vault encrypted. Its contexts are read with the passwords that Ansible has.
      - Exactly one of O(kubeconfig) and O(kubeconfigs) is given.
      - With another O(source) than V(kubeconfig), the kubeconfig of the management cluster, which ansible-vault may have encrypted.
    type: str
  context:
    description:
      - The context of the management cluster in O(kubeconfig); its current context when empty.
      - Only with another O(source) than V(kubeconfig).
    type: str
    default: ""
  source_namespaces:
    description:
      - Namespaces of the management cluster in which clusters are listed. When empty, all of them, or C(argocd) with O(source=argocd).
      - Only with another O(source) than V(kubeconfig).
    type: list
    elements: str
    default: []
  label_selector:
    description:
      - A selector of Kubernetes, such as V(region=eu), for the Clusters, or for the Secrets of Argo CD.
      - Only with another O(source) than V(kubeconfig).
    type: str
    default: ""
  exec:
    description:
      - Whether a kubeconfig from a Secret may name a program (C(exec), or C(execProviderConfig) of Argo CD) that is run on this machine for
        credentials. Then those who may write these Secrets can run any program here.
      - Only with another O(source) than V(kubeconfig).
    type: bool
    default: false
  kubeconfigs:
    description:
      - A folder, each of whose files is the kubeconfig of one cluster, under its current context, or its only one.
      - A file with one of the endings below that ansible-vault encrypted is one too. It needs no password here, but a current context; the
        run decrypts it.
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
      - A shell-style pattern. Only contexts, file names without their ending (with O(kubeconfigs)), or names of clusters (with another
        O(source)) that match it are taken.
    type: str
    default: "*"
  names:
    description:
      - Context or file name without its ending, and the name of the host to make of it. It is the name that C(clusterRefs) uses.
      - With another O(source) than V(kubeconfig), the name of a cluster, or of the object that it was found in, also as C(NAMESPACE/NAME).
      - An entry for which there is no cluster is an error; with another O(source) than V(kubeconfig) a warning, since clusters come and go.
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
---
# clusters.yml: a group for each place, which the contexts have in their names (kind-ffm)
plugin: edge_portal.cilium_mesh.clusters
kubeconfig: ~/.kube/config
keyed_groups:
  - prefix: place
    key: cluster.name | regex_replace('^kind-')
compose:
  cilium_mesh_denied_networks: "['192.0.2.0/24'] if cluster.name is match('partner-') else []"
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/cilium-mesh-inventory
---
# clusters.yml: the clusters that Cluster API has made in two namespaces, in groups by a label of theirs
plugin: edge_portal.cilium_mesh.clusters
source: cluster_api
kubeconfig: management.yaml
source_namespaces: [team-a, team-b]
label_selector: mesh=edge
keyed_groups:
  - prefix: region
    key: cluster.labels['topology.kubernetes.io/region'] | default('none')
---
# clusters.yml: the clusters of Argo CD
plugin: edge_portal.cilium_mesh.clusters
source: argocd
kubeconfig: management.yaml
names:
  ffm.example.com: cluster-ffm-1
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.errors import MeshError
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.base.redact import one_line
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.files import split_paths
from ansible_collections.edge_portal.cilium_mesh.plugins.module_utils.kubeconfig.invalid import KubeconfigInvalid
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.cluster_sources import Asked, clusters_of
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.found_cluster import FoundCluster, cached_form, from_cache
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.host_credentials import KUBECONFIG, KUBECONFIG_FROM
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.kubeconfig_sources import clusters_of_contexts, clusters_of_folder
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.play import NAMESPACE, plain
from ansible_collections.edge_portal.cilium_mesh.plugins.plugin_utils.secret_kubeconfigs import management_cluster

PLUGIN = "edge_portal.cilium_mesh.clusters"
GROUP = "cilium_mesh_clusters"
MESSAGE_LIMIT = 2000  # characters
EXPRESSIONS = "cluster"
"""Variable that the expressions of ``constructed`` see, and the host does not get."""
OF_MANAGEMENT = ("context", "source_namespaces", "label_selector", "exec")
SOURCE_OPTIONS = ("source", "kubeconfig", "kubeconfigs", "contexts", "pattern", *OF_MANAGEMENT)
"""Options that decide which clusters are found. Names, groups and variables are made anew of what is cached."""

_MARK = re.compile(rf"^plugin:\s*[\"']?{re.escape(PLUGIN)}[\"']?\s*(?:#.*)?$", re.MULTILINE)
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)*")  # DNS-1123 subdomain


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):  # type: ignore[misc]  # ansible-core has no types
    """Inventory of the clusters of kubeconfigs, or of a management cluster."""

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

        :raises AnsibleParserError: when the configuration or a kubeconfig is not valid, or a management cluster cannot be read.
        """
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            self._add(self._found(os.path.abspath(path), cache=cache))
        except (KubeconfigInvalid, MeshError, AnsibleError) as error:
            remedy = getattr(error, "remedy", "")
            said = one_line(f"{error.message}{'.' if isinstance(error, KubeconfigInvalid) else ''} {remedy}", MESSAGE_LIMIT)
            # Ansible passes the file on to its own plugins, each of which adds a paragraph about a file that is none of its own. And it
            # prints control characters, which a name of a context can have.
            self.display.error(f"{path}: {said}", wrap_text=False)
            raise AnsibleParserError(said) from None

    def _found(self, path: str, *, cache: bool) -> list[FoundCluster]:
        """Return the clusters of the cache where it is on and has them, else those of the source, which the cache then gets.

        :param cache: whether the cache may be read: ``--flush-cache`` and ``meta: refresh_inventory`` forbid it.
        """
        folder = os.path.dirname(path)
        if not self.get_option("cache"):
            return list(self._clusters(folder))
        key = self.get_cache_key(path)
        asked = plain([path, {name: self.get_option(name) for name in SOURCE_OPTIONS}])
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
        cached = from_cache(digest, self._cached(key)) if cache else None
        if cached is not None:
            return cached
        found = list(self._clusters(folder))
        self._cache[key] = cached_form(digest, found)
        return found

    def _cached(self, key: str) -> Any:
        """Return what the cache has, None for nothing. What is damaged is read anew, whatever the plugin of the cache says of it."""
        try:
            return self._cache.get(key)
        except Exception:  # ansible-core raises AnsibleError for what is no JSON, and TypeError for JSON of another form
            return None

    def _clusters(self, folder: str) -> Iterator[FoundCluster]:
        single, several = self.get_option("kubeconfig"), self.get_option("kubeconfigs")
        if self.get_option("source") != "kubeconfig":
            return self._clusters_of_management_cluster(folder)
        if wrong := [name for name in OF_MANAGEMENT if self.get_option(name)]:
            raise AnsibleParserError(f"{', '.join(wrong)}: only with a source other than kubeconfig.")
        if bool(single) == bool(several):
            raise AnsibleParserError("Give exactly one of kubeconfig (a file) and kubeconfigs (a folder).")
        wanted = [str(name) for name in self.get_option("contexts")]
        if single:
            file = os.pathsep.join(_path(folder, path) for path in split_paths(str(single)))
            return (found for found in clusters_of_contexts(file, wanted, self._decrypted) if self._matches(found.name))
        if wanted:
            raise AnsibleParserError("contexts goes with kubeconfig; with kubeconfigs choose by pattern.")
        return clusters_of_folder(_path(folder, str(several)), self._matches, self._warn_of_left_out)

    def _clusters_of_management_cluster(self, folder: str) -> Iterator[FoundCluster]:
        source, file = str(self.get_option("source")), self.get_option("kubeconfig")
        if not file or self.get_option("kubeconfigs") or self.get_option("contexts"):
            raise AnsibleParserError(
                f"With source {source}, give kubeconfig, and context if need be, of the management cluster; not kubeconfigs or contexts."
            )
        asked = Asked(
            source=source,
            kubeconfig=os.pathsep.join(_path(folder, path) for path in split_paths(str(file))),
            context=str(self.get_option("context")),
            namespaces=tuple(map(str, self.get_option("source_namespaces"))) or (("argocd",) if source == "argocd" else ()),
            label_selector=str(self.get_option("label_selector")),
            exec=bool(self.get_option("exec")),
        )
        if wrong := [name for name in asked.namespaces if not _NAME.fullmatch(name)]:
            raise AnsibleParserError(f"source_namespaces has {wrong[0]!r}, which is no name of a namespace.")
        with management_cluster("management cluster", asked.kubeconfig, asked.context, folder, self._decrypted) as opened:
            return iter(clusters_of(asked, opened, self._matches))

    def _warn_of_left_out(self, file: str) -> None:
        self.display.v(f"{file} is left out: it is no kubeconfig by its name, and none by its content.")

    def _decrypted(self, path: str) -> str:
        return str(self.loader.get_text_file_contents(path))

    def _matches(self, name: str) -> bool:
        return fnmatchcase(name, str(self.get_option("pattern")))

    def _add(self, clusters: list[FoundCluster]) -> None:
        names = self._host_names(clusters)
        if not names:
            asked = "source_namespaces, label_selector" if self.get_option("source") != "kubeconfig" else "contexts"
            raise AnsibleParserError(f"No cluster was found; look at {asked} and pattern.")
        self.inventory.add_group(GROUP)
        for host, found in names.items():
            before = self.inventory.hosts.get(host)
            other = {} if before is None else {name: before.vars[name] for name in (KUBECONFIG, KUBECONFIG_FROM) if name in before.vars}
            if any(found.variables.get(name) != value for name, value in other.items()):
                made = other.get(KUBECONFIG) or " ".join(map(str, other[KUBECONFIG_FROM].values()))
                raise AnsibleParserError(f"The host {host} is made of {found.place} here, and of {made} by another inventory source.")
            self.inventory.add_host(host, group=GROUP)
            for name, value in self._variables(found).items():
                self.inventory.set_variable(host, name, value)
        for host, found in names.items():
            self._construct(host, found)

    def _construct(self, host: str, found: FoundCluster) -> None:
        """Make what the options of ``constructed`` say. No text of the source is trusted as a template, so none is evaluated.

        https://docs.ansible.com/ansible-core/2.19/porting_guides/porting_guide_core_2.19.html (data tagging)
        """
        variables = {**self.inventory.hosts[host].get_vars(), EXPRESSIONS: found.seen}
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict=strict)

    def _host_names(self, clusters: list[FoundCluster]) -> Mapping[str, FoundCluster]:
        """Return the cluster of each host name.

        :raises AnsibleParserError: when two clusters have one name; the message names both.
        """
        chosen: Mapping[str, Any] = self.get_option("names")
        unknown = sorted(set(map(str, chosen)) - {name for found in clusters for name in found.names})
        if unknown:
            said = f"names speaks of {', '.join(unknown)}, which is no cluster found here."
            if self.get_option("source") == "kubeconfig":
                raise AnsibleParserError(said)
            self.display.warning(f"{said} It is wrong, or the cluster has gone.")  # which is no fault of the other clusters
        hosts: dict[str, FoundCluster] = {}
        for found in clusters:
            host = _host_name(found, next((chosen[name] for name in reversed(found.names) if name in chosen), None))
            if host in hosts:
                first = hosts[host]
                raise AnsibleParserError(
                    f"The host name {host} comes from {first.name} in {first.place} and from {found.name} in {found.place}; "
                    "tell them apart with names."
                )
            hosts[host] = found
        return hosts

    def _variables(self, found: FoundCluster) -> dict[str, Any]:
        return {NAMESPACE: str(self.get_option("namespace")), "ansible_connection": "local", **found.variables}


def _path(folder: str, path: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def _host_name(found: FoundCluster, chosen: Any) -> str:
    name = str(chosen) if chosen is not None else re.sub(r"[^a-z0-9.]+", "-", found.name.lower()).strip("-.")
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise AnsibleParserError(
            f"{name or found.name!r}, for {found.name!r} in {found.place}, is not a DNS-1123 name; choose one with names."
        )
    return name
