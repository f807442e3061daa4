// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strings"
	"sync"

	"go.etcd.io/etcd/client/v3"
)

// clusterService is what a cluster tells its peers of a Service (cilium: ClusterService in pkg/service/store/store.go up to 1.18, in
// pkg/clustermesh/store/store.go from 1.19 on). The fields are those of 1.15 to 1.20; one that is not known here is an error.
type clusterService struct {
	Cluster         string                     `json:"cluster"`
	Namespace       string                     `json:"namespace"`
	Name            string                     `json:"name"`
	Frontends       map[string]exportedPorts   `json:"frontends"`
	Backends        map[string]exportedPorts   `json:"backends"`
	Hostnames       map[string]string          `json:"hostnames"`
	Zones           map[string]json.RawMessage `json:"zones"`
	Labels          map[string]string          `json:"labels"`
	Selector        map[string]string          `json:"selector"`
	IncludeExternal bool                       `json:"includeExternal"`
	Shared          bool                       `json:"shared"`
	ClusterID       uint32                     `json:"clusterID"`
}

// exportedPorts are ports by name (cilium: PortConfiguration).
type exportedPorts map[string]exportedPort

type exportedPort struct {
	Protocol string `json:"Protocol"`
	Port     uint16 `json:"Port"`
}

// readExported reads what all peers export. An agent watches these keys and keeps what it saw when a connection is lost; this program starts
// anew each time, so a peer that cannot be asked is an error and not an empty answer. With kvstoremesh it never comes to that: then the
// pod's own kvstoremesh is asked, which keeps what it saw.
func readExported(configurations []configuration) ([]clusterService, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	found := make([][]clusterService, len(configurations))
	failures := make([]error, len(configurations))
	var wait sync.WaitGroup
	for index, item := range configurations {
		wait.Go(func() { found[index], failures[index] = readExportedBy(ctx, item) })
	}
	wait.Wait()
	var all []clusterService
	for index, services := range found {
		if failures[index] != nil {
			failures[index] = fmt.Errorf("what %s exports cannot be read now (an agent would show what it last saw): %w",
				configurations[index].cluster, failures[index])
		}
		all = append(all, services...)
	}
	return all, errors.Join(failures...)
}

func readExportedBy(ctx context.Context, item configuration) ([]clusterService, error) {
	client, err := connect(ctx, item)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	config, err := readConfig(ctx, client, item.cluster)
	if err != nil {
		return nil, err
	}
	tree := statePrefix
	if config.Capabilities.Cached {
		tree = cachePrefix
	}
	prefix := path.Join(tree, "services/v1", item.cluster) + "/"
	reply, err := client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", prefix, err)
	}
	var found []clusterService
	for _, entry := range reply.Kvs {
		service, err := parseExported(item.cluster, strings.TrimPrefix(string(entry.Key), prefix), entry.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Key, err)
		}
		found = append(found, service)
	}
	return found, nil
}

// parseExported makes the checks that Cilium makes (Unmarshal, validate, ClusterNameValidator, NamespacedNameValidator in store.go).
func parseExported(cluster, key string, value []byte) (clusterService, error) {
	var service clusterService
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&service); err != nil {
		return service, err
	}
	if service.Cluster != cluster {
		return service, fmt.Errorf("unexpected cluster name: got %s, expected %s", service.Cluster, cluster)
	}
	if service.Namespace+"/"+service.Name != key {
		return service, fmt.Errorf("namespaced name does not match key: got %s/%s, expected %s", service.Namespace, service.Name, key)
	}
	for _, addresses := range []map[string]exportedPorts{service.Frontends, service.Backends} {
		for address := range addresses {
			if _, err := netip.ParseAddr(address); err != nil {
				return service, err
			}
		}
	}
	return service, nil
}
