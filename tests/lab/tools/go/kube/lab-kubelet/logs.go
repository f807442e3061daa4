// Copyright: Contributors to the edge_portal.cilium_mesh project
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

const followInterval = 200 * time.Millisecond

// logOptions are those of corev1.PodLogOptions that a plain file can honour. The lines carry no times, so sinceSeconds and timestamps cannot be.
type logOptions struct {
	tail   int64 // lines; -1 is all
	limit  int64 // bytes; -1 is no limit
	follow bool
}

func parseLogOptions(query url.Values) (logOptions, error) {
	options := logOptions{tail: -1, limit: -1, follow: query.Get("follow") == "true"}
	if query.Get("previous") == "true" {
		return options, errors.New("previous terminated container not found")
	}
	for name, target := range map[string]*int64{"tailLines": &options.tail, "limitBytes": &options.limit} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil || value < 0 {
			return options, fmt.Errorf("%s must be a number of at least 0, not %q", name, text)
		}
		*target = value
	}
	return options, nil
}

func (folder podFolder) serveLogs(w http.ResponseWriter, r *http.Request) {
	entry, err := folder.container(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if err != nil {
		refuse(w, err)
		return
	}
	options, err := parseLogOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	file, err := os.Open(entry.Log)
	if entry.Log == "" || errors.Is(err, fs.ErrNotExist) {
		return // a container that has written nothing: an empty log, as a kubelet answers
	}
	if err != nil {
		refuse(w, err)
		return
	}
	defer file.Close()
	if err := seekToTail(file, options.tail); err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_ = copyLog(r.Context(), w, file, options)
}

// seekToTail leaves the file at the first of its last lines.
func seekToTail(file *os.File, lines int64) error {
	if lines < 0 {
		return nil
	}
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil || lines == 0 {
		return err
	}
	block := make([]byte, 64*1024)
	found := int64(0)
	for start := end; start > 0; {
		size := min(int64(len(block)), start)
		start -= size
		if _, err := file.ReadAt(block[:size], start); err != nil {
			return err
		}
		for at := bytes.LastIndexByte(block[:size], '\n'); at >= 0; at = bytes.LastIndexByte(block[:at], '\n') {
			if start+int64(at) == end-1 {
				continue // the newline that ends the last line
			}
			if found++; found >= lines {
				_, err := file.Seek(min(start+int64(at)+1, end), io.SeekStart)
				return err
			}
		}
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

func copyLog(ctx context.Context, w http.ResponseWriter, file *os.File, options logOptions) error {
	var source io.Reader = file
	if options.limit >= 0 {
		source = io.LimitReader(file, options.limit)
	}
	flush := http.NewResponseController(w)
	for {
		if _, err := io.Copy(w, source); err != nil || !options.follow {
			return err
		}
		if err := flush.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followInterval):
		}
	}
}
