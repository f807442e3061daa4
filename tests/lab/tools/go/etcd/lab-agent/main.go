// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

// Command lab-agent stands in for the cilium binary of an agent pod. The agent itself cannot run without its datapath; what it says about
// its peers can still be true: every answer comes from an etcd connection made, at the moment of asking, with the files of this pod.
//
//	cilium status -o json [--verbose]
//	cilium troubleshoot clustermesh [--timeout=5s] [CLUSTER...]
//	cilium service list [--clustermesh-affinity] [-o json]
//	cilium-health status -o json          under that name
//
// Environment:
//
//	LAB_CLUSTER_NAME           own cluster-name; a configuration of that name is ignored, as Cilium does
//	LAB_NODE_NAME              own node, for node health
//	LAB_CILIUM_VERSION         Cilium's version, such as 1.18: agents list Services in two ways
//	LAB_KUBECONFIG             kubeconfig of the own cluster; /var/lib/lab/kubeconfig when unset
//	LAB_HOST_ALIASES           "false": cilium-host-aliases are ignored, as before Cilium 1.20
//	CILIUM_CLUSTERMESH_CONFIG  folder of the peers' configurations; /var/lib/cilium/clustermesh/ when unset
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	defaultFolder = "/var/lib/cilium/clustermesh/"
	// One limit for all peers together: they are asked in parallel. A frozen peer costs this much; callers run us through exec.
	timeout = 2 * time.Second
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if filepath.Base(os.Args[0]) == "cilium-health" {
		return runHealth(arguments)
	}
	if len(arguments) > 1 && arguments[0] == "troubleshoot" && arguments[1] == "clustermesh" {
		return runTroubleshoot(arguments[2:])
	}
	if len(arguments) > 1 && arguments[0] == "service" && (arguments[1] == "list" || arguments[1] == "ls") {
		return runServiceList(arguments[2:])
	}
	if len(arguments) == 0 || arguments[0] != "status" {
		return fmt.Errorf("the lab's agent answers only: cilium status -o json, cilium troubleshoot clustermesh, and cilium service list")
	}
	flags := flag.NewFlagSet("status", flag.ContinueOnError)
	var output string
	flags.StringVar(&output, "o", "", "output format: json")
	flags.StringVar(&output, "output", "", "output format: json")
	flags.Bool("verbose", false, "accepted; the answer is complete without it")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	if output != "json" {
		return fmt.Errorf("the lab's agent answers only: cilium status -o json")
	}
	configurations, err := findConfigurations(cmp.Or(os.Getenv("CILIUM_CLUSTERMESH_CONFIG"), defaultFolder), os.Getenv("LAB_CLUSTER_NAME"))
	if err != nil {
		return err
	}
	answer, err := json.Marshal(agentStatus{ClusterMesh: askPeers(configurations), Cilium: state{State: "Ok"}})
	if err != nil {
		return err
	}
	fmt.Println(string(answer))
	return nil
}

func runTroubleshoot(arguments []string) error {
	flags := flag.NewFlagSet("troubleshoot", flag.ContinueOnError)
	limit := flags.Duration("timeout", 5*time.Second, "how long to try each cluster")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	configurations, err := findConfigurations(cmp.Or(os.Getenv("CILIUM_CLUSTERMESH_CONFIG"), defaultFolder), os.Getenv("LAB_CLUSTER_NAME"))
	if err != nil {
		return err
	}
	troubleshoot(os.Stdout, configurations, *limit, flags.Args())
	return nil
}
