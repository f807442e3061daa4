// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3"
)

// What node health probes: cilium-health of a node, and a health endpoint in its pod network, which is reached through the tunnel. The lab has
// no pod network; a datagram to the tunnel's port of the node goes the way that the tunnel's packets would go.
const (
	healthPort   = 4240
	tunnelPort   = 8472
	probeTimeout = time.Second
)

// The JSON of `cilium-health status -o json` (cilium: api/v1/health/models/{health_status_response,node_status,host_status,endpoint_status,
// path_status,connectivity_status}.go). A probe that succeeded has no status.
type healthStatus struct {
	Local struct {
		Name string `json:"name,omitempty"`
	} `json:"local"`
	Nodes     []nodeStatus `json:"nodes"`
	Timestamp string       `json:"timestamp,omitempty"`
}

type nodeStatus struct {
	Name           string    `json:"name,omitempty"`
	Host           addresses `json:"host"`
	HealthEndpoint addresses `json:"health-endpoint"`
}

type addresses struct {
	Primary pathStatus `json:"primary-address"`
}

type pathStatus struct {
	IP   string        `json:"ip,omitempty"`
	HTTP *connectivity `json:"http,omitempty"`
}

type connectivity struct {
	LastProbed string `json:"lastProbed,omitempty"`
	Latency    int64  `json:"latency,omitempty"`
	Status     string `json:"status,omitempty"`
}

// peerNode is what a cluster publishes of a node (cilium: pkg/node/types/node.go).
type peerNode struct {
	Name        string
	Cluster     string
	IPAddresses []struct {
		Type string
		IP   string
	}
}

// runHealth probes the nodes of all peers now, where a real cilium-health answers with its last probes.
func runHealth(arguments []string) error {
	if !slices.Equal(arguments, []string{"status", "-o", "json"}) {
		return errors.New("the lab's agent answers only: cilium-health status -o json")
	}
	configurations, err := findConfigurations(cmp.Or(os.Getenv("CILIUM_CLUSTERMESH_CONFIG"), defaultFolder), os.Getenv("LAB_CLUSTER_NAME"))
	if err != nil {
		return err
	}
	answer := healthStatus{Nodes: []nodeStatus{}, Timestamp: time.Now().UTC().Format(time.RFC3339)}
	answer.Local.Name = path.Join(os.Getenv("LAB_CLUSTER_NAME"), os.Getenv("LAB_NODE_NAME"))
	nodes := nodesOfPeers(configurations)
	answer.Nodes = slices.Grow(answer.Nodes, len(nodes))[:len(nodes)]
	var wait sync.WaitGroup
	for index, node := range nodes {
		wait.Go(func() { answer.Nodes[index] = probeNode(node) })
	}
	wait.Wait()
	content, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	fmt.Println(string(content))
	return nil
}

// nodesOfPeers reads the nodes that the peers publish, from where an agent has them. A peer that cannot be asked has none here; an agent goes on
// probing the nodes that it learned before.
func nodesOfPeers(configurations []configuration) []peerNode {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	found := make([][]peerNode, len(configurations))
	var wait sync.WaitGroup
	for index, item := range configurations {
		wait.Go(func() { found[index] = nodesOf(ctx, item) })
	}
	wait.Wait()
	return slices.Concat(found...)
}

func nodesOf(ctx context.Context, item configuration) []peerNode {
	client, err := connect(ctx, item)
	if err != nil {
		return nil
	}
	defer client.Close()
	config, err := readConfig(ctx, client, item.cluster)
	if err != nil {
		return nil
	}
	tree := statePrefix
	if config.Capabilities.Cached {
		tree = cachePrefix
	}
	reply, err := client.Get(ctx, path.Join(tree, "nodes/v1", item.cluster)+"/", clientv3.WithPrefix())
	if err != nil {
		return nil
	}
	var nodes []peerNode
	for _, entry := range reply.Kvs {
		var node peerNode
		if json.Unmarshal(entry.Value, &node) == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func probeNode(node peerNode) nodeStatus {
	answer := nodeStatus{Name: path.Join(node.Cluster, node.Name)}
	for _, address := range node.IPAddresses {
		if address.Type == "InternalIP" {
			answer.Host.Primary.IP = address.IP
			break
		}
	}
	ip := answer.Host.Primary.IP
	answer.HealthEndpoint.Primary.IP = ip
	if ip == "" {
		return answer
	}
	var wait sync.WaitGroup
	wait.Go(func() { answer.Host.Primary.HTTP = timed(func() error { return greet(ip) }) })
	wait.Go(func() { answer.HealthEndpoint.Primary.HTTP = timed(func() error { return echo(ip) }) })
	wait.Wait()
	return answer
}

func timed(probe func() error) *connectivity {
	start := time.Now()
	err := probe()
	result := &connectivity{LastProbed: time.Now().UTC().Format(time.RFC3339)}
	if err != nil {
		result.Status = strings.ReplaceAll(err.Error(), "\n", " ")
	} else {
		result.Latency = max(1, time.Since(start).Nanoseconds())
	}
	return result
}

func greet(ip string) error {
	client := http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := client.Get("http://" + net.JoinHostPort(ip, strconv.Itoa(healthPort)) + "/hello")
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return errors.New(reply.Status)
	}
	return nil
}

// echo sends a datagram to the tunnel's port, and waits for it to come back.
func echo(ip string) error {
	connection, err := net.DialTimeout("udp", net.JoinHostPort(ip, strconv.Itoa(tunnelPort)), probeTimeout)
	if err != nil {
		return err
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(probeTimeout))
	packet := []byte(strconv.FormatInt(time.Now().UnixNano(), 36))
	if _, err := connection.Write(packet); err != nil {
		return err
	}
	back := make([]byte, 64)
	size, err := connection.Read(back)
	if err != nil {
		return err
	}
	if !bytes.Equal(packet, back[:size]) {
		return errors.New("what came back is not what was sent")
	}
	return nil
}
