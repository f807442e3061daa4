// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// container is how one container is entered: the words put before a command, and the file that holds its output.
type container struct {
	Exec []string `json:"exec"`
	Log  string   `json:"log"`
}

// pod is the content of NAMESPACE_POD.json. Connect is the command that, given a port, pipes its stdin and stdout to that port of the pod.
type pod struct {
	Containers map[string]container `json:"containers"`
	Connect    []string             `json:"connect"`
}

// errNotFound is answered with 404.
var errNotFound = errors.New("not found")

// podFolder is read at every request: who starts and stops pods only has to write and remove files there.
type podFolder string

// Names come from the URL; only what Kubernetes allows in a name may become part of a path.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

func (folder podFolder) pod(namespace, name string) (*pod, error) {
	if !objectName.MatchString(namespace) || !objectName.MatchString(name) {
		return nil, fmt.Errorf("pod %q in namespace %q: %w", name, namespace, errNotFound)
	}
	data, err := os.ReadFile(filepath.Join(string(folder), namespace+"_"+name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("pod %q in namespace %q: %w", name, namespace, errNotFound)
	}
	if err != nil {
		return nil, err
	}
	var found pod
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("pod file of %s/%s: %w", namespace, name, err)
	}
	return &found, nil
}

func (folder podFolder) container(namespace, podName, name string) (*container, error) {
	found, err := folder.pod(namespace, podName)
	if err != nil {
		return nil, err
	}
	if entry, ok := found.Containers[name]; ok {
		return &entry, nil
	}
	return nil, fmt.Errorf("container %q in pod %q in namespace %q: %w", name, podName, namespace, errNotFound)
}
