// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

// The JSON of `cilium status -o json`, as far as it speaks of the mesh. Names and omitempty are those of Cilium's API models
// (cilium: api/v1/models/{status_response,cluster_mesh_status,remote_cluster,remote_cluster_config,remote_cluster_synced}.go), the same in
// 1.15 and 1.20: a false flag and a zero count are absent.

type agentStatus struct {
	ClusterMesh clusterMesh `json:"cluster-mesh"`
	Cilium      state       `json:"cilium"`
}

type state struct {
	State string `json:"state"`
}

type clusterMesh struct {
	Clusters          []remoteCluster `json:"clusters"`                      // null when there is none
	NumGlobalServices int             `json:"num-global-services,omitempty"` // of 1.18 and older
}

type remoteCluster struct {
	Name              string        `json:"name,omitempty"`
	Ready             bool          `json:"ready,omitempty"`
	Connected         bool          `json:"connected,omitempty"`
	Status            string        `json:"status,omitempty"`
	NumNodes          int64         `json:"num-nodes,omitempty"`
	NumEndpoints      int64         `json:"num-endpoints,omitempty"`
	NumIdentities     int64         `json:"num-identities,omitempty"`
	NumSharedServices int64         `json:"num-shared-services,omitempty"`
	NumFailures       int64         `json:"num-failures,omitempty"`
	LastFailure       string        `json:"last-failure"` // a time; zeroTime when there was no failure
	Config            *remoteConfig `json:"config,omitempty"`
	Synced            remoteSynced  `json:"synced"`

	services []string // names, for the number of global services
}

type remoteConfig struct {
	Required     bool   `json:"required,omitempty"`
	Retrieved    bool   `json:"retrieved,omitempty"`
	ClusterID    uint32 `json:"cluster-id,omitempty"`
	Kvstoremesh  bool   `json:"kvstoremesh,omitempty"`
	SyncCanaries bool   `json:"sync-canaries,omitempty"`
	// Of 1.17 and newer, and null where the peer is older.
	ServiceExportsEnabled *bool `json:"service-exports-enabled,omitempty"`
}

type remoteSynced struct {
	Nodes      bool `json:"nodes,omitempty"`
	Endpoints  bool `json:"endpoints,omitempty"`
	Identities bool `json:"identities,omitempty"`
	Services   bool `json:"services,omitempty"`
}

func (s remoteSynced) all() bool { return s.Nodes && s.Endpoints && s.Identities && s.Services }

// How go-openapi's strfmt.DateTime writes a time, and one that was never set.
const (
	timeLayout = "2006-01-02T15:04:05.000Z"
	zeroTime   = "0001-01-01T00:00:00.000Z"
)
