//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/khop-gnn/khop/internal/memuse"
)

// usage is what a process took.
type usage struct {
	Wall      float64 `json:"seconds"`
	Processor float64 `json:"processor_seconds"`
	Peak      int64   `json:"anonymous_and_shared_peak_bytes"`
	Read      int64   `json:"disk_read_bytes"`
	Written   int64   `json:"disk_written_bytes"`
}

// convert converts the pairs, and merges shares, and removes what it made.
func convert(o *options, path string, r *result) error {
	whole := filepath.Join(o.dir, "whole.khop")
	defer os.RemoveAll(whole)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = drop(f)
	_ = f.Close()
	if err != nil {
		return err
	}
	out, use, err := measure(o.khop, "convert", path, whole, "--max-memory", o.memory, "--json")
	if err != nil {
		return err
	}
	r.Converted, r.Conversion = use, out
	var said struct {
		Temporary int64 `json:"temporary_written"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return err
	}
	r.Temporary = said.Temporary
	if err := filepath.WalkDir(whole, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				r.Dataset += info.Size()
			}
		}
		return err
	}); err != nil {
		return err
	}
	log.Printf("convert: %.1f s, %.1f s of processor time; anonymous and shared memory %.2f GB at most; disk %.2f GB "+
		"read, %.2f GB written", use.Wall, use.Processor, float64(use.Peak)/1e9, float64(use.Read)/1e9,
		float64(use.Written)/1e9)
	if o.parts > 1 {
		return shares(o, path, whole)
	}
	return nil
}

// shares converts in shares, merges them, and compares the id with that of the whole.
func shares(o *options, path, whole string) error {
	var list []string
	merged := filepath.Join(o.dir, "merged.khop")
	defer os.RemoveAll(merged)
	for i := range o.parts {
		dst := filepath.Join(o.dir, fmt.Sprintf("share%d.khop", i+1))
		defer os.RemoveAll(dst)
		list = append(list, dst)
		_, use, err := measure(o.khop, "convert", path, dst, "--max-memory", o.memory, "--json", "--partition",
			fmt.Sprintf("%d/%d", i+1, o.parts))
		if err != nil {
			return err
		}
		log.Printf("share %d: %.1f s, %.1f s of processor time, %.2f GB", i+1, use.Wall, use.Processor,
			float64(use.Peak)/1e9)
	}
	_, use, err := measure(o.khop, append([]string{"merge", merged}, list...)...)
	if err != nil {
		return err
	}
	a, err := os.ReadFile(filepath.Join(whole, "dataset.json"))
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(merged, "dataset.json"))
	if err != nil {
		return err
	}
	log.Printf("merge: %.1f s; manifests with all checksums are equal: %v", use.Wall, bytes.Equal(a, b))
	return nil
}

// measure runs a command, and looks at its memory ten times a second.
func measure(program string, args ...string) (out []byte, use *usage, err error) {
	var said bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &said, os.Stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	use = &usage{}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				now, _ := memuse.Of(cmd.Process.Pid)
				use.Peak = max(use.Peak, now.Anonymous)
			}
		}
	}()
	err = cmd.Wait()
	close(done)
	<-stopped
	use.Wall = time.Since(begin).Seconds()
	use.Processor = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		use.Read, use.Written = ru.Inblock*512, ru.Oublock*512
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return said.Bytes(), use, err
}
