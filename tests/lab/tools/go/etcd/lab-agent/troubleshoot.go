// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	etcdyaml "go.etcd.io/etcd/client/v3/yaml"
	"sigs.k8s.io/yaml"
)

// troubleshoot answers `cilium troubleshoot clustermesh [--timeout=5s] [CLUSTER...]`: the files of this pod, and one new connection made with
// them. Headings and phrases are Cilium's (cilium: cilium-dbg/cmd/troubleshoot_clustermesh.go, pkg/kvstore/etcd_debug.go); steps that prove
// nothing about certificates and connections are left out.
func troubleshoot(out io.Writer, configurations []configuration, limit time.Duration, clusters []string) {
	paths := map[string]string{}
	for _, item := range configurations {
		paths[item.cluster] = item.path
		if len(clusters) == 0 {
			clusters = append(clusters, item.cluster)
		}
	}
	fmt.Fprintf(out, "Found %d cluster configurations\n", len(configurations))
	for _, cluster := range clusters {
		fmt.Fprintf(out, "\nCluster %q:\n", cluster)
		path, found := paths[cluster]
		if !found {
			fmt.Fprintln(out, "❌ Configuration not found")
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		troubleshootPeer(ctx, out, configuration{cluster: cluster, path: path})
		cancel()
	}
}

func troubleshootPeer(ctx context.Context, out io.Writer, item configuration) {
	fmt.Fprintf(out, "📄 Configuration path: %s\n", item.path)
	config, err := etcdyaml.NewConfig(item.path)
	if err != nil {
		fmt.Fprintf(out, "❌ Cannot parse etcd configuration: %s\n", err)
		return
	}
	client, failure := connect(ctx, item)
	fmt.Fprintln(out, "\n🔌 Endpoints:")
	for _, endpoint := range config.Endpoints {
		fmt.Fprintf(out, "   - %s\n", endpoint)
		if failure != nil {
			fmt.Fprintf(out, "     ❌ %s\n", phrase(failure, endpoint))
		}
	}
	fmt.Fprintln(out, "\n🔑 Digital certificates:")
	roots, err := rootCertificates(item.path)
	if err != nil {
		fmt.Fprintf(out, "   ❌ Failed to retrieve Root CA path: %s\n", err)
	} else {
		fmt.Fprintln(out, "   ✅ TLS Root CA certificates:")
		for _, root := range roots {
			printCertificate(out, root)
		}
	}
	if config.TLS != nil && len(config.TLS.Certificates) > 0 {
		fmt.Fprintln(out, "   ✅ TLS client certificates:")
		for _, shown := range config.TLS.Certificates {
			if leaf, err := x509.ParseCertificate(shown.Certificate[0]); err == nil {
				printCertificate(out, leaf)
			}
		}
	}
	fmt.Fprintln(out, "\n⚙️ Etcd client:")
	if failure != nil {
		fmt.Fprintf(out, "   ❌ Failed to establish connection: %s\n", failure)
		return
	}
	defer client.Close()
	reply, err := client.Get(ctx, heartbeatKey)
	if err != nil {
		fmt.Fprintf(out, "   ❌ Failed to retrieve key from etcd: %s\n", err)
		return
	}
	fmt.Fprintln(out, "   ✅ Etcd connection successfully established")
	fmt.Fprintf(out, "   ℹ️  Etcd cluster ID: %x\n", reply.Header.GetClusterId())
}

// phrase is Cilium's word for the step that failed.
func phrase(err error, endpoint string) string {
	host := endpoint
	if parsed, parseErr := url.Parse(endpoint); parseErr == nil {
		host = parsed.Host
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "no such host") || strings.Contains(text, "server misbehaving"):
		return "Cannot resolve hostname: " + text
	case strings.Contains(text, "remote error: tls"):
		return "TLS client authentication failed: " + text
	case strings.Contains(text, "x509") || strings.Contains(text, "tls:"):
		return fmt.Sprintf("Cannot establish TLS connection to %s: %s", host, text)
	default:
		return fmt.Sprintf("Cannot establish TCP connection to %s: %s", host, text)
	}
}

func rootCertificates(path string) ([]*x509.Certificate, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var parsed struct {
		File string `json:"trusted-ca-file"`
	}
	if err := yaml.Unmarshal(content, &parsed); err != nil {
		return nil, err
	}
	if content, err = os.ReadFile(parsed.File); err != nil {
		return nil, err
	}
	var roots []*x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		roots = append(roots, root)
	}
	if len(roots) == 0 {
		return nil, errors.New("no certificate found")
	}
	return roots, nil
}

func printCertificate(out io.Writer, certificate *x509.Certificate) {
	serial := certificate.SerialNumber.Text(16)
	if len(serial)%2 == 1 {
		serial = "0" + serial
	}
	for place := 2; place < len(serial); place += 3 {
		serial = serial[:place] + ":" + serial[place:]
	}
	fmt.Fprintf(out, "      - Serial number:       %s\n", serial)
	fmt.Fprintf(out, "        Subject:             %s\n", certificate.Subject)
	fmt.Fprintf(out, "        Issuer:              %s\n", certificate.Issuer)
	fmt.Fprintf(out, "        Validity:\n          Not before:  %s\n          Not after:   %s\n", certificate.NotBefore, certificate.NotAfter)
}
