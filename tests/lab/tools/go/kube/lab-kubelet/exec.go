// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// sessions counts the running children, so that a stop can wait until they are reaped.
var sessions sync.WaitGroup

// session runs one command in one container; it is a remotecommand.Executor.
type session struct {
	prefix []string
}

// ExecInContainer runs the command and returns nil or a CodeExitError with the exit code as a shell would give it: 127 not found, 126 found
// but not startable, 128+N ended by signal N. There is no pseudo-terminal: with tty the streams are plain and stderr joins stdout.
func (s session) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, errs io.WriteCloser, tty bool,
	_ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if tty {
		errs = out
	}
	child := newChild(ctx, append(append([]string{}, s.prefix...), command...))
	if out != nil {
		child.Stdout = out
	}
	if errs != nil {
		child.Stderr = errs
	}
	err := runWithInput(child, in)
	code := exitCode(child, err)
	if code == 0 {
		return nil
	}
	if child.ProcessState == nil && errs != nil {
		fmt.Fprintf(errs, "%v\n", err)
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
}

// newChild makes a command in a process group of its own, which is killed when ctx ends, and with this process if that is killed.
func newChild(ctx context.Context, argv []string) *exec.Cmd {
	child := exec.CommandContext(ctx, argv[0], argv[1:]...)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	child.Cancel = func() error { return syscall.Kill(-child.Process.Pid, syscall.SIGKILL) }
	child.WaitDelay = time.Second // a grandchild may hold stdout open
	return child
}

// runWithInput copies in to the child's stdin without waiting for in to end: the child may end first, and its client waits for that.
func runWithInput(child *exec.Cmd, in io.Reader) error {
	sessions.Add(1)
	defer sessions.Done()
	var stdin io.WriteCloser
	if in != nil {
		pipe, err := child.StdinPipe()
		if err != nil {
			return err
		}
		stdin = pipe
	}
	if err := child.Start(); err != nil {
		return err
	}
	if stdin != nil {
		go func() {
			_, _ = io.Copy(stdin, in)
			_ = stdin.Close()
		}()
	}
	return child.Wait()
}

func exitCode(child *exec.Cmd, err error) int {
	if state := child.ProcessState; state != nil {
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return state.ExitCode()
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return 127
	default:
		return 126
	}
}
