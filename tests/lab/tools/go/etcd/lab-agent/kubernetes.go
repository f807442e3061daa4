// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"sigs.k8s.io/yaml"
)

// kubernetes is the API of the pod's own cluster, where an agent finds Services and EndpointSlices (cilium: pkg/k8s/watchers,
// pkg/loadbalancer/reflectors). The lab gives every pod a kubeconfig in the place of a ServiceAccount token.
type kubernetes struct {
	server string
	client *http.Client
}

func openKubernetes(path string) (*kubernetes, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server    string `json:"server"`
				Authority []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(config.Clusters) != 1 || len(config.Users) != 1 {
		return nil, fmt.Errorf("%s: one cluster and one user are wanted", path)
	}
	pair, err := tls.X509KeyPair(config.Users[0].User.Certificate, config.Users[0].User.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(config.Clusters[0].Cluster.Authority) {
		return nil, fmt.Errorf("%s: no CA certificate", path)
	}
	settings := &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12}
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: settings}}
	return &kubernetes{server: config.Clusters[0].Cluster.Server, client: client}, nil
}

// list decodes the items of a collection.
func list[T any](ctx context.Context, api *kubernetes, path string) ([]T, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, api.server+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := api.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, answer.Status)
	}
	var found struct {
		Items []T `json:"items"`
	}
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if found.Items == nil {
		return nil, fmt.Errorf("%s: no list", path)
	}
	return found.Items, nil
}

// service and endpointSlice are the parts of the Kubernetes objects that matter here.
type service struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Type                  string        `json:"type"`
		ClusterIPs            []string      `json:"clusterIPs"`
		Ports                 []servicePort `json:"ports"`
		ExternalTrafficPolicy string        `json:"externalTrafficPolicy"`
		InternalTrafficPolicy string        `json:"internalTrafficPolicy"`
	} `json:"spec"`
}

type metadata struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type servicePort struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Port     uint16 `json:"port"`
}

type endpointSlice struct {
	Metadata    metadata `json:"metadata"`
	AddressType string   `json:"addressType"`
	Ports       []struct {
		Name     string `json:"name"`
		Protocol string `json:"protocol"`
		Port     uint16 `json:"port"`
	} `json:"ports"`
	Endpoints []struct {
		Addresses  []string `json:"addresses"`
		NodeName   string   `json:"nodeName"`
		Conditions struct {
			Ready       *bool `json:"ready"`
			Serving     *bool `json:"serving"`
			Terminating *bool `json:"terminating"`
		} `json:"conditions"`
	} `json:"endpoints"`
}
