// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

// Command lab-hubble stands in for the hubble program of an agent pod. There is no datapath here and so there are no flows: they come from a
// file that a test writes. What is done with them is Hubble's: the options, the filters, the form of the answer.
//
//	hubble observe --server unix:///var/run/cilium/hubble.sock -o jsonpb [--since TIME] [--last N] [--type T]... [--from-label L]...
//	    [--to-label L]... [--to-port P]...
//
// Environment:
//
//	LAB_HUBBLE_FLOWS  file with one GetFlowsResponse a line; /var/run/cilium/lab-hubble/flows.jsonl when unset. Without it no server answers
//	LAB_NODE_NAME     an agent sees flows of its own node, whose node_name ends in /NAME, and those that name none
//
// A line that is no flow is passed on as it stands: what an agent writes is not always what one expects.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

const defaultFile = "/var/run/cilium/lab-hubble/flows.jsonl"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string, out io.Writer) error {
	if len(arguments) == 0 || arguments[0] != "observe" {
		return errors.New("the lab's hubble answers only: hubble observe")
	}
	wanted, err := parseFilter(arguments[1:])
	if err != nil {
		return err
	}
	file, err := os.Open(cmp.Or(os.Getenv("LAB_HUBBLE_FLOWS"), defaultFile))
	if err != nil {
		return fmt.Errorf("rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial %s: %w\"",
			strings.Replace(wanted.server, "unix://", "unix ", 1), syscall.ENOENT)
	}
	defer file.Close()
	lines, err := chosen(file, wanted, os.Getenv("LAB_NODE_NAME"))
	if err != nil {
		return err
	}
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
	return nil
}

// chosen are the lines that pass the filter, the last so many of them.
func chosen(source io.Reader, wanted filter, node string) ([]string, error) {
	var found []string
	scanner := bufio.NewScanner(source)
	scanner.Buffer(nil, 16*1024*1024)
	for scanner.Scan() {
		line := scanner.Text()
		var answer response
		if err := json.Unmarshal([]byte(line), &answer); err != nil || answer.Flow == nil {
			found = append(found, line)
			continue
		}
		if wanted.passes(*answer.Flow, node) {
			found = append(found, line)
		}
	}
	return found[max(0, len(found)-wanted.last):], scanner.Err()
}

// filter is what the command line asks for. Several values of one option: one of them has to hold.
type filter struct {
	server                            string
	since                             time.Time
	last                              int
	types, fromLabels, toLabels, port []string
}

// parseFilter refuses what the real command refuses too: unknown options, other output, a time that is none.
func parseFilter(arguments []string) (filter, error) {
	flags := flag.NewFlagSet("observe", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	wanted := filter{}
	var output, since string
	flags.StringVar(&wanted.server, "server", "localhost:4245", "address of a Hubble server")
	flags.StringVar(&output, "output", "compact", "output format")
	flags.StringVar(&output, "o", "compact", "output format")
	flags.StringVar(&since, "since", "", "RFC 3339")
	flags.IntVar(&wanted.last, "last", 20, "the last N flows")
	for name, target := range map[string]*[]string{
		"type": &wanted.types, "t": &wanted.types, "from-label": &wanted.fromLabels, "to-label": &wanted.toLabels, "to-port": &wanted.port,
	} {
		flags.Func(name, "may be repeated", func(value string) error {
			*target = append(*target, value)
			return nil
		})
	}
	if err := flags.Parse(arguments); err != nil {
		return wanted, err
	}
	if flags.NArg() > 0 {
		return wanted, fmt.Errorf("unknown command %q for \"hubble observe\"", flags.Arg(0))
	}
	if output != "jsonpb" {
		return wanted, errors.New("the lab's hubble writes only jsonpb")
	}
	if since != "" {
		parsed, err := time.Parse(time.RFC3339, since)
		if err != nil {
			return wanted, fmt.Errorf("failed to parse the since time: %w", err)
		}
		wanted.since = parsed
	}
	for _, kind := range wanted.types {
		if !slices.Contains([]string{"drop", "policy-verdict", "trace:to-endpoint"}, kind) {
			return wanted, fmt.Errorf("the lab's hubble does not know --type %s", kind)
		}
	}
	return wanted, nil
}
