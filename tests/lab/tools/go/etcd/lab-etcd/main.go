// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

// Command lab-etcd gives a mesh etcd the users and roles that a newer etcdinit makes. It runs in the container of clustermesh-apiserver, which
// has the admin certificate; one process does what would take etcdctl a dozen.
//
//	lab-etcd '{"user": "local-c1", "local": {"cilium/cache/": true}, "remote": {"cilium/cluster-config/c1": false}}'
//
// "local" and "remote" list the keys that the role of that name may read; true: everything that begins with the key.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	folder = "/var/lib/cilium/etcd-secrets/"
	limit  = 20 * time.Second
)

type changes struct {
	User   string          `json:"user"`
	Local  map[string]bool `json:"local"`
	Remote map[string]bool `json:"remote"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	var wanted changes
	if len(arguments) != 1 {
		return fmt.Errorf("one argument is expected, a JSON object with user, local and remote")
	}
	if err := json.Unmarshal([]byte(arguments[0]), &wanted); err != nil {
		return err
	}
	files := transport.TLSInfo{CertFile: folder + "tls.crt", KeyFile: folder + "tls.key", TrustedCAFile: folder + "ca.crt"}
	settings, err := files.ClientConfig()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{"https://127.0.0.1:2379"}, TLS: settings, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	return change(ctx, client, wanted)
}

func change(ctx context.Context, client *clientv3.Client, wanted changes) error {
	if _, err := client.RoleAdd(ctx, "local"); err != nil {
		return err
	}
	if _, err := client.UserAddWithOptions(ctx, wanted.User, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
		return err
	}
	if _, err := client.UserGrantRole(ctx, wanted.User, "local"); err != nil {
		return err
	}
	// An old etcdinit lets the role read every key.
	if _, err := client.RoleRevokePermission(ctx, "remote", "\x00", "\x00"); err != nil {
		return err
	}
	for role, keys := range map[string]map[string]bool{"local": wanted.Local, "remote": wanted.Remote} {
		for key, prefix := range keys {
			end := ""
			if prefix {
				end = clientv3.GetPrefixRangeEnd(key)
			}
			if _, err := client.RoleGrantPermission(ctx, role, key, end, clientv3.PermissionType(clientv3.PermRead)); err != nil {
				return fmt.Errorf("role %s, key %s: %w", role, key, err)
			}
		}
	}
	return nil
}
