// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
)

// forwarder carries one forwarded connection through a command; it is a portforward.PortForwarder. The library gives PortForward a context
// that never ends, hence the client's own in a field.
type forwarder struct {
	ctx    context.Context
	prefix []string
}

func (f forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	child := newChild(f.ctx, append(append([]string{}, f.prefix...), strconv.Itoa(int(port))))
	var complaint bytes.Buffer
	child.Stdout = stream
	child.Stderr = &complaint
	if err := runWithInput(child, stream); err != nil && exitCode(child, err) != 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// pipeTo connects stdin and stdout to a TCP address. It ends when the other side has closed and everything was written.
func pipeTo(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err
}
