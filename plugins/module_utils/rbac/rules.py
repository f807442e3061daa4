# Copyright: Contributors to the edge_portal.cilium_mesh project
# SPDX-License-Identifier: Apache-2.0
"""Table of the rights that each function needs, with least privilege: Secrets are never listed, and each is named.

``tests/integration/test_rights.py`` holds on real API servers that the rules of each function are enough, and takes each of them away.
"""

from __future__ import annotations

from typing import Final

from .rule import Circumstance as Only
from .rule import Function, RoleRule, RuleScope

EVERY: Final = frozenset(Function)
_OBSERVES: Final = EVERY - {Function.STATUS}
_MEASURES: Final = EVERY - {Function.VERIFY}
_WRITES: Final = frozenset({Function.CONNECT, Function.IDENTITY, Function.ITEMS, Function.CA})
_LINKS: Final = frozenset({Function.CONNECT, Function.CA})
_CONNECT: Final = frozenset({Function.CONNECT})
_IDENTITY: Final = frozenset({Function.IDENTITY})
_ITEMS: Final = frozenset({Function.ITEMS})
_EXPLAIN: Final = frozenset({Function.EXPLAIN})
_CA: Final = frozenset({Function.CA})

_LEASES: Final = "cilium-mesh-{owner}"
_CILIUM: Final = "cilium.io"
_MCS: Final = "multicluster.x-k8s.io"
_GATEWAY: Final = "gateway.networking.k8s.io"
_CERT_MANAGER: Final = "cert-manager.io"
_WRITTEN: Final = ("create", "patch", "delete")
_LEFT_OUT: Final = "verify says which checks it left out (CM-RBAC-01)"
_SERVERS: Final = ("clustermesh-apiserver-admin-cert", "clustermesh-apiserver-local-cert", "clustermesh-apiserver-server-cert")
_REMOTE: Final = "clustermesh-apiserver-remote-cert"

RULES: Final[tuple[RoleRule, ...]] = (
    # To observe.
    RoleRule(
        why="The uid of this namespace tells one cluster from another.",
        functions=EVERY,
        scope=RuleScope.CLUSTER,
        resources=("namespaces",),
        names=("{namespace}",),
        verbs=("get",),
    ),
    RoleRule(why="Addresses of nodes.", functions=EVERY, scope=RuleScope.CLUSTER, resources=("nodes",), verbs=("list",)),
    RoleRule(
        why="Pod networks.",
        functions=_OBSERVES,
        scope=RuleScope.CLUSTER,
        group=_CILIUM,
        resources=("ciliumnodes",),
        verbs=("list",),
    ),
    RoleRule(
        why="Pools of pod addresses, to compare them with those of the peers.",
        functions=_OBSERVES,
        scope=RuleScope.CLUSTER,
        group=_CILIUM,
        resources=("ciliumpodippools",),
        verbs=("list",),
        only=frozenset({Only.POD_POOLS}),
        lost=_LEFT_OUT,
    ),
    RoleRule(
        why="To count them, for limits of Cilium.",
        functions=frozenset({Function.VERIFY, Function.EXPLAIN}),
        scope=RuleScope.CLUSTER,
        group=_CILIUM,
        resources=("ciliumidentities", "ciliumendpoints"),
        verbs=("list",),
        lost=_LEFT_OUT,
    ),
    RoleRule(
        why="Configuration of Cilium: name and id of the cluster, routing, encryption.",
        functions=EVERY,
        resources=("configmaps",),
        names=("cilium-config",),
        verbs=("get",),
    ),
    RoleRule(
        why="Users of the mesh etcd, and the leases of the mesh.",
        functions=_OBSERVES,
        resources=("configmaps",),
        names=("clustermesh-remote-users", _LEASES),
        verbs=("get",),
    ),
    RoleRule(
        why="Peers that are configured, and the client certificate for them.",
        functions=EVERY,
        resources=("secrets",),
        names=("cilium-clustermesh", "cilium-kvstoremesh", _REMOTE),
        verbs=("get",),
    ),
    RoleRule(
        why="Certificates of the mesh etcd: who issued them, and until when they hold.",
        functions=_OBSERVES,
        resources=("secrets",),
        names=_SERVERS,
        verbs=("get",),
    ),
    RoleRule(
        why="It holds the private key of the CA: with it each cluster issues a certificate of its own for a peer with another CA.",
        functions=_OBSERVES,
        resources=("secrets",),
        names=("cilium-ca",),
        verbs=("get",),
        lost="peers with another CA get a copy of a certificate (CM-RBAC-02)",
    ),
    RoleRule(
        why="Address at which peers dial.",
        functions=_OBSERVES,
        resources=("services",),
        names=("clustermesh-apiserver",),
        verbs=("get",),
    ),
    RoleRule(
        why="Version, and whether kvstoremesh runs.",
        functions=EVERY,
        group="apps",
        resources=("deployments",),
        names=("clustermesh-apiserver",),
        verbs=("get",),
    ),
    RoleRule(why="Version of the agents.", functions=EVERY, group="apps", resources=("daemonsets",), names=("cilium",), verbs=("get",)),
    RoleRule(why="Pods of the agents and of the mesh etcd.", functions=EVERY, resources=("pods",), verbs=("list",)),
    RoleRule(
        why="cilium-operator and Hubble.",
        functions=_OBSERVES,
        group="apps",
        resources=("deployments",),
        verbs=("list",),
        lost=_LEFT_OUT,
    ),
    RoleRule(
        why="Keys of IPsec, to compare their digests.",
        functions=_OBSERVES,
        resources=("secrets",),
        names=("{ipsec}",),
        verbs=("get",),
        only=frozenset({Only.IPSEC}),
        lost=_LEFT_OUT,
    ),
    RoleRule(
        why="CA bundle, which replaces the CA of Cilium's own Secrets.",
        functions=_OBSERVES,
        resources=("configmaps",),
        names=("{bundle}",),
        verbs=("get",),
        only=frozenset({Only.BUNDLE_CONFIG_MAP}),
        lost=_LEFT_OUT,
    ),
    RoleRule(
        why="CA bundle, which replaces the CA of Cilium's own Secrets.",
        functions=_OBSERVES,
        resources=("secrets",),
        names=("{bundle}",),
        verbs=("get",),
        only=frozenset({Only.BUNDLE_SECRET}),
        lost=_LEFT_OUT,
    ),
    # To measure.
    RoleRule(
        why="Metrics of kvstoremesh. It is asked by a command where this is missing.",
        functions=_MEASURES,
        resources=("pods/proxy",),
        verbs=("get",),
        lost="kvstoremesh is asked by pods/exec alone",
    ),
    RoleRule(
        why="Status of the agents and of kvstoremesh, and a new connection over each link, as cilium status does.",
        functions=_MEASURES,
        resources=("pods/exec",),
        verbs=("get", "create"),
    ),
    # To write anything.
    RoleRule(
        why="Lock of the mesh: one run at a time writes.",
        functions=_WRITES,
        group="coordination.k8s.io",
        resources=("leases",),
        names=(_LEASES,),
        verbs=("get", "list", *_WRITTEN),
    ),
    # To connect and disconnect.
    RoleRule(
        why="Configuration of the peers.",
        functions=_LINKS,
        resources=("secrets",),
        names=("cilium-clustermesh", "cilium-kvstoremesh"),
        verbs=_WRITTEN,
    ),
    RoleRule(
        why="Users of the mesh etcd, one for each peer.",
        functions=_LINKS,
        resources=("configmaps",),
        names=("clustermesh-remote-users",),
        verbs=_WRITTEN,
    ),
    RoleRule(
        why="Leases of names and ids in the mesh.",
        functions=_LINKS | _IDENTITY,
        resources=("configmaps",),
        names=(_LEASES,),
        verbs=_WRITTEN,
    ),
    RoleRule(
        why="Annotation that names the reserved load balancer.",
        functions=_LINKS,
        resources=("services",),
        names=("clustermesh-apiserver",),
        verbs=("patch",),
        only=frozenset({Only.RESERVED_BALANCER}),
    ),
    RoleRule(
        why="Host aliases of the pod that dials the peers.",
        functions=_LINKS,
        group="apps",
        resources=("deployments",),
        names=("clustermesh-apiserver",),
        verbs=("patch",),
        only=frozenset({Only.ALIASES_IN_APISERVER}),
    ),
    RoleRule(
        why="Host aliases of the pods that dial the peers.",
        functions=_LINKS,
        group="apps",
        resources=("daemonsets",),
        names=("cilium",),
        verbs=("patch",),
        only=frozenset({Only.ALIASES_IN_AGENTS}),
    ),
    # To assign names and ids.
    RoleRule(
        why="Leases of other meshes in this cluster. RBAC cannot limit list to names.",
        functions=_IDENTITY,
        resources=("configmaps",),
        verbs=("list",),
        lost="identity says that it does not know the leases of other meshes",
    ),
    RoleRule(why="Name and id of the cluster.", functions=_IDENTITY, resources=("configmaps",), names=("cilium-config",), verbs=("patch",)),
    RoleRule(
        why="Certificates for the new name.",
        functions=_IDENTITY,
        resources=("secrets",),
        names=("clustermesh-apiserver-admin-cert", "clustermesh-apiserver-local-cert", _REMOTE),
        verbs=("patch",),
    ),
    RoleRule(
        why="Restart with the new name and id.",
        functions=_IDENTITY,
        group="apps",
        resources=("deployments",),
        names=("cilium-operator", "clustermesh-apiserver"),
        verbs=("get", "patch"),
    ),
    RoleRule(
        why="Restart with the new name and id.",
        functions=_IDENTITY,
        group="apps",
        resources=("daemonsets",),
        names=("cilium",),
        verbs=("patch",),
    ),
    # Certificates and CAs.
    RoleRule(
        why="Method by which certificates are issued.",
        functions=_CA,
        group="batch",
        resources=("cronjobs",),
        names=("clustermesh-apiserver-generate-certs",),
        verbs=("get",),
        lost="the report says that it does not know who issues certificates",
    ),
    RoleRule(
        why="Method by which certificates are issued. The API server refuses the question also where there is no cert-manager.",
        functions=_CA,
        group=_CERT_MANAGER,
        resources=("certificates",),
        verbs=("list",),
        lost="the report says that it does not know who issues certificates",
    ),
    RoleRule(
        why="CA of an Issuer.",
        functions=_CA,
        group=_CERT_MANAGER,
        resources=("issuers",),
        verbs=("get",),
        only=frozenset({Only.CERT_MANAGER}),
        lost="the report says that it does not know who issues certificates",
    ),
    RoleRule(
        why="New certificates, and the CA.",
        functions=_CA,
        resources=("secrets",),
        names=("cilium-ca", *_SERVERS, _REMOTE),
        verbs=("patch",),
    ),
    RoleRule(
        why="Both CAs with their keys, until the roll is done.",
        functions=_CA,
        resources=("secrets",),
        names=("cilium-mesh-next-ca-{owner}",),
        verbs=("get", "patch", "delete"),
    ),
    RoleRule(why="To make that Secret. RBAC cannot limit create to names.", functions=_CA, resources=("secrets",), verbs=("create",)),
    RoleRule(
        why="Certificate that the mesh etcd presents while a CA is rolled.",
        functions=_CA,
        resources=("pods/portforward",),
        verbs=("get", "create"),
    ),
    RoleRule(
        why="Two rolling restarts of the mesh etcd.",
        functions=_CA,
        group="apps",
        resources=("deployments",),
        names=("clustermesh-apiserver",),
        verbs=("patch",),
    ),
    RoleRule(
        why="Whether certgen is issuing.",
        functions=_CA,
        group="batch",
        resources=("jobs",),
        names=("cilium-mesh-reissue-{owner}",),
        verbs=("get",),
    ),
    RoleRule(
        why="To have certgen issue again.",
        functions=_CA,
        group="batch",
        resources=("jobs",),
        names=("cilium-mesh-reissue-{owner}",),
        verbs=("delete",),
        only=frozenset({Only.CERTGEN}),
    ),
    RoleRule(
        why="To have certgen issue again. RBAC cannot limit create to names.",
        functions=_CA,
        group="batch",
        resources=("jobs",),
        verbs=("create",),
        only=frozenset({Only.CERTGEN}),
    ),
    RoleRule(
        why="To have cert-manager issue again.",
        functions=_CA,
        group=_CERT_MANAGER,
        resources=("certificates/status",),
        verbs=("patch",),
        only=frozenset({Only.CERT_MANAGER}),
    ),
    # To read what items are about.
    *(
        RoleRule(
            why=why, functions=functions, scope=RuleScope.CLUSTER, group=group, resources=resources, verbs=("list",), only=only, lost=lost
        )
        for why, group, resources, kinds, api, lost in (
            ("Namespaces that items name.", "", ("namespaces",), (Only.GLOBAL_SERVICES, Only.INTENTS, Only.EXPOSURES), None, ""),
            ("Services that items name.", "", ("services",), (Only.GLOBAL_SERVICES, Only.EXPOSURES), None, ""),
            ("Their endpoints.", "discovery.k8s.io", ("endpointslices",), (Only.GLOBAL_SERVICES, Only.EXPOSURES), None, ""),
            (
                "Policies that are there.",
                _CILIUM,
                ("ciliumnetworkpolicies", "ciliumclusterwidenetworkpolicies"),
                (Only.INTENTS, Only.EXPOSURES),
                None,
                "",
            ),
            (
                "Impact of a policy. Only metadata of pods is requested, which RBAC cannot separate from the whole.",
                "",
                ("pods",),
                (Only.INTENTS,),
                None,
                "the impact of a policy is not reported",
            ),
            (
                "Impact of a policy.",
                "networking.k8s.io",
                ("networkpolicies",),
                (Only.INTENTS,),
                None,
                "the impact of a policy is not reported",
            ),
            (
                "Exports and imports that are there.",
                _MCS,
                ("serviceexports", "serviceimports"),
                (Only.GLOBAL_SERVICES,),
                Only.MCS_API,
                "items that use neither MCS-API nor the Gateway API are carried out",
            ),
            (
                "Gateways and routes that are there.",
                _GATEWAY,
                ("gatewayclasses", "gateways", "httproutes"),
                (Only.EXPOSURES,),
                Only.GATEWAY_API,
                "items that use neither MCS-API nor the Gateway API are carried out",
            ),
        )
        for functions, only in (
            (_EXPLAIN, frozenset({api} if api else ())),
            *((_ITEMS, frozenset({kind, *({api} if api else ())})) for kind in kinds),
        )
    ),
    RoleRule(
        why="Identity and labels of the pod in question.",
        functions=_EXPLAIN,
        scope=RuleScope.CLUSTER,
        group=_CILIUM,
        resources=("ciliumendpoints",),
        verbs=("get",),
    ),
    # To write items.
    RoleRule(
        why="Annotations of the Services that are global.",
        functions=_ITEMS,
        scope=RuleScope.ITEMS,
        resources=("services",),
        verbs=("patch",),
        only=frozenset({Only.GLOBAL_SERVICES}),
    ),
    *(
        RoleRule(
            why=why,
            functions=_ITEMS,
            scope=RuleScope.ITEMS,
            group=group,
            resources=resources,
            verbs=_WRITTEN,
            only=frozenset({circumstance}),
        )
        for why, group, resources, circumstance in (
            ("Services without pods, in clusters that have none of that name.", "", ("services",), Only.CREATES_SERVICES),
            ("Services of the exposed services.", "", ("services",), Only.SERVICES),
            ("Exports of global services.", _MCS, ("serviceexports",), Only.EXPORTS),
            ("Policies of the intents.", _CILIUM, ("ciliumnetworkpolicies", "ciliumclusterwidenetworkpolicies"), Only.INTENTS),
            ("Policies that let the source ranges in.", _CILIUM, ("ciliumnetworkpolicies",), Only.RANGES),
            ("Gateways of the exposed services.", _GATEWAY, ("gateways", "httproutes"), Only.GATEWAYS),
        )
    ),
    *(
        RoleRule(
            why=why, functions=_ITEMS, scope=RuleScope.ITEMS, group=group, resources=resources, verbs=verbs, only=frozenset({Only.PROBES})
        )
        for why, group, resources, verbs in (
            (
                "Jobs that probe an intent. Who may create Jobs may use every ServiceAccount and Secret of the namespace.",
                "batch",
                ("jobs",),
                ("list", "get", "create", "delete"),
            ),
            ("Whether a Service would send traffic to the pod of the Job.", "", ("services",), ("list",)),
        )
    ),
)
"""All rules, in the order in which a manifest has them."""
