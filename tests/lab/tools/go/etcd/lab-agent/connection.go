// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/v3"
	etcdyaml "go.etcd.io/etcd/client/v3/yaml"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// connect makes one connection and does not try again: the next status is a new process. The gRPC options make etcd's client wait for the
// connection and tell the reason when there is none; alone it would say "context deadline exceeded" for everything.
func connect(ctx context.Context, item configuration) (*clientv3.Client, error) {
	var aliases map[string][]netip.Addr
	if os.Getenv("LAB_HOST_ALIASES") != "false" {
		var err error
		if aliases, err = hostAliases(item.path); err != nil {
			return nil, err
		}
	}
	config, err := etcdyaml.NewConfig(item.path)
	if err != nil {
		return nil, err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	config.Context = ctx
	config.DialTimeout = timeout
	config.Logger = zap.NewNop()
	config.DialOptions = []grpc.DialOption{
		grpc.WithBlock(), grpc.WithReturnConnectionError(), grpc.FailOnNonTempDialError(true), //nolint:staticcheck
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, aliases, address)
			if err != nil && len(config.Endpoints) == 1 {
				giveUp(err)
			}
			return conn, err
		}),
	}
	client, err := clientv3.New(*config)
	if err != nil {
		cause := context.Cause(ctx)
		giveUp(nil)
		if cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
			return nil, cause
		}
		return nil, explain(err, config, aliases)
	}
	return client, nil
}

// explain makes gRPC's error say why. Its own deadline comes before the reason of the last attempt; that is cut off. And with TLS 1.3 a server
// refuses a client certificate only after the handshake: if the alert is overtaken by the closing of the connection, gRPC knows of a broken
// pipe only. One more handshake that then only listens hears the alert.
func explain(err error, config *clientv3.Config, aliases map[string][]netip.Addr) error {
	if reason, found := strings.CutPrefix(err.Error(), context.DeadlineExceeded.Error()+": "); found {
		err = errors.New(reason)
	}
	if config.TLS == nil || len(config.Endpoints) != 1 || !closedByPeer(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout/4)
	defer cancel()
	endpoint, parseErr := url.Parse(config.Endpoints[0])
	if parseErr != nil {
		return err
	}
	conn, dialErr := dial(ctx, aliases, endpoint.Host)
	if dialErr != nil {
		return err
	}
	defer conn.Close()
	settings := config.TLS.Clone()
	settings.ServerName = endpoint.Hostname()
	listener := tls.Client(conn, settings)
	if tlsErr := listener.HandshakeContext(ctx); tlsErr != nil {
		return tlsErr
	}
	_ = listener.SetReadDeadline(time.Now().Add(timeout / 4))
	var alert *net.OpError // crypto/tls: an alert of the other side is an OpError with Op "remote error"
	if _, readErr := listener.Read(make([]byte, 1)); errors.As(readErr, &alert) && alert.Op == "remote error" {
		return readErr
	}
	return err
}

// closedByPeer goes by the text: gRPC keeps no chain of causes.
func closedByPeer(err error) bool {
	text := strings.TrimSuffix(err.Error(), `"`)
	return strings.HasSuffix(text, syscall.EPIPE.Error()) || strings.HasSuffix(text, syscall.ECONNRESET.Error()) || strings.HasSuffix(text, io.EOF.Error())
}
