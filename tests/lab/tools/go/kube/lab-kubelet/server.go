// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net/http"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const idleTimeout = 4 * time.Hour // what a kubelet uses (streamingConnectionIdleTimeout)

// newHandler serves the kubelet paths that kube-apiserver calls (kubernetes: pkg/registry/core/pod/strategy.go builds them).
func newHandler(pods podFolder) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", authenticated(pods.serveExec))
	mux.HandleFunc("/portForward/{namespace}/{pod}", authenticated(pods.servePortForward))
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", authenticated(pods.serveLogs))
	return mux
}

func authenticated(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "a client certificate of the cluster's CA is needed", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errors.Is(err, errNotFound) {
		status = http.StatusNotFound
	}
	http.Error(w, err.Error(), status)
}

func (folder podFolder) serveExec(w http.ResponseWriter, r *http.Request) {
	entry, err := folder.container(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		refuse(w, err)
		return
	}
	if len(entry.Exec) == 0 {
		refuse(w, errors.New("the container has no processes that a command could join"))
		return
	}
	command := r.URL.Query()["command"]
	if len(command) == 0 {
		http.Error(w, "query parameter \"command\" is required", http.StatusBadRequest)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, watched, done := watchClient(w, r)
	defer done()
	remotecommand.ServeExec(watched, r.WithContext(ctx), session{prefix: entry.Exec}, r.PathValue("pod"), "", r.PathValue("container"), command,
		options, idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (folder podFolder) servePortForward(w http.ResponseWriter, r *http.Request) {
	found, err := folder.pod(r.PathValue("namespace"), r.PathValue("pod"))
	if err != nil {
		refuse(w, err)
		return
	}
	if len(found.Connect) == 0 {
		refuse(w, errors.New("the pod has no network that a port could be forwarded to"))
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, watched, done := watchClient(w, r)
	defer done()
	portforward.ServePortForward(watched, r.WithContext(ctx), forwarder{ctx: ctx, prefix: found.Connect}, r.PathValue("pod"), "", options,
		idleTimeout, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}
