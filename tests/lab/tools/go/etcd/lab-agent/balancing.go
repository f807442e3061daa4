// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// rules is how agents of a version choose among backends.
type rules struct {
	// Up to 1.17 every backend is listed, and the datapath takes the active preferred ones if there are any (1.16: correlateEndpoints in
	// pkg/k8s/service_cache.go, segregateBackends in pkg/service/service.go). From 1.18 on only those that are used are listed, all as
	// preferred (pkg/clustermesh/selectbackends.go, Frontend.ToModel in pkg/loadbalancer/frontend.go).
	listsAll bool
}

type backend struct {
	address   netip.Addr
	port      exportedPort
	names     []string // of the port
	node      string
	cluster   string // "" for the own one
	state     string // "active", "terminating"
	preferred bool
}

type frontend struct {
	service  service
	address  netip.Addr
	port     servicePort
	backends []backend
}

// balance gives the frontends of the cluster's Services with their backends. ClusterIPs alone are frontends here: node ports and addresses of
// load balancers are Cilium's only where it replaces kube-proxy.
func balance(services []service, endpointSlices []endpointSlice, exported []clusterService, how rules) []frontend {
	var found []frontend
	for _, item := range services {
		candidates := localBackends(item, endpointSlices)
		if annotated(item, "service.cilium.io/global", "io.cilium/global-service") == "true" {
			candidates = append(candidates, remoteBackends(item, exported, candidates)...)
		}
		for _, text := range item.Spec.ClusterIPs {
			address, err := netip.ParseAddr(text)
			if err != nil {
				continue // "None": a headless Service has no frontend
			}
			for _, port := range item.Spec.Ports {
				matching := slices.DeleteFunc(slices.Clone(candidates), func(b backend) bool { return !serves(b, address, port, how) })
				found = append(found, frontend{item, address, port, choose(item, matching, how)})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b frontend) int {
		return cmp.Or(
			strings.Compare(a.service.Metadata.Namespace, b.service.Metadata.Namespace),
			strings.Compare(a.service.Metadata.Name, b.service.Metadata.Name))
	})
	return found
}

// annotated is the value of the newer key if there is one, else of the older, in lower case (cilium: pkg/annotation, Get).
func annotated(item service, key, alias string) string {
	value, found := item.Metadata.Annotations[key]
	if !found {
		value = item.Metadata.Annotations[alias]
	}
	return strings.ToLower(value)
}

func affinity(item service) string {
	return annotated(item, "service.cilium.io/affinity", "io.cilium/service-affinity")
}

// localBackends are endpoints that are ready, or still serve while they end (cilium: ParseEndpointSliceV1 in pkg/k8s/endpoints.go).
func localBackends(item service, endpointSlices []endpointSlice) []backend {
	var found []backend
	for _, entry := range endpointSlices {
		labels := entry.Metadata.Labels
		if entry.Metadata.Namespace != item.Metadata.Namespace || labels["kubernetes.io/service-name"] != item.Metadata.Name {
			continue
		}
		if labels["endpointslice.kubernetes.io/managed-by"] == "endpointslice-mesh-controller.cilium.io" {
			continue // of other clusters
		}
		for _, endpoint := range entry.Endpoints {
			ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
			serving := ready
			if endpoint.Conditions.Serving != nil {
				serving = *endpoint.Conditions.Serving
			}
			if !ready && !serving {
				continue
			}
			state := "active"
			if !ready {
				state = "terminating"
			}
			for _, text := range endpoint.Addresses {
				address, err := netip.ParseAddr(text)
				if err != nil {
					continue // a name: AddressType FQDN
				}
				for _, port := range entry.Ports {
					found = append(found, backend{address: address, port: exportedPort{cmp.Or(port.Protocol, "TCP"), port.Port},
						names: []string{port.Name}, node: endpoint.NodeName, state: state})
				}
			}
		}
	}
	return found
}

// remoteBackends are those of every peer that shares the Service; an address that is also a local one stays local.
func remoteBackends(item service, exported []clusterService, local []backend) []backend {
	var found []backend
	for _, peer := range exported {
		if !peer.Shared || peer.Namespace != item.Metadata.Namespace || peer.Name != item.Metadata.Name {
			continue
		}
		for text, ports := range peer.Backends {
			address := netip.MustParseAddr(text) // parseExported has looked
			if slices.ContainsFunc(local, func(b backend) bool { return b.address == address }) {
				continue
			}
			for name, port := range ports {
				found = append(found, backend{address: address, port: port, names: []string{name}, cluster: peer.Cluster, state: "active"})
			}
		}
	}
	return found
}

// serves tells whether a backend belongs to a frontend: same family, and the port by its name. Up to 1.17 the names have to be equal
// (genCartesianProduct in pkg/k8s/watchers/service.go); later an unnamed side fits all, and the protocol has to be equal (matchesFrontend in
// pkg/loadbalancer/writer/writer.go).
func serves(b backend, address netip.Addr, port servicePort, how rules) bool {
	if b.address.Is6() != address.Is6() {
		return false
	}
	if how.listsAll {
		return slices.Contains(b.names, port.Name)
	}
	named := port.Name == "" || slices.Equal(b.names, []string{""}) || slices.Contains(b.names, port.Name)
	return named && b.port.Protocol == cmp.Or(port.Protocol, "TCP")
}

// choose keeps the backends that are listed, and marks those that are preferred: own ones first, then by cluster and address. An agent lists
// them in no order.
func choose(item service, candidates []backend, how rules) []backend {
	slices.SortFunc(candidates, func(a, b backend) int {
		return cmp.Or(strings.Compare(a.cluster, b.cluster), a.address.Compare(b.address), cmp.Compare(a.port.Port, b.port.Port))
	})
	candidates = slices.CompactFunc(candidates, func(a, b backend) bool { return a.address == b.address && a.port == b.port })
	wanted := affinity(item)
	if how.listsAll {
		global := annotated(item, "service.cilium.io/global", "io.cilium/global-service") == "true"
		for index := range candidates {
			local := candidates[index].cluster == ""
			candidates[index].preferred = global && (wanted == "local" && local || wanted == "remote" && !local)
		}
		return candidates
	}
	active, local, remote := 0, 0, 0
	for _, b := range candidates {
		switch {
		case b.cluster != "":
			remote++
		case b.state == "active":
			active, local = active+1, local+1
		default:
			local++
		}
	}
	useLocal, useRemote := true, true
	switch wanted {
	case "local":
		useRemote = active == 0
	case "remote":
		useLocal = remote == 0 && local > 0
	}
	chosen := slices.DeleteFunc(candidates, func(b backend) bool { return b.cluster == "" && !useLocal || b.cluster != "" && !useRemote })
	for index := range chosen {
		chosen[index].preferred = true
	}
	return chosen
}
