// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// response and flow are what the filters look at of observer.GetFlowsResponse and flow.Flow (cilium: api/v1), in proto3's JSON mapping.
type response struct {
	Flow *flow `json:"flow"`
}

type flow struct {
	Time        time.Time           `json:"time"`
	NodeName    string              `json:"node_name"`
	Source      endpoint            `json:"source"`
	Destination endpoint            `json:"destination"`
	L4          map[string]protocol `json:"l4"`
	EventType   eventType           `json:"event_type"`
}

type endpoint struct {
	Labels []string `json:"labels"`
}

type protocol struct {
	DestinationPort int `json:"destination_port"`
}

type eventType struct {
	Type    int `json:"type"`
	SubType int `json:"sub_type"`
}

// Message types of cilium: pkg/monitor/api/types.go.
const (
	typeDrop          = 1
	typeTrace         = 4
	typePolicyVerdict = 5
	traceToEndpoint   = 0 // TraceToLxc: left out in JSON, as every default value
)

func (f filter) passes(found flow, node string) bool {
	return (found.NodeName == "" || strings.HasSuffix(found.NodeName, "/"+node)) &&
		!found.Time.Before(f.since) &&
		(len(f.types) == 0 || slices.Contains(f.types, found.kind())) &&
		anyLabels(f.fromLabels, found.Source.Labels) &&
		anyLabels(f.toLabels, found.Destination.Labels) &&
		(len(f.port) == 0 || slices.ContainsFunc(f.port, found.goesTo))
}

func (f flow) kind() string {
	switch {
	case f.EventType.Type == typeDrop:
		return "drop"
	case f.EventType.Type == typePolicyVerdict:
		return "policy-verdict"
	case f.EventType.Type == typeTrace && f.EventType.SubType == traceToEndpoint:
		return "trace:to-endpoint"
	}
	return ""
}

func (f flow) goesTo(port string) bool {
	for _, layer := range f.L4 {
		if strconv.Itoa(layer.DestinationPort) == port {
			return true
		}
	}
	return false
}

// anyLabels: no selector selects everything; else all parts of one of them have to be among the labels (pkg/hubble/filters/labels.go).
func anyLabels(selectors, labels []string) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(selector string) bool {
		for _, part := range strings.Split(selector, ",") {
			if !slices.Contains(labels, part) {
				return false
			}
		}
		return true
	})
}
