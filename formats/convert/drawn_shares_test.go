package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// drawnShares are the shares of a drawn source by drawn options, in order, and what becomes of them.
type drawnShares struct {
	t     *testing.T
	r     *rand.Rand
	dir   string
	src   string
	text  []string // the source's lines
	table []float32
	opt   Options
	paths []string
	dst   string
}

// drawShares converts a drawn source.
func drawShares(t *testing.T, r *rand.Rand) *drawnShares {
	s := &drawnShares{t: t, r: r, dir: t.TempDir(), text: []string{"src,dst,weight,time"}}
	s.src, s.dst = filepath.Join(s.dir, "edges.csv"), filepath.Join(s.dir, "merged")
	prefix := []string{"", "n"}[r.IntN(2)]
	nodes := 2 + r.IntN(40)
	for v := range nodes {
		s.text = append(s.text, s.edge(prefix, v, nodes))
	}
	for range r.IntN(200) {
		s.text = append(s.text, s.edge(prefix, r.IntN(nodes), nodes))
	}
	s.opt = Options{Direction: Direction(r.IntN(3)), Merge: Merge(r.IntN(4)), Loops: Loops(r.IntN(3)),
		ByTime: r.IntN(2) == 0}
	if prefix == "" && r.IntN(2) == 0 {
		s.table = make([]float32, 2*nodes)
		for i := range s.table {
			s.table[i] = r.Float32()
		}
		s.opt.Features = filepath.Join(s.dir, "x.npy")
		s.opt.Reorder = Reorder(1 + r.IntN(4))
	}
	s.save()
	for i, n := 1, 2+r.IntN(4); i <= n; i++ {
		s.paths = append(s.paths, s.convert(i, n, s.opt))
	}
	return s
}

// edge draws a line.
func (s *drawnShares) edge(prefix string, from, nodes int) string {
	return fmt.Sprintf("%s%d,%s%d,%d.5,%d", prefix, from, prefix, s.r.IntN(nodes), s.r.IntN(90), s.r.IntN(90))
}

// save writes the source.
func (s *drawnShares) save() {
	s.t.Helper()
	expect.OK(s.t, os.WriteFile(s.src, []byte(strings.Join(s.text, "\n")+"\n"), 0o600))
	if s.table != nil {
		expect.OK(s.t, os.WriteFile(s.opt.Features, expect.NPY(s.table, len(s.table)/2, 2), 0o600))
	}
}

// convert makes a share, or without a number the whole dataset.
func (s *drawnShares) convert(i, of int, opt Options) string {
	s.t.Helper()
	opt.Share = Share{i, of}
	path := filepath.Join(s.t.TempDir(), fmt.Sprintf("%d.khop", i))
	_, err := Run(context.Background(), s.src, path, opt)
	expect.Ensure(s.t, err == nil, "%+v: %v", opt, err)
	return path
}

// again makes one of the shares again, and returns its name.
func (s *drawnShares) again(opt Options) string {
	i := s.r.IntN(len(s.paths))
	s.paths[i] = s.convert(i+1, len(s.paths), opt)
	return s.paths[i]
}

// one returns one of the shares.
func (s *drawnShares) one() string { return s.paths[s.r.IntN(len(s.paths))] }

// forge changes what a share says of itself.
func (s *drawnShares) forge(path, key, value string) {
	s.t.Helper()
	file := filepath.Join(path, "dataset.json")
	text := expect.Must(os.ReadFile(file))(s.t)
	body, _, _ := bytes.Cut(text, []byte(`  "checksum": "`))
	lines := strings.Split(string(body), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, fmt.Sprintf("    %q: ", key)) })
	expect.Ensure(s.t, at >= 0, "%s says nothing of %s", path, key)
	end := ""
	if strings.HasSuffix(lines[at], ",") {
		end = ","
	}
	if lines[at] = fmt.Sprintf("    %q: %q%s", key, value, end); value == "" {
		lines[at] = fmt.Sprintf("    %q: %q%s", "note", "", end)
	}
	out := strings.Join(lines, "\n")
	out += fmt.Sprintf("  \"checksum\": \"%016x\"\n}\n", xxh3.HashString(out))
	expect.OK(s.t, os.WriteFile(file, []byte(out), 0o600))
}

// says returns what a share says of itself.
func (s *drawnShares) says(path, key string) string {
	ds := expect.Must(formats.Open(path))(s.t)
	defer ds.Close()
	return ds.Manifest().Provenance[key]
}

// spoiled are the ways in which shares are wrong: each returns what the error has to name.
var spoiled = []struct {
	name  string
	is    error
	spoil func(s *drawnShares) string
}{
	{"damaged", formats.ErrCorrupt, func(s *drawnShares) string {
		path := s.one()
		var files []string
		expect.OK(s.t, filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
			if st, e := os.Stat(p); err == nil && e == nil && st.Mode().IsRegular() && filepath.Base(p)[0] != '.' {
				files = append(files, p)
			}
			return err
		}))
		file := files[s.r.IntN(len(files))]
		text := expect.Must(os.ReadFile(file))(s.t)
		if s.r.IntN(8) == 0 {
			text = text[:s.r.IntN(len(text))]
		} else {
			text[s.r.IntN(len(text))] ^= 1 << s.r.IntN(8)
		}
		expect.OK(s.t, os.WriteFile(file, text, 0o600))
		return path
	}},
	{"stale", ErrOptions, func(s *drawnShares) string {
		at := 1 + s.r.IntN(len(s.text)-1)
		fields := strings.Split(s.text[at], ",")
		switch s.r.IntN(5) {
		case 0: // another edge, no other node
			fields[1] = fields[0]
			if s.text[at] == strings.Join(fields, ",") {
				fields[2] = "91.5"
			}
		case 1:
			fields[2] = "91.5"
		case 2:
			fields[3] = "91"
		case 3:
			s.text = slices.Insert(s.text, at, s.text[at])
		default:
			if s.table == nil {
				fields[2] = "92.5"
			} else {
				s.table[s.r.IntN(len(s.table))] += 1
			}
		}
		s.text[at] = strings.Join(fields, ",")
		s.save()
		return s.again(s.opt)
	}},
	{"of another source", ErrOptions, func(s *drawnShares) string {
		other := drawShares(s.t, s.r)
		for len(other.paths) < len(s.paths) {
			other = drawShares(s.t, s.r)
		}
		i := s.r.IntN(len(s.paths))
		s.paths[i] = other.convert(i+1, len(s.paths), other.opt)
		return s.paths[i]
	}},
	{"of other options", ErrOptions, func(s *drawnShares) string {
		opt := s.opt
		switch s.r.IntN(4) {
		case 0:
			opt.Merge = (opt.Merge + 1) % 4
		case 1:
			opt.Loops = (opt.Loops + 1) % 3
		case 2:
			opt.ByTime = !opt.ByTime
		default:
			opt.Direction = (opt.Direction + 1) % 3
		}
		return s.again(opt)
	}},
	{"of another table of the same name", ErrOptions, func(s *drawnShares) string {
		opt := s.opt
		opt.Features = filepath.Join(s.t.TempDir(), "x.npy")
		rows := make([]float32, 2*len(nodesOf(s)))
		expect.OK(s.t, os.WriteFile(opt.Features, expect.NPY(rows, len(rows)/2, 2), 0o600))
		return s.again(opt)
	}},
	{"missing", ErrOptions, func(s *drawnShares) string {
		i := s.r.IntN(len(s.paths))
		s.paths = slices.Delete(s.paths, i, i+1)
		return fmt.Sprintf("share %d/%d is missing", i+1, len(s.paths)+1)
	}},
	{"doubled", ErrOptions, func(s *drawnShares) string {
		i := s.r.IntN(len(s.paths))
		path := s.paths[i]
		if s.r.IntN(2) == 0 {
			path = s.convert(i+1, len(s.paths), s.opt)
		}
		s.paths = append(s.paths, path)
		return path
	}},
	{"of another number of shares", ErrOptions, func(s *drawnShares) string {
		i := s.r.IntN(len(s.paths))
		s.paths[i] = s.convert(i+1, len(s.paths)+1, s.opt)
		return s.paths[i]
	}},
	{"no share", ErrOptions, func(s *drawnShares) string {
		s.paths = append(s.paths, s.convert(0, 0, s.opt))
		return s.paths[len(s.paths)-1]
	}},
	{"of an older version", ErrOptions, func(s *drawnShares) string {
		path := s.one()
		for _, key := range []string{sourceKey, placedKey, wholeKey} {
			s.forge(path, key, "")
		}
		return path
	}},
	{"of a later version", ErrOptions, func(s *drawnShares) string {
		path := s.one()
		_, sum, _ := strings.Cut(s.says(path, sourceKey), ":")
		s.forge(path, sourceKey, fmt.Sprintf("%d:%s", shareVersion+1, sum))
		return path
	}},
	{"of other sums", ErrOptions, func(s *drawnShares) string {
		path := s.one()
		edges := expect.Must(strconv.ParseInt(s.says(path, placedKey), 10, 64))(s.t)
		of := strings.Replace(s.says(path, wholeKey), " edges", "0 edges", 1)
		if s.r.IntN(2) == 0 && edges > 0 {
			s.forge(path, placedKey, strconv.FormatInt(-1, 10))
			return path
		}
		for _, p := range s.paths {
			s.forge(p, wholeKey, of)
		}
		return s.paths[0]
	}},
	{"where the target is", formats.ErrInput, func(s *drawnShares) string {
		path := s.one()
		switch s.dst = path; s.r.IntN(3) {
		case 0:
			s.dst = filepath.Join(path, "new")
		case 1:
			s.dst = filepath.Dir(path)
		}
		return s.dst
	}},
}

// nodesOf returns the names of the nodes.
func nodesOf(s *drawnShares) map[string]bool {
	names := map[string]bool{}
	for _, line := range s.text[1:] {
		f := strings.Split(line, ",")
		names[f[0]], names[f[1]] = true, true
	}
	return names
}

// TestDrawnSharesAreJoinedOrRefusedByName draws sets of shares: every second is right, in any order. KHOP_DRAWS says
// how many.
func TestDrawnSharesAreJoinedOrRefusedByName(t *testing.T) {
	draws := 2 * len(spoiled)
	if s := os.Getenv("KHOP_DRAWS"); s != "" {
		draws = expect.Must(strconv.Atoi(s))(t)
	}
	seed, count := expect.Seed(t), map[string]int{}
	for i := range draws {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			s := drawShares(t, rand.New(rand.NewPCG(seed, uint64(i))))
			way := spoiled[i/2%len(spoiled)]
			if i%2 == 0 {
				count["right"]++
				s.join()
				return
			}
			count[way.name]++
			says := way.spoil(s)
			s.r.Shuffle(len(s.paths), func(a, b int) { s.paths[a], s.paths[b] = s.paths[b], s.paths[a] })
			before := filesOf(t, s.paths)
			_, err := JoinShares(context.Background(), s.paths, s.dst, MergeOptions{Force: true})
			expect.That(t, errors.Is(err, way.is) && strings.Contains(err.Error(), says),
				"%s: got %v; want %v, %s", way.name, err, way.is, says)
			expect.That(t, slices.Equal(before, filesOf(t, s.paths)), "%s: the shares have changed", way.name)
			if way.is != formats.ErrInput {
				_, err = os.Stat(s.dst)
				expect.That(t, os.IsNotExist(err), "%s: a dataset is there", way.name)
			}
		})
	}
	t.Log(count)
}

// join sees that the shares make what converting at once makes.
func (s *drawnShares) join() {
	s.r.Shuffle(len(s.paths), func(a, b int) { s.paths[a], s.paths[b] = s.paths[b], s.paths[a] })
	_, err := JoinShares(context.Background(), s.paths, s.dst, MergeOptions{})
	expect.Ensure(s.t, err == nil, "%+v, %d shares: %v", s.opt, len(s.paths), err)
	got, want := filesOf(s.t, []string{s.dst}), filesOf(s.t, []string{s.convert(0, 0, s.opt)})
	expect.That(s.t, slices.Equal(got, want), "%+v, %d shares: %v; want %v", s.opt, len(s.paths), got, want)
}

// filesOf lists names and contents of all files of some folders.
func filesOf(t *testing.T, folders []string) (list []string) {
	t.Helper()
	for _, dir := range folders {
		files := expect.Files(t, dir)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			list = append(list, fmt.Sprintf("%s %x", name, xxh3.Hash128(files[name]).Bytes()))
		}
	}
	return list
}
