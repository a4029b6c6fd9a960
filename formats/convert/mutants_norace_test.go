//go:build !race

package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

const (
	mutantLimit = 64 << 20
	mutantWait  = 30 * time.Second // after which a conversion hangs
)

// roles are the sources that a table may be a part of, %s, and what is converted of them.
var roles = []struct {
	source string
	files  map[string]string
}{
	{"m.yaml", map[string]string{"m.yaml": "edges: {e: {file: edges.%s, columns: [id, at, label, flag, x, y, " +
		"vector, price]}}\n"}},
	{"m.yaml", map[string]string{"m.yaml": "nodes: {t: {file: edges.%s, columns: [src, at, label, flag, x, y, " +
		"word, name, note, more, vector, hash, price]}}\nedges: {e: {file: e.csv, source: t, target: t}}\n",
		"e.csv": "src,dst\n0,1\n39,3\n"}},
	{"m.yaml", map[string]string{"m.yaml": "edges: {e: {file: parts, columns: [k, id, at, label, flag, x, y, vector, " +
		"price]}}\n", "parts/k=1/a.%s": "", "parts/k=__HIVE_DEFAULT_PARTITION__/b.%s": ""}},
	{".", map[string]string{"manifest.yaml": "name: d\ntables: {t: {pkey: id, fkeys: {ref: t}, time_col: at, " +
		"file: edges.%s}}\n"}},
	{".", map[string]string{"manifest.yaml": "name: d\ntables: {t: {pkey: id, fkeys: {next: t}}}\n",
		"db/t.csv": "id,next\n" + func() (all string) {
			for i := range 40 {
				all += fmt.Sprintf("%d,%d\n", i, (i+1)%40)
			}
			return all
		}(),
		"tasks/k/manifest.yaml": "name: k\ntask_type: multiclass_classification\nentity_table: t\nentity_col: src\n" +
			"target_col: label\ntime_col: at\n", "tasks/k/train.%s": ""}},
}

// mutate changes bytes of a table; of its metadata as often as of its data, which is longer.
func mutate(r *rand.Rand, whole []byte) []byte {
	b := bytes.Clone(whole)
	part := b
	if n := int(binary.LittleEndian.Uint32(b[max(len(b)-8, 0):])); r.IntN(2) == 0 && n > 0 && n < len(b)-8 {
		part = b[len(b)-8-n:] // the footer of Parquet
	}
	for range 1 + r.IntN(6) {
		at := r.IntN(len(part))
		if r.IntN(2) == 0 { // near what begins a page of Parquet: its header, its levels, or how wide they are
			if next := bytes.IndexByte(part[at:], 0x15); next >= 0 {
				at = min(at+next+r.IntN(32), len(part)-1)
			}
		}
		switch r.IntN(8) {
		case 0, 1:
			part[at] = byte(r.Uint32())
		case 2:
			part[at] ^= 1 << r.IntN(8)
		case 3:
			part[at] += byte(r.IntN(5) - 2)
		case 4:
			part[at] = []byte{0, 1, 0x7f, 0x80, 0xfe, 0xff}[r.IntN(6)]
		case 5:
			copy(part[at:], []byte{0xff, 0xff, 0xff, byte(r.IntN(256)), 0, 0, 0, 0}[:4+4*r.IntN(2)])
		case 6:
			from := r.IntN(len(b))
			copy(part[at:], b[from:min(from+1+r.IntN(16), len(b))])
		case 7:
			if r.IntN(8) == 0 { // all that follows lies elsewhere, or is not there
				return append(b[:r.IntN(len(b))], b[r.IntN(len(b)):]...)
			}
		}
	}
	return b
}

// Tables of which some bytes are others are converted, or errors of the file, soon and within the limit of memory.
// KHOP_DRAWS says how many are drawn.
func TestDamagedTablesNeitherHangNorPanic(t *testing.T) {
	seed, draws := expect.Seed(t), expect.Draws(t, 200)
	r := rand.New(rand.NewPCG(seed, 3))
	var whole [][]byte
	names := []string{"all.1.parquet", "all.2.parquet", "all.arrow", "all.lz4.arrow", "all.arrows"}
	for _, name := range names {
		whole = append(whole, expect.Must(os.ReadFile(filepath.Join("../internal/foreign/tables/testdata", name)))(t))
	}
	dir, dst, good := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "d"), map[string]int{}
	try := func(role, kind int, b []byte, what string) error {
		ext := strings.Trim(filepath.Ext(names[kind]), ".")
		ext = strings.TrimSuffix(ext, "s") // a stream is known by its first bytes
		expect.OK(t, errors.Join(os.RemoveAll(dir), os.RemoveAll(dst)))
		for name, text := range roles[role].files {
			if text = strings.ReplaceAll(text, "%s", ext); text == "" {
				text = string(b)
			}
			put(t, dir, map[string]string{strings.ReplaceAll(name, "%s", ext): text})
		}
		put(t, dir, map[string][]byte{"edges." + ext: b})
		return convertWatched(filepath.Join(dir, strings.ReplaceAll(roles[role].source, "%s", ext)), dst, "", what)
	}
	for role := range roles {
		for kind, b := range whole {
			err := try(role, kind, b, names[kind])
			expect.Ensure(t, err == nil, "role %d, %s: %v", role, names[kind], err)
		}
	}
	for i := range draws {
		role, kind := r.IntN(len(roles)), r.IntN(len(whole))
		what := fmt.Sprintf("draw %d of seed %d: role %d, %s", i, seed, role, names[kind])
		good[outcome(t, try(role, kind, mutate(r, whole[kind]), what), what)]++
	}
	t.Logf("%d mutants of seed %d: %v", draws, seed, good)
}

// convertWatched converts a source of a kind in little memory. One that hangs ends the test with a panic, which shows
// where.
func convertWatched(src, dst, kind, what string) error {
	hangs := time.AfterFunc(mutantWait, func() { panic(what + " hangs") })
	defer hangs.Stop()
	_, err := Run(context.Background(), src, dst, Options{From: kind, MemoryLimit: mutantLimit})
	return err
}

// outcome says what has become of a mutant, whose error must be one of its files.
func outcome(t *testing.T, err error, what string) string {
	t.Helper()
	if err == nil {
		return "converted"
	}
	var within *formats.Error
	expect.That(t, errors.As(err, &within) || errors.Is(err, ErrOptions), "%s: %v", what, err)
	for _, word := range []string{"panic", "runtime error", "nil pointer", "internal error", "goroutine"} {
		expect.That(t, !strings.Contains(err.Error(), word), "%s: %v", what, err)
	}
	return "refused"
}
