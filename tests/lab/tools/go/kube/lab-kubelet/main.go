// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

// Command lab-kubelet answers what a kube-apiserver asks of a node's kubelet: exec, port-forward and container logs. The "containers" are
// ordinary processes of this machine; one JSON file per pod says how to enter them.
//
//	lab-kubelet --listen 127.0.0.1:10250 --tls-cert F --tls-key F --client-ca F --pods DIR
//	lab-kubelet connect HOST PORT      pipe stdin and stdout to a TCP port (for the "connect" entry of a pod file)
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("lab-kubelet: ")
	if len(os.Args) > 1 && os.Args[1] == "connect" {
		if len(os.Args) != 4 {
			log.Fatal("usage: lab-kubelet connect HOST PORT")
		}
		if err := pipeTo(net.JoinHostPort(os.Args[2], os.Args[3])); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:10250", "ADDR:PORT; port 0 takes a free one")
	cert := flag.String("tls-cert", "", "PEM file of the server certificate")
	key := flag.String("tls-key", "", "PEM file of its key")
	clientCA := flag.String("client-ca", "", "PEM file of the CA whose client certificates may call")
	pods := flag.String("pods", "", "folder with NAMESPACE_POD.json files")
	flag.Parse()
	if *cert == "" || *key == "" || *clientCA == "" || *pods == "" {
		return errors.New("--tls-cert, --tls-key, --client-ca and --pods are all needed")
	}

	config, err := tlsConfig(*cert, *key, *clientCA)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()

	server := &http.Server{
		Handler:           newHandler(podFolder(*pods)),
		TLSConfig:         config,
		ReadHeaderTimeout: 10 * time.Second,
		// Sessions are children of this context, so a stop ends their processes too.
		BaseContext: func(net.Listener) context.Context { return stop },
	}
	go func() {
		<-stop.Done()
		_ = server.Close()
	}()
	fmt.Printf("listening on %s\n", listener.Addr())
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	sessions.Wait()
	return nil
}

// tlsConfig offers HTTP/1.1 only: SPDY and websocket both start from an upgrade, which HTTP/2 does not have.
func tlsConfig(cert, key, clientCA string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(clientCA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", clientCA)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientCAs:    pool,
		ClientAuth:   tls.VerifyClientCertIfGiven, // /healthz is open; everything else asks for one, see authenticated()
		NextProtos:   []string{"http/1.1"},
	}, nil
}
