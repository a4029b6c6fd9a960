//go:build linux

package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// A server, and one within a process, whose loader cannot be made says what its loader says, and leaves nothing.
func TestAServerWithoutALoaderSaysWhy(t *testing.T) {
	g := plainGraph(t, 50)
	for name, change := range map[string]func(o *loader.Options){
		"options":  func(o *loader.Options) { o.BatchSize = -1 },
		"a column": func(o *loader.Options) { o.Columns.Edges = []string{"none"} },
		"fan-outs": func(o *loader.Options) { o.Sampler = sampling.Neighbor{Fanouts: []int{-7}} },
	} {
		opt := usual()
		change(&opt)
		_, want := loader.New(g, opt)
		expect.Ensure(t, want != nil, "%s: a loader takes them", name)
		for _, hold := range []int{0, 2} { // 0 asks the loader's plan first
			path := socketPath(t)
			_, err := New(t.Context(), g, Options{Path: path, Loader: opt, Hold: hold})
			expect.That(t, err != nil && strings.Contains(err.Error(), want.Error()), "%s, hold %d: %v, not %v", name,
				hold, err, want)
			expect.Is(t, expect.Err(os.Stat(filepath.Dir(path))), os.ErrNotExist, "%s, hold %d: the directory is left",
				name, hold)
			in, err := NewInside(t.Context(), g, Options{Loader: opt, Hold: hold}, Within{})
			expect.That(t, err != nil && in == nil && strings.Contains(err.Error(), want.Error()),
				"%s, hold %d, within a process: %v, not %v", name, hold, err, want)
		}
	}
}

// pathed is a graph that comes from somewhere.
type pathed struct {
	loader.Source
	path string
}

func (p pathed) Path() string { return p.path }

// A server names its dataset by its path, where it has one, and a device that nobody named is the CPU.
func TestAServerNamesItsDataset(t *testing.T) {
	opt := usual()
	opt.Device.Name = ""
	s := serve(t, pathed{plainGraph(t, 50), "/data/some\n.khop"}, Options{Loader: opt})
	info := string(connect(t, s, consumer.Options{}).Info().Server)
	expect.That(t, strings.Contains(info, `/data/some\\n.khop`) && strings.Contains(info, `"device":"cpu"`), "%s", info)
}

// TestWhoSpeaksAnotherVersionIsToldBoth: the consumer's versions, and the server's.
func TestWhoSpeaksAnotherVersionIsToldBoth(t *testing.T) {
	k := raw(t, serve(t, plainGraph(t, 50), Options{}))
	h := good
	h.Oldest, h.Newest = 2, 3
	expect.OK(t, k.Send(hello(h), -1, time.Second))
	b := expect.Must(answer(t, k))(t)
	_, text, err := wire.Parse[wire.Text](b)
	want := "you speak versions 2 to 3 of the feed, the server 1: "
	expect.That(t, err == nil && strings.HasPrefix(string(text), want), "%q, %v, not %q", text, err, want)
}
