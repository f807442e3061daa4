// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3"
)

// Keys as Cilium lays them out, the same in every release (pkg/kvstore/kvstore.go; prefixes in pkg/{node,service}/store/store.go, pkg/ipcache/kvstore.go,
// pkg/identity/cache/allocator.go; pkg/clustermesh/remote_cluster.go puts them together).
const (
	heartbeatKey  = "cilium/.heartbeat"
	configPrefix  = "cilium/cluster-config"
	syncedPrefix  = "cilium/synced"
	statePrefix   = "cilium/state"
	cachePrefix   = "cilium/cache"
	addressSpace  = "default" // of pkg/ipcache/kvstore.go
	waitingStatus = "Waiting for initial connection to be established"
)

// clusterConfig is what a cluster publishes about itself (cilium: pkg/clustermesh/types/types.go, CiliumClusterConfig).
type clusterConfig struct {
	ID           uint32 `json:"id"`
	Capabilities struct {
		SyncedCanaries        bool  `json:"syncedCanaries"`
		Cached                bool  `json:"cached"`
		ServiceExportsEnabled *bool `json:"serviceExportsEnabled"`
	} `json:"capabilities"`
}

const (
	dialedAtOnce = 32                    // connections that are being made; each costs a handshake on both sides
	askedAtOnce  = 16                    // peers that one connection is asked about
	perPeer      = 20 * time.Millisecond // more than a peer costs where all answer
)

// askPeers asks all peers in parallel. Peers with equal client files share a connection: agents read all of them from their own kvstoremesh,
// and a real agent has its connections already when it is asked.
func askPeers(configurations []configuration) clusterMesh {
	ctx, cancel := context.WithTimeout(context.Background(), timeout+time.Duration(len(configurations))*perPeer)
	defer cancel()
	if len(configurations) == 0 {
		return clusterMesh{}
	}
	answer := clusterMesh{Clusters: make([]remoteCluster, len(configurations))}
	dialing := make(chan struct{}, dialedAtOnce)
	var wait sync.WaitGroup
	for _, places := range byContent(configurations) {
		wait.Go(func() {
			dialing <- struct{}{}
			client, err := connect(ctx, configurations[places[0]])
			<-dialing
			if client != nil {
				defer client.Close()
			}
			asking := make(chan struct{}, askedAtOnce)
			var asked sync.WaitGroup
			for _, place := range places {
				asked.Go(func() {
					asking <- struct{}{}
					answer.Clusters[place] = askPeer(ctx, configurations[place], client, err)
					<-asking
				})
			}
			asked.Wait()
		})
	}
	wait.Wait()
	global := map[string]struct{}{}
	for _, cluster := range answer.Clusters {
		for _, service := range cluster.services {
			global[service] = struct{}{}
		}
	}
	if version := os.Getenv("LAB_CILIUM_VERSION"); before(version, 1, 19) {
		answer.NumGlobalServices = len(global)
	}
	return answer
}

// askPeer never fails: what went wrong is the answer. A Cilium agent shows only waitingStatus until it is connected and leaves the reason to
// its log and to `cilium troubleshoot`; here the reason follows it after a colon.
func askPeer(ctx context.Context, item configuration, client *clientv3.Client, err error) remoteCluster {
	answer := remoteCluster{Name: item.cluster, LastFailure: zeroTime}
	fail := func(status string) remoteCluster {
		answer.Status = status
		answer.NumFailures = 1
		answer.LastFailure = time.Now().UTC().Format(timeLayout)
		return answer
	}
	if err != nil {
		return fail(waitingStatus + ": " + err.Error())
	}
	reply, err := client.Get(ctx, heartbeatKey)
	if err != nil {
		return fail(waitingStatus + ": " + err.Error())
	}
	answer.Connected = true
	answer.Status = fmt.Sprintf("etcd: 1/1 connected, leases=0, lock leases=0, has-quorum=true: endpoint status checks are disabled, ID: %x",
		reply.Header.ClusterId)
	answer.Config = &remoteConfig{Required: true}
	config, err := readConfig(ctx, client, item.cluster)
	if err != nil {
		return fail(answer.Status + "; remote cluster configuration required but not found: " + err.Error())
	}
	answer.Config.Retrieved = true
	answer.Config.ClusterID = config.ID
	answer.Config.Kvstoremesh = config.Capabilities.Cached
	answer.Config.SyncCanaries = config.Capabilities.SyncedCanaries
	if !before(os.Getenv("LAB_CILIUM_VERSION"), 1, 17) {
		answer.Config.ServiceExportsEnabled = config.Capabilities.ServiceExportsEnabled
	}
	if err := readState(ctx, client, config, &answer); err != nil {
		return fail(answer.Status + "; " + err.Error())
	}
	answer.Ready = answer.Synced.all()
	return answer
}

func readConfig(ctx context.Context, client *clientv3.Client, cluster string) (*clusterConfig, error) {
	key := path.Join(configPrefix, cluster)
	reply, err := client.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if len(reply.Kvs) == 0 {
		return nil, fmt.Errorf("%s: no such key", key)
	}
	var config clusterConfig
	if err := json.Unmarshal(reply.Kvs[0].Value, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return &config, nil
}

// kind is one of the four families of keys that an agent watches in a peer.
type kind struct {
	prefix string // below cilium/state or cilium/cache; also the name of its canary
	direct string // what follows the prefix when the keys are the peer's own
	cached string // what follows PREFIX/CLUSTER when they are a kvstoremesh's copy
	count  *int64
	synced *bool
}

func readState(ctx context.Context, client *clientv3.Client, config *clusterConfig, answer *remoteCluster) error {
	kinds := []kind{
		{"nodes/v1", answer.Name, "", &answer.NumNodes, &answer.Synced.Nodes},
		{"services/v1", answer.Name, "", &answer.NumSharedServices, &answer.Synced.Services},
		{"identities/v1", "id", "id", &answer.NumIdentities, &answer.Synced.Identities},
		{"ip/v1", addressSpace, "", &answer.NumEndpoints, &answer.Synced.Endpoints},
	}
	for _, k := range kinds {
		base := path.Join(statePrefix, k.prefix)
		prefix := path.Join(base, k.direct) + "/"
		if config.Capabilities.Cached {
			base = path.Join(cachePrefix, k.prefix)
			prefix = path.Join(base, answer.Name, k.cached) + "/"
		}
		if config.Capabilities.SyncedCanaries {
			canary := path.Join(syncedPrefix, answer.Name, base)
			reply, err := client.Get(ctx, canary, clientv3.WithCountOnly())
			if err != nil {
				return fmt.Errorf("%s: %w", canary, err)
			}
			if reply.Count == 0 {
				continue // not synchronised yet: an agent does not list the keys before it sees the canary
			}
		}
		reply, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("%s: %w", prefix, err)
		}
		*k.count, *k.synced = reply.Count, true
		if k.count == &answer.NumSharedServices {
			for _, entry := range reply.Kvs {
				answer.services = append(answer.services, strings.TrimPrefix(string(entry.Key), prefix))
			}
		}
	}
	return nil
}
