// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// configuration is one peer's etcd client file.
type configuration struct {
	cluster string
	path    string
}

// findConfigurations takes every file that contains "endpoints:"; its name is the peer's (cilium: pkg/clustermesh/common/config.go,
// isEtcdConfigFile). A missing folder is an empty one: the projected volume is optional.
func findConfigurations(folder, own string) ([]configuration, error) {
	entries, err := os.ReadDir(folder) // sorted by name
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []configuration
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		content, err := os.ReadFile(path) // follows the links of a projected volume; a folder gives an error
		if err == nil && strings.Contains(string(content), "endpoints:") && entry.Name() != own {
			found = append(found, configuration{cluster: entry.Name(), path: path})
		}
	}
	return found, nil
}

// byContent gives the places of the configurations in groups of those whose files have the same content, in order.
func byContent(configurations []configuration) [][]int {
	var groups [][]int
	group := map[string]int{}
	for place, item := range configurations {
		content, err := os.ReadFile(item.path)
		index, known := group[string(content)]
		if err != nil || !known {
			index = len(groups)
			groups = append(groups, nil)
			group[string(content)] = index
		}
		groups[index] = append(groups[index], place)
	}
	return groups
}

// hostAliases reads Cilium's own addition to the etcd client file, with the checks that Cilium makes (1.20 and newer:
// pkg/clustermesh/common/config.go, ParseCiliumConfig).
func hostAliases(path string) (map[string][]netip.Addr, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read config file: %w", err)
	}
	var parsed struct {
		HostAliases []struct {
			Hostname string       `json:"hostname"`
			IPs      []netip.Addr `json:"ips"`
		} `json:"cilium-host-aliases"`
	}
	if err := yaml.Unmarshal(content, &parsed); err != nil {
		return nil, fmt.Errorf("failed to parse config file: %w", err)
	}
	aliases := make(map[string][]netip.Addr, len(parsed.HostAliases))
	for _, alias := range parsed.HostAliases {
		switch _, seen := aliases[alias.Hostname]; {
		case alias.Hostname == "":
			return nil, errors.New("failed to parse config file: cilium-host-aliases entry has an empty hostname")
		case len(alias.IPs) == 0:
			return nil, fmt.Errorf("failed to parse config file: cilium-host-aliases entry for hostname %q has no IPs", alias.Hostname)
		case seen:
			return nil, fmt.Errorf("failed to parse config file: cilium-host-aliases has duplicate hostname %q", alias.Hostname)
		}
		aliases[alias.Hostname] = alias.IPs
	}
	return aliases, nil
}

// dial connects to the addresses of an alias in order, each with an equal part of the time that is left. A name without an alias is resolved
// by the system; one with an alias never is (cilium 1.20: pkg/dial/dialer.go, NewStaticContextDialerWithFallback).
func dial(ctx context.Context, aliases map[string][]netip.Addr, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, aliased := aliases[host]
	if !aliased {
		return dialWithin(ctx, share(ctx, 1), address)
	}
	var failures []error
	for tried, ip := range addresses {
		conn, err := dialWithin(ctx, share(ctx, len(addresses)-tried), net.JoinHostPort(ip.String(), port))
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func share(ctx context.Context, parts int) time.Duration {
	limit := timeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	return limit / time.Duration(parts)
}

func dialWithin(ctx context.Context, limit time.Duration, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: limit}
	return dialer.DialContext(ctx, "tcp", address)
}
