package pinned

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/expect"
)

// allowed returns the rungs that a ladder does not refuse.
func allowed(steps []Step) (r []Rung) {
	for _, s := range steps {
		if s.Refused == "" {
			r = append(r, s.Rung)
		}
	}
	return r
}

func TestLadderDecidesByAttributesAndMemory(t *testing.T) {
	discrete := deviceFacts{register: true}
	readOnly := deviceFacts{register: true, readOnly: true}
	coherent := deviceFacts{register: true, readOnly: true, pageTables: true, pageable: true}
	file := memory{kind: memoryFile, shared: true}
	tmpfs := memory{kind: memoryFile, shared: true, fs: "tmpfs"}
	for name, c := range map[string]struct {
		device deviceFacts
		memory memory
		want   []Rung
		why    string // a part of the first refusal
	}{
		"a file, on a device that shares the page tables": {coherent, file,
			[]Rung{RungPageTables, RungReadOnly, RungCopy, RungHostAlloc}, "not on tmpfs"},
		"a file, where read-only registration works": {readOnly, file,
			[]Rung{RungReadOnly, RungCopy, RungHostAlloc}, "attribute 100"},
		"a file, where it does not": {discrete, file, []Rung{RungCopy, RungHostAlloc}, "attribute 100"},
		"a file, with HMM alone": {deviceFacts{register: true, pageable: true}, file,
			[]Rung{RungCopy, RungHostAlloc}, "moves pages"},
		"a file on tmpfs": {discrete, tmpfs, []Rung{RungInPlace, RungCopy, RungHostAlloc}, "attribute 100"},
		"a file on tmpfs, with read-only registration": {readOnly, tmpfs,
			[]Rung{RungReadOnly, RungInPlace, RungCopy, RungHostAlloc}, "attribute 100"},
		"a file on hugetlbfs, writable": {readOnly,
			memory{kind: memoryFile, shared: true, writable: true, fs: "hugetlbfs"},
			[]Rung{RungInPlace, RungCopy, RungHostAlloc}, "attribute 100"},
		"a private mapping": {readOnly, memory{kind: memoryFile}, []Rung{RungCopy, RungHostAlloc}, "attribute 100"},
		"a private mapping on tmpfs": {readOnly, memory{kind: memoryFile, fs: "tmpfs"},
			[]Rung{RungCopy, RungHostAlloc}, "attribute 100"},
		"a writable shared mapping": {readOnly,
			memory{kind: memoryFile, shared: true, writable: true}, []Rung{RungCopy, RungHostAlloc}, "attribute 100"},
		"memory of Allocate": {discrete, memory{kind: memoryOwn, writable: true},
			[]Rung{RungInPlace, RungCopy, RungHostAlloc}, "attribute 100"},
		"the Go heap": {discrete, memory{kind: memoryForeign, writable: true},
			[]Rung{RungCopy, RungHostAlloc}, "attribute 100"},
		"memory of a system that tells nothing": {readOnly, memory{why: "no idea"},
			[]Rung{RungCopy, RungHostAlloc}, "attribute 100"},
		"a device that registers nothing": {deviceFacts{}, tmpfs, []Rung{RungHostAlloc}, "attribute 100"},
		"a device that registers nothing, with a plain file": {deviceFacts{readOnly: true}, file, []Rung{RungHostAlloc},
			"attribute 100"},
	} {
		steps := ladder(c.device, c.memory)
		if got := allowed(steps); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
			continue
		}
		for i, s := range steps {
			expect.That(t, s.Rung == RungPageTables+Rung(i), "%s: step %d is %v", name, i, s.Rung)
		}
		first := slices.IndexFunc(steps, func(s Step) bool { return s.Refused != "" })
		if first >= 0 && !strings.Contains(steps[first].Refused, c.why) {
			t.Errorf("%s: %q, want a text with %q", name, steps[first].Refused, c.why)
		}
	}
}

func TestWithoutADeviceFilesStayMapped(t *testing.T) {
	steps := Ladder(nil, make([]byte, 10))
	expect.That(t, len(steps) == 1 && steps[0].Rung == RungHost && steps[0].Refused == "", "%v", steps)
	expect.Is(t, expect.Err(Attach(context.Background(), nil, make([]byte, 10), AttachOptions{})), device.ErrNoDevice,
		"attached to no device")
	expect.Is(t, expect.Err(Upload(context.Background(), nil, nil, make([]byte, 10), AttachOptions{})),
		device.ErrNoDevice, "uploaded to no device")
}

func TestRungsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range RungHost + 2 {
		text, _ := r.MarshalText()
		expect.That(t, string(text) == r.String() && !seen[r.String()] && r.String() != "", "%d is %q", r, text)
		seen[r.String()] = true
	}
}

// mapped writes a file of n bytes and maps it.
func mapped(t *testing.T, dir string, n int) (*Region, string) {
	t.Helper()
	path := filepath.Join(dir, "a file with spaces")
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	expect.OK(t, os.WriteFile(path, data, 0o600))
	r := expect.Must(MapFile(path))(t)
	t.Cleanup(func() { r.Close() })
	return r, path
}

func TestDescribeTellsKindsOfMemoryApart(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	anonymous := expect.Must(Allocate(100_000, Options{}))(t)
	m := describe(anonymous.Bytes()[5000:6000])
	expect.That(t, m.kind == memoryOwn, "memory of Allocate: %+v", m)
	file, path := mapped(t, t.TempDir(), 100_000)
	if m := describe(file.Bytes()[5000:99_000]); m.kind != memoryFile || m.path != path || !m.shared || m.writable ||
		m.offset != 0 || m.lo != uintptr(addressOf(file.Bytes())) || m.hi < m.lo+99_000 {
		t.Errorf("a mapped file: %+v", m)
	}
	m = describe(make([]byte, 1<<20))
	expect.That(t, m.kind == memoryForeign && m.writable && !m.shared, "the Go heap: %+v", m)
	beyond := bytesAt(uintptr(addressOf(file.Bytes())), 1<<30)
	m = describe(beyond)
	expect.That(t, m.kind == memoryUnknown && m.why != "", "a range beyond the mapping: %+v", m)
	expect.OK(t, anonymous.Close())
	expect.That(t, len(own.at) == 0, "%d closed regions are remembered", len(own.at))
}

func TestMappingsOnTmpfsAreFoundAndMappedForWriting(t *testing.T) {
	const shm = "/dev/shm"
	if runtime.GOOS != "linux" || fileSystem(shm) != "tmpfs" {
		t.Skip("no tmpfs at " + shm)
	}
	dir, err := os.MkdirTemp(shm, "khop-test-")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	r, path := mapped(t, dir, 3*os.Getpagesize())
	part := r.Bytes()[os.Getpagesize():]
	m := describe(part)
	expect.Ensure(t, m.kind == memoryFile && m.fs == "tmpfs", "%+v", m)
	again := expect.Must(mapWritable(m))(t)
	again[os.Getpagesize()+10] ^= 0xff
	expect.That(t, part[10] == again[os.Getpagesize()+10], "the second mapping is not of the same pages")
	expect.OK(t, sysUnmap(again))

	expect.OK(t, os.Rename(path, path+" gone"))
	expect.OK(t, os.WriteFile(path, make([]byte, len(r.Bytes())), 0o600))
	if b, err := mapWritable(m); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Errorf("another file of that name: %d bytes, %v", len(b), err)
	}
}

func TestReadMapsFollowsSplitMappings(t *testing.T) {
	if os.Getpagesize() != 4096 {
		t.Skip("the mappings of this test have pages of 4 KiB")
	}
	const maps = `1000-3000 r--s 00000000 fd:01 77                         /data/graph/in dices.arrow
3000-8000 r--s 00002000 fd:01 77                         /data/graph/in dices.arrow
8000-9000 r--s 00000000 fd:01 78                         /data/other
9000-a000 rw-p 00000000 00:00 0 
b000-c000 rw-p 00000000 00:00 0                          [heap]
c000-d000 rw-p 00000000 00:00 0                          [anon: Go: heap]
d000-e000 rw-s 00000000 00:01 9                          /memfd:x (deleted)
10000-11000 r--s 00000000 fd:01 79                       /data/twice
11000-12000 r--s 00004000 fd:01 79                       /data/twice
nonsense
`
	for name, c := range map[string]struct {
		lo, hi uintptr
		want   memory
	}{
		"over two lines": {0x2010, 0x7fff, memory{kind: memoryFile, path: "/data/graph/in dices.arrow",
			lo: 0x1000, hi: 0x8000, shared: true, file: fileID{0xfd, 1, 77}}},
		"a part, from 0x2000": {0x3010, 0x4000, memory{kind: memoryFile, path: "/data/graph/in dices.arrow",
			lo: 0x3000, hi: 0x8000, offset: 0x2000, shared: true, file: fileID{0xfd, 1, 77}}},
		"another place of the file": {0x10000, 0x11001, memory{why: "the range is not one mapping"}},
		"two files":                 {0x7000, 0x8001, memory{why: "the range is not one mapping"}},
		"a hole":                    {0x9000, 0xb001, memory{why: "the range is not one mapping"}},
		"begins before":             {0x800, 0x1800, memory{why: "the range is not mapped"}},
		"nothing there":             {0xf000, 0xf001, memory{why: "the range is not mapped"}},
		"anonymous":                 {0x9000, 0xa000, memory{kind: memoryForeign, writable: true}},
		"heap":                      {0xb000, 0xb010, memory{kind: memoryForeign, writable: true}},
		"named anonymous":           {0xc000, 0xd000, memory{kind: memoryForeign, writable: true}},
		"a file without name": {0xd000, 0xe000, memory{kind: memoryFile, path: "/memfd:x (deleted)", lo: 0xd000,
			hi: 0xe000, shared: true, writable: true, file: fileID{0, 1, 9}}},
	} {
		got := readMaps(strings.NewReader(maps), c.lo, c.hi)
		expect.That(t, got == c.want, "%s: %+v, want %+v", name, got, c.want)
	}
}
