//go:build !race

package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/stores"
)

// elsewhere is a store that has what drawn commands work on, and serves it as S3 and over HTTP, with TLS and without.
type elsewhere struct {
	*workshop
	store *stores.Store
	tls   string
	there map[string]bool
}

// openElsewhere starts the store, and has processes of the test find it.
func openElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	e := &elsewhere{workshop: openWorkshop(t), store: stores.New(t), there: map[string]bool{}}
	wide := filepath.Join(e.dir, "wide.khop") // of whose columns many ranges are under way at a time
	generated(t, wide, "sbm --nodes 40000 --edges 400000 --features 500")
	e.datasets = append(e.datasets, wide)
	server := httptest.NewTLSServer(e.store)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	e.tls = server.URL
	trusted := filepath.Join(e.dir, "trusted.pem")
	expect.OK(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", trusted)
	return e
}

// address returns where a file or folder of this machine is elsewhere.
func (e *elsewhere) address(t *testing.T, r *rand.Rand, path string) string {
	name := filepath.Base(path)
	if st := expect.Must(os.Stat(path))(t); !e.there[path] {
		e.there[path] = true
		if st.IsDir() {
			e.store.PutFolder(t, "bucket", name, path)
		} else {
			e.store.Put("bucket/"+name, expect.Must(os.ReadFile(path))(t))
		}
	}
	return oneOf(r, "s3://bucket/", e.store.URL+"/bucket/", e.tls+"/bucket/") + name
}

// anywhere are commands that are drawn at addresses.
var anywhere = []string{
	"stage", "check", "convert", "sample", "info", "export", "bench", "train", "serve", "plan", "partition",
	"add"}

// draw draws the line of a command that reads or writes at an address.
func (e *elsewhere) draw(t *testing.T, r *rand.Rand, dir, command string) []string {
	args := e.workshop.draw(t, r, dir, command)
	for i, a := range args {
		if i > 0 && (slices.Contains(e.datasets, a) || strings.HasSuffix(a, "copy.khop") ||
			command == "convert" && i == 1) {
			args[i] = e.address(t, r, a)
			delete(e.there, filepath.Join(dir, "copy.khop"))
		}
	}
	if command == "convert" && r.IntN(3) == 0 {
		args[2] = fmt.Sprintf("s3://bucket/out-%d.khop", r.Int64())
	}
	t.Setenv("KHOP_CACHE_DIR", filepath.Join(dir, "cache"))
	t.Setenv("KHOP_CACHE_SIZE", oneOf(r, "1TB", "1TB", "1TB", "1TB", "30MB", "1MB"))
	return args
}

// TestDrawnCommandsAtAddressesKeepTheirMemory in control groups of 40 to 256 MiB, and a third as many with such a
// limit of their own.
func TestDrawnCommandsAtAddressesKeepTheirMemory(t *testing.T) {
	n, r := draws(t, 3)
	memoryGroup(t, 1<<30) // skips where none can be made
	e := openElsewhere(t)
	done, most := 0, 0.0
	for i := range n + n/3 {
		dir, size := t.TempDir(), drawSize(r, 40<<20, 256<<20)
		var args []string
		var o outcome
		var what string
		if i < n {
			g := memoryGroup(t, size)
			args = e.draw(t, r, dir, oneOf(r, anywhere...))
			o = g.run(t, e.workshop, args...)
			what = g.judge(o)
		} else {
			args = e.draw(t, r, dir, oneOf(r, slices.DeleteFunc(slices.Clone(anywhere), func(name string) bool {
				return !slices.Contains(limited, name)
			})...))
			args = append(args, "--max-memory", fmt.Sprint(size))
			o = e.run(t, []string{e.program}, args...)
			what = o.judge(size)
		}
		expect.That(t, what == "", "draw %d: khop %s: %d bytes: %s: %s", i, strings.Join(args, " "), size, what, o)
		if o.code != exitFailed {
			done++
			most = max(most, float64(o.peak)/float64(size))
		} else if n > 20 {
			t.Logf("draw %d: khop %s in %d bytes: %s", i, args[0], size, o.lastLine())
		}
		_ = os.RemoveAll(dir)
	}
	t.Logf("%d of %d were done, the others refused; at most %.0f %% of a limit were taken", done, n+n/3, 100*most)
	expect.That(t, done >= n/8, "only %d of %d were done", done, n)
}

// TestAListOfManyLargeObjectsTakesLittleMemory until it is refused, all on a page.
func TestAListOfManyLargeObjectsTakesLittleMemory(t *testing.T) {
	var page strings.Builder
	page.WriteString("<ListBucketResult>")
	for i := range 5_000 {
		fmt.Fprintf(&page, "<Contents><Key>g/part-of-a-large-table-%08d.parquet</Key>"+
			"<ETag>\"d41d8cd98f00b204e9800998ecf8427e\"</ETag><Size>1000000000</Size></Contents>", i)
	}
	page.WriteString("</ListBucketResult>")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("list-type") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, page.String())
	}))
	defer server.Close()
	dir, limit := t.TempDir(), int64(64e6)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ENDPOINT_URL_S3": "",
		"AWS_EC2_METADATA_DISABLED": "true", "KHOP_CACHE_DIR": dir} {
		t.Setenv(name, value)
	}
	o := (&workshop{}).run(t, []string{builtProgram(t)}, "convert", "s3://bucket/g", filepath.Join(dir, "x"),
		"--max-memory", fmt.Sprint(limit))
	expect.That(t, o.code == exitFailed && o.judge(limit) == "" && strings.Contains(o.stderr, "free: make room there"),
		"%s: %s", o.judge(limit), o)
}
