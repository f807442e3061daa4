// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
)

// watchClient returns a context that ends when the client's connection does. net/http stops watching a connection once it is hijacked (which
// both SPDY and websocket do), so a command would outlive the client that asked for it.
func watchClient(w http.ResponseWriter, r *http.Request) (context.Context, http.ResponseWriter, func()) {
	ctx, gone := context.WithCancel(r.Context())
	return ctx, &watchedWriter{ResponseWriter: w, gone: gone}, gone
}

type watchedWriter struct {
	http.ResponseWriter
	gone func()
}

func (w *watchedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	// What the server has read ahead belongs to the session; everything after it must pass through watchedConn.
	ahead, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	watched := &watchedConn{Conn: conn, gone: w.gone}
	source := io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), watched)
	return watched, bufio.NewReadWriter(bufio.NewReader(source), bufio.NewWriter(watched)), nil
}

type watchedConn struct {
	net.Conn
	gone func()
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.gone()
	}
	return n, err
}

func (c *watchedConn) Close() error {
	c.gone()
	return c.Conn.Close()
}
