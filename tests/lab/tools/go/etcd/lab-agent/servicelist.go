// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"text/tabwriter"
)

const defaultKubeconfig = "/var/lib/lab/kubeconfig"

// runServiceList answers `cilium service list [--clustermesh-affinity] [-o json]`. Local backends come from the cluster's API and remote ones
// from the etcd that this pod is configured for, both at the moment of asking. Ids are counted from 1: an agent gives them in the order in
// which it meets the frontends, and keeps them.
func runServiceList(arguments []string) error {
	flags := flag.NewFlagSet("service list", flag.ContinueOnError)
	marked := flags.Bool("clustermesh-affinity", false, "Print clustermesh affinity if available")
	var output string
	flags.StringVar(&output, "o", "", "output format: json")
	flags.StringVar(&output, "output", "", "output format: json")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if output != "" && output != "json" {
		return fmt.Errorf("the lab's agent answers only: cilium service list, as a table or -o json")
	}
	how := rules{listsAll: before(os.Getenv("LAB_CILIUM_VERSION"), 1, 18)}
	frontends, err := readFrontends(how)
	if err != nil {
		return fmt.Errorf("Cannot get services list: %w", err)
	}
	if output == "json" {
		return printServicesJSON(os.Stdout, frontends, how)
	}
	printServices(os.Stdout, frontends, *marked, how)
	return nil
}

// before tells whether a version such as "1.16" or "1.16.19" is older than the given minor; one that does not say is not.
func before(version string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(version, "%d.%d", &a, &b); err != nil {
		return false
	}
	return a < major || a == major && b < minor
}

func readFrontends(how rules) ([]frontend, error) {
	api, err := openKubernetes(cmp.Or(os.Getenv("LAB_KUBECONFIG"), defaultKubeconfig))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	services, err := list[service](ctx, api, "/api/v1/services")
	if err != nil {
		return nil, err
	}
	endpointSlices, err := list[endpointSlice](ctx, api, "/apis/discovery.k8s.io/v1/endpointslices")
	if err != nil {
		return nil, err
	}
	configurations, err := findConfigurations(cmp.Or(os.Getenv("CILIUM_CLUSTERMESH_CONFIG"), defaultFolder), os.Getenv("LAB_CLUSTER_NAME"))
	if err != nil {
		return nil, err
	}
	exported, err := readExported(configurations)
	if err != nil {
		return nil, err
	}
	return balance(services, endpointSlices, exported, how), nil
}

// shown is an address as the versions write it: the protocol follows from 1.18 on (cilium: L3n4Addr.String in pkg/loadbalancer/loadbalancer.go).
func shown(address netip.Addr, port uint16, protocol string, how rules) string {
	text := netip.AddrPortFrom(address, port).String()
	if how.listsAll {
		return text
	}
	return text + "/" + cmp.Or(protocol, "TCP")
}

// printServices writes the table of cilium-dbg/cmd/service_list.go, the same from 1.13 to 1.20.
func printServices(out io.Writer, frontends []frontend, marked bool, how rules) {
	table := tabwriter.NewWriter(out, 5, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ID\tFrontend\tService Type\tBackend\t")
	for index, item := range frontends {
		start := fmt.Sprintf("%d\t%s\t%s", index+1, shown(item.address, item.port.Port, item.port.Protocol, how), "ClusterIP")
		if len(item.backends) == 0 {
			fmt.Fprintf(table, "%s\t\t\n", start)
		}
		for number, b := range item.backends {
			mark := ""
			if marked && b.preferred {
				mark = " (preferred)"
			}
			fmt.Fprintf(table, "%s\t%d => %s (%s)%s\t\n", start, number+1, shown(b.address, b.port.Port, b.port.Protocol, how), b.state, mark)
			start = "\t\t"
		}
	}
	table.Flush()
}

// The JSON of `cilium service list -o json` (cilium: api/v1/models/{service,service_spec,frontend_address,backend_address}.go).

type serviceModel struct {
	Spec   serviceSpec `json:"spec"`
	Status struct {
		Realized serviceSpec `json:"realized"`
	} `json:"status"`
}

type serviceSpec struct {
	BackendAddresses []backendAddress `json:"backend-addresses"`
	Flags            serviceFlags     `json:"flags"`
	FrontendAddress  frontendAddress  `json:"frontend-address"`
	ID               int              `json:"id,omitempty"`
}

type serviceFlags struct {
	ExtTrafficPolicy string `json:"extTrafficPolicy,omitempty"`
	IntTrafficPolicy string `json:"intTrafficPolicy,omitempty"`
	Name             string `json:"name,omitempty"`
	Namespace        string `json:"namespace,omitempty"`
	TrafficPolicy    string `json:"trafficPolicy,omitempty"`
	Type             string `json:"type,omitempty"`
}

type frontendAddress struct {
	IP       string `json:"ip,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Scope    string `json:"scope,omitempty"`
}

type backendAddress struct {
	IP        string `json:"ip"`
	NodeName  string `json:"nodeName,omitempty"`
	Port      uint16 `json:"port,omitempty"`
	Preferred bool   `json:"preferred,omitempty"`
	Protocol  string `json:"protocol,omitempty"` // not in 1.16
	State     string `json:"state,omitempty"`
	Weight    uint16 `json:"weight"`
}

const backendWeight = 100 // cilium: DefaultBackendWeight

func printServicesJSON(out io.Writer, frontends []frontend, how rules) error {
	models := make([]serviceModel, len(frontends))
	for index, item := range frontends {
		external := cmp.Or(item.service.Spec.ExternalTrafficPolicy, "Cluster")
		spec := serviceSpec{
			ID:              index + 1,
			FrontendAddress: frontendAddress{item.address.String(), item.port.Port, cmp.Or(item.port.Protocol, "TCP"), "external"},
			Flags: serviceFlags{
				ExtTrafficPolicy: external,
				IntTrafficPolicy: cmp.Or(item.service.Spec.InternalTrafficPolicy, "Cluster"),
				Name:             item.service.Metadata.Name,
				Namespace:        item.service.Metadata.Namespace,
				TrafficPolicy:    external,
				Type:             "ClusterIP",
			},
		}
		for _, b := range item.backends {
			protocol := b.port.Protocol
			if how.listsAll {
				protocol = ""
			}
			spec.BackendAddresses = append(spec.BackendAddresses,
				backendAddress{b.address.String(), b.node, b.port.Port, b.preferred, protocol, b.state, backendWeight})
		}
		models[index].Spec, models[index].Status.Realized = spec, spec
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(models)
}
