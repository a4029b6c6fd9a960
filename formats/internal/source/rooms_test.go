package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// TestNamesAreNumberedAsTheyAppear through every growth of their table, and counted to the byte.
func TestNamesAreNumberedAsTheyAppear(t *testing.T) {
	ledger := limited(1 << 30)
	n := NewNames(&Budget{Memory: ledger})
	const many = 3000
	for round := range 2 {
		for i := range int64(many) {
			got, err := n.Number(fmt.Appendf(nil, "name %d", i))
			expect.Ensure(t, err == nil && got == i && (round != 0 || n.Len() == i+1),
				"round %d: name %d has the number %d of %d, %v", round, i, got, n.Len(), err)
			if slots := []int64{1 << 10, 1 << 11, 1 << 12, 1 << 13}; round == 0 && i > 1000 && i%500 == 0 {
				need := slots[0]
				for _, s := range slots {
					if need = s; 2*i < s {
						break
					}
				}
				if want := 8*need + 8*int64(cap(n.starts)) + int64(cap(n.last)); ledger.Total() != want {
					t.Errorf("%d bytes are counted for %d names, not %d", ledger.Total(), i+1, want)
				}
			}
		}
	}
	list, at := n.Strings("id"), 0
	err := list.Each(func(s string) error {
		expect.That(t, s == fmt.Sprint("name ", at), "string %d is %q", at, s)
		at++
		return nil
	})
	expect.That(t, err == nil && list.Rows == many && at == many && list.Name == "id", "%d of %d strings %q, %v", at,
		list.Rows, list.Name, err)
	stop := errors.New("stop")
	if err := list.Each(func(string) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	if v, err := n.Number([]byte("a\xff")); !errors.Is(err, graph.ErrText) || v != 0 ||
		err.Error() != `not UTF-8: "a\xff"` {
		t.Errorf("%d, %v", v, err)
	}
	long := "\xff" + strings.Repeat("x", 100)
	if _, err := n.Number([]byte(long)); err == nil || err.Error() != fmt.Sprintf("not UTF-8: %q", long[:80]) {
		t.Errorf("%v", err)
	}
	err = n.Close()
	expect.That(t, err == nil && ledger.Total() == 0, "closed: %v, %d bytes", err, ledger.Total())
}

// TestWhatHasNoRoomSaysSoAndIsClosed: names, texts, listings and stores of edges at each limit of memory and disk.
func TestWhatHasNoRoomSaysSoAndIsClosed(t *testing.T) {
	uses := map[string]func(b *Budget) (io.Closer, error){
		"names": func(b *Budget) (io.Closer, error) {
			n := NewNames(b)
			for i := range 700 {
				if _, err := n.Number(fmt.Appendf(nil, "a name of some length %d", i)); err != nil {
					says := fmt.Sprintf("ids are names, and there is no room for more than %d: ", n.Len())
					expect.That(t, strings.HasPrefix(err.Error(), says), "%v, want %q", err, says)
					return n, err
				}
			}
			return n, nil
		},
		"listing": func(b *Budget) (io.Closer, error) {
			l := NewListing(b, 8)
			for i := range int64(1000) {
				l.Add(i, i, uint64(i))
			}
			return l, l.Flush()
		},
		"spool": func(b *Budget) (io.Closer, error) {
			s := &Spool{Budget: b}
			_, err := s.Write(make([]byte, 2000))
			if err == nil {
				_, err = s.Write(make([]byte, 3<<20))
			}
			if err == nil {
				_, err = s.Write(make([]byte, 2000))
			}
			if err == nil {
				_, err = s.Bytes()
			}
			return s, err
		},
	}
	for name, use := range uses {
		for _, disk := range []int64{0, 1, 5000, 20_000, 3 << 20, 8 << 20} {
			for memory := int64(1); memory < 64<<20; memory += 1 + memory/3 {
				b := &Budget{Dir: t.TempDir(), Memory: limited(memory), Disk: disk}
				c, err := use(b)
				expect.Ensure(t, err == nil || errors.Is(err, pinned.ErrLimit) || errors.Is(err, formats.ErrSpace),
					"%s in %d bytes: %v", name, memory, err)
				if err := c.Close(); err != nil || b.Memory.Total() != 0 || b.RoomOnDisk(max(disk, 1)) != nil {
					t.Fatalf("%s in %d bytes of memory, %d of disk: closed %v, %d bytes are counted, room %v", name,
						memory, disk, err, b.Memory.Total(), b.RoomOnDisk(max(disk, 1)))
				}
				left, _ := os.ReadDir(b.Dir)
				expect.Ensure(t, len(left) == 0, "%s: left behind %v", name, left)
				if disk != 0 {
					memory += 10 * memory
				}
			}
		}
	}
}

// TestAListingKeepsNumbersBesideItsEdges of either width, and none.
func TestAListingKeepsNumbersBesideItsEdges(t *testing.T) {
	for _, width := range []int64{0, 4, 8} {
		l, n := NewListing(&Budget{Dir: t.TempDir(), Memory: limited(1 << 16)}, width), int64(0)
		for range 3 {
			for i := range int64(700) {
				l.Add(n, 2*n+i%2, uint64(n)<<33|uint64(n))
				n++
			}
			expect.That(t, l.Len() == n-700 && !l.Full(), "%d edges before they are put away, full %t", l.Len(),
				l.Full())
			if err := l.Flush(); err != nil || l.Len() != n {
				t.Fatal(err, l.Len())
			}
		}
		each := expect.Must(l.Each())(t)
		at := int64(0)
		err := each(func(b Batch) error {
			for i := range b.Src {
				if b.Src[i] != at || b.Dst[i]/2 != at || width == 0 && len(b.Columns) > 0 {
					t.Fatalf("edge %d is %d -> %d", at, b.Src[i], b.Dst[i])
				}
				want := uint64(at)<<33 | uint64(at)
				switch got := bytesOf(t, want); {
				case width == 4 && !bytes.Equal(b.Columns[0][4*i:4*i+4], got[:4]),
					width == 8 && !bytes.Equal(b.Columns[0][8*i:8*i+8], got):
					t.Fatalf("number %d is %x", at, b.Columns[0])
				}
				at++
			}
			return nil
		})
		expect.That(t, err == nil && at == n, "%d edges of %d, %v", at, n, err)
		expect.OK(t, l.Close())
	}
	l := NewListing(nil, 0)
	for i := range int64(1 << 18) {
		expect.Ensure(t, !l.Full(), "full with %d edges", i)
		l.Add(i, i, 0)
	}
	expect.That(t, l.Full(), "not full with 2^18 edges")
}

// TestBadLinesAreSkippedUpToTheLimit, the first twenty with what is wrong.
func TestBadLinesAreSkippedUpToTheLimit(t *testing.T) {
	var none *Skips
	bad := errors.New("bad")
	expect.That(t, !none.Any() && none.Skip(bad) == bad && none.Count() == 0 && none.Notes() == nil, "nil skips")
	if s := (&Skips{}); s.Any() || s.Skip(bad) != bad || s.Count() != 0 || s.Notes() != nil {
		t.Error("a limit of 0 skips")
	}
	for _, n := range []int64{1, 19, 20, 21, 22} {
		s := &Skips{Limit: n}
		for i := range n {
			err := s.Skip(Error("f", "", i, "do", fmt.Errorf("bad %d", i)))
			expect.Ensure(t, err == nil && s.Count() == i+1, "line %d: %v, %d", i, err, s.Count())
		}
		notes := s.Notes()
		if int64(len(notes)) != min(n, 20)+max(0, min(1, n-20)) || notes[0].Text != "skipped: f: row 0: bad 0; do" {
			t.Errorf("%q", notes)
		}
		last := notes[len(notes)-1]
		expect.That(t, n <= 20 || last.Text == fmt.Sprintf("skipped: %d more bad lines", n-20), "%q", last)
		err := s.Skip(Error("f", "c", 99, "do", bad))
		want := fmt.Sprintf("f: column \"c\": row 99: bad; bad lines before it that were skipped: %d, "+
			"which is as many as may be; do", n)
		expect.That(t, err != nil && err.Error() == want && errors.Is(err, bad) && s.Count() == n, "%v\nwant %s", err,
			want)
		expect.That(t, s.Skip(bad) == bad, "an error without a place is changed")
	}
}

// TestAParserIsPacedToTheByte: a record of the greatest length is read, one more byte is not; and the context ends it.
func TestAParserIsPacedToTheByte(t *testing.T) {
	for _, n := range []int64{MaxRecord, MaxRecord + 1} {
		p := NewPaced(context.Background(), io.LimitReader(zeros{}, n))
		read, err := io.Copy(io.Discard, p)
		long := err != nil && err.Error() == "a record is longer than 1048576 bytes"
		expect.That(t, read == MaxRecord && (err == nil || long) && (n <= MaxRecord || long), "%d of %d bytes, %v",
			read, n, err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	p := NewPaced(ctx, zeros{})
	if n, err := p.Read(make([]byte, 10)); n != 10 || err != nil {
		t.Error(n, err)
	}
	cancel(stop)
	if n, err := p.Read(make([]byte, 10)); n != 0 || !errors.Is(err, stop) {
		t.Error(n, err)
	}
}

// TestNodesMustHaveEdgesOrBytes: 32 to an edge beyond the first 2^20.
func TestNodesMustHaveEdgesOrBytes(t *testing.T) {
	for _, c := range []struct {
		nodes, edges int64
		sparse       bool
	}{{1 << 20, 0, false}, {1<<20 + 31, 0, false}, {1<<20 + 32, 0, true}, {1<<20 + 32, 1, false},
		{1<<20 + 64, 1, true}, {5, 0, false}, {1 << 50, 1 << 45, false}, {1<<50 + 2<<20, 1 << 45, true}} {
		expect.That(t, TooSparse(c.nodes, c.edges) == c.sparse, "%+v", c)
	}
}

// compressed packs a text.
func compressed(t *testing.T, how, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch how {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b)
	}
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	err = errors.Join(err, w.Close())
	expect.OK(t, err)
	return b.String()
}

// TestFilesAreKnownByTheirFirstBytes and opened as what they are, or refused with what to do.
func TestFilesAreKnownByTheirFirstBytes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, bytes, compression, text, says string }{
		{"plain", "0 1\n", "", "0 1\n", ""}, {"empty", "", "", "", ""}, {"short", "\x1f", "", "\x1f", ""},
		{"gzip", compressed(t, "gzip", "0 1\n"), "gzip", "0 1\n", ""},
		{"zstd", compressed(t, "zstd", "0 1\n"), "zstd", "0 1\n", ""},
		{"two", compressed(t, "gzip", "0 1\n") + compressed(t, "gzip", "2 3\n"), "gzip", "0 1\n2 3\n", ""},
		{"xz", "\xfd7zXZ\x00....", "", "", "is compressed by xz, which is not supported: decompress it first"},
		{"lz4", "\x04\x22\x4d\x18....", "", "", "is compressed by lz4, which is not supported: decompress it first"},
		{"damaged", "\x1f\x8bxxxxxxxxxxxx", "", "", "gzip: invalid header"},
		{"cut", compressed(t, "gzip", "0 1\n")[:15], "gzip", "", "unexpected EOF"},
		{"cut zstd", compressed(t, "zstd", strings.Repeat("0 1\n", 99))[:12], "zstd", "", "unexpected EOF"},
	} {
		path := filepath.Join(dir, c.name)
		expect.OK(t, os.WriteFile(path, []byte(c.bytes), 0o600))
		f, err := Open(path)
		if err != nil {
			expect.That(t, c.says != "" && err.Error() == path+": "+c.says, "%s: %v, want %q", c.name, err, c.says)
			continue
		}
		text, err := io.ReadAll(f)
		expect.That(t, (c.says != "" || err == nil && string(text) == c.text && f.Done() == int64(len(c.bytes))) &&
			(c.says == "" || err != nil && err.Error() == c.says) && f.Compression == c.compression &&
			f.Size == int64(len(c.bytes)) && f.Path == path, "%s: %q, %v; %q, %d bytes, %d read; want %q", c.name,
			text, err, f.Compression, f.Size, f.Done(), c.says)
		l := limited(1)
		err = f.Count(l)
		expect.That(t, err == nil && l.Total() == 0, "%s: a small window is counted: %v", c.name, err)
		expect.OK(t, f.Close())
	}
	_, err := Stat("-")
	expect.That(t, err != nil && err.Error() == "-: standard input is not read; write it to a file first", "%v", err)
	if _, _, err := OpenFile(dir); err == nil || err.Error() != dir+": is a directory; name a file" {
		t.Errorf("%v", err)
	}
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	st, err := Stat("/dev/null")
	expect.That(t, err != nil && st != nil &&
		err.Error() == "/dev/null: is a device; copy it to a file first: a file is read more than once", "%v", err)
}

// lookInto writes an archive and says what is in it. It fails the test where something is left.
func lookInto(t *testing.T, path string, b []byte) (text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, b, 0o600))
	budget := &Budget{Dir: t.TempDir(), Memory: limited(1 << 20)}
	x, err := OpenTree(path, budget)
	if err == nil {
		for _, name := range x.Files() {
			f, err := x.At(name).Open()
			expect.Ensure(t, err == nil, "%s: %v", name, err)
			content, err := io.ReadAll(f)
			text += fmt.Sprintf("%s %d %v, ", name, len(content), err)
			expect.OK(t, f.Close())
		}
		text += fmt.Sprint(x.Single())
		err = x.Close()
	}
	if err != nil {
		text = err.Error()
		expect.That(t, strings.Contains(text, path), "the archive is not named: %v", err)
	}
	if left, _ := os.ReadDir(budget.Dir); len(left) > 0 || budget.Memory.Total() != 0 {
		t.Errorf("after %q: %d bytes and %v are left", text, budget.Memory.Total(), left)
	}
	return text
}

// TestAnArchiveIsReadOrRefusedWhereverItIsDamaged: cut at each block and with each byte of its heads changed.
func TestAnArchiveIsReadOrRefusedWhereverItIsDamaged(t *testing.T) {
	files := [][2]string{{"a/x.txt", "0 1\n"}, {"./b.csv", strings.Repeat("1,2\n", 300)}, {".hidden", "x"}, {"c", ""}}
	for _, whole := range []string{tarball(t, "x.tar", files...), zipped(t, files...)} {
		b := expect.Must(os.ReadFile(whole))(t)
		path := filepath.Join(t.TempDir(), "x")
		look := func(b []byte) string { return lookInto(t, path, b) }
		end, step := len(b)-1024, 97 // two empty blocks are not missed
		if len(b) < 2048 {
			end, step = len(b), 13
		}
		const want = "a/x.txt 4 <nil>, b.csv 1200 <nil>, c 0 <nil>, false"
		if got := look(b); got != want {
			t.Errorf("%s: %s", whole, got)
		}
		refused := 0
		for at := 0; at < end; at += step {
			expect.That(t, look(b[:at]) != want, "%s, cut at %d of %d: nothing is missed", whole, at, len(b))
			c := bytes.Clone(b)
			c[at] ^= 0x55
			if got := look(c); strings.HasPrefix(got, path) {
				refused++
			}
		}
		expect.That(t, refused != 0, "%s: nothing is refused", whole)
	}
}

// TestAChangedFileIsNoticed: another size, time or file, and none.
func TestAChangedFileIsNoticed(t *testing.T) {
	for change, do := range map[string]func(path string) error{
		"":                         func(string) error { return nil },
		"it had 4 bytes and has 5": func(path string) error { return os.WriteFile(path, []byte("0 12\n"), 0o600) },
		"another file is in its place": func(path string) error {
			return errors.Join(os.WriteFile(path+"2", []byte("0 1\n"), 0o600), os.Rename(path+"2", path))
		},
		"no such file": os.Remove,
		"while it was read; convert it again when nobody writes to it": func(path string) error {
			st, err := os.Stat(path)
			return errors.Join(err, os.Chtimes(path, st.ModTime(), st.ModTime().Add(1e9)))
		},
	} {
		path := filepath.Join(t.TempDir(), "x")
		expect.OK(t, os.WriteFile(path, []byte("0 1\n"), 0o600))
		x, err := OpenTree(path, nil)
		if err == nil {
			err = do(path)
		}
		expect.OK(t, err)
		err = x.Unchanged()
		expect.That(t, (err == nil) == (change == "") && (err == nil || errors.Is(err, ErrChanged) &&
			strings.HasPrefix(err.Error(), path+": ") && strings.Contains(err.Error(), change)), "%q: %v", change, err)
	}
}

// TestBytesOfAFileAreMappedOnce, and those of a member lie in the archive's room.
func TestBytesOfAFileAreMappedOnce(t *testing.T) {
	path := tarball(t, "x.tar", [2]string{"a", "0123456789"}, [2]string{"b", "xyz"})
	archive := expect.Must(OpenTree(path, &Budget{Dir: t.TempDir()}))(t)
	plain := filepath.Join(t.TempDir(), "a")
	expect.OK(t, os.WriteFile(plain, []byte("0123456789"), 0o600))
	for _, at := range []Place{archive.At("a"), Local(plain)} {
		r := expect.Must(at.Raw())(t)
		for range 2 {
			b, err := r.Map()
			expect.That(t, err == nil && string(b) == "0123456789" && r.Size == 10, "%q, %v", b, err)
		}
		expect.That(t, r.Ahead(0, r.Size) == nil, "a small file is read ahead")
		expect.OK(t, r.Close())
	}
	_, err := archive.At("none").Raw()
	expect.That(t, errors.Is(err, os.ErrNotExist) && strings.Contains(err.Error(), "none"), "%v", err)
	expect.OK(t, archive.Close())
}

// TestASpoolTakesAQuarterOfTheMemoryThatIsLeft and not a byte more.
func TestASpoolTakesAQuarterOfTheMemoryThatIsLeft(t *testing.T) {
	for limit, within := range map[int64]bool{4096: true, 4095: false} {
		s := &Spool{Budget: &Budget{Dir: t.TempDir(), Memory: limited(limit)}}
		if _, err := s.Write(make([]byte, 1024)); err != nil || (s.file == nil) != within {
			t.Errorf("1024 bytes of %d: in memory %t, %v", limit, s.file == nil, err)
		}
		expect.OK(t, s.Close())
	}
}
