package diskio

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/pinned/pinnedtest"
)

func TestThePlansMemoryIsThatOfItsLists(t *testing.T) {
	p := Plan{}
	v, want := reflect.ValueOf(&p).Elem(), int64(0)
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Slice {
			continue
		}
		n := 10 + 3*i
		reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem().Set(reflect.MakeSlice(f.Type(), 0, n))
		want += int64(n) * int64(f.Type().Elem().Size())
	}
	got := p.memory()
	expect.That(t, got == want, "%d bytes, want %d", got, want)
}

// A file that is large enough is tried when it is opened, and read as was found best; a small one by default.
func TestALargeFileIsTriedWhenItIsOpened(t *testing.T) {
	for _, engine := range []string{"", "threads"} {
		for _, bytes := range []int64{64<<16 - 4096, 64 << 16} {
			path := filepath.Join(t.TempDir(), "column")
			m := Mapped{pinnedtest.Map(t, path, 0, make([]byte, bytes)), 512}
			var ledger pinned.Ledger
			r, layouts, err := Open(background, []Mapped{m, m}, ReaderOptions{Engine: engine,
				Memory: pinned.Options{Ledger: &ledger}})
			mustOpen(t, err)
			p := r.Probe()
			if held := ledger.Total(); held != StagingBytes || held != mostDepth*p.Most {
				t.Errorf("%d bytes of staging, said are %d", held, StagingBytes)
			}
			tried := bytes >= 64<<16
			if tried != (p.Small > 0) || tried != (p.Large > 0) || r.limit != int64(p.Depth) ||
				!slices.Contains([]int{16, 32, 64, 128}, p.Depth) || !tried && (p.Depth != 128 ||
				p.Gap != defaultGap) ||
				p.Gap < 0 || p.Gap > max(p.Most/4, defaultGap) || p.Gap%p.Page != 0 {
				t.Errorf("%d bytes: %+v, %d requests at a time", bytes, p, r.limit)
			}
			for _, l := range layouts {
				expect.That(t, l.Shape == p.Shape && l.Rows == bytes/512 && l.RowBytes == 512, "%+v, probed %+v", l,
					p.Shape)
			}
			name, refused := Engine()
			if engine == "threads" {
				name, refused = "threads", ""
			}
			expect.That(t, p.Engine == name && p.Refused == refused, "engine %q, refused %q; want %q, %q", p.Engine,
				p.Refused, name, refused)
			direct, why := r.files[0].Direct()
			expect.That(t, r.files[0].Path() == path && direct == (why == "") && p.Buffered == why,
				"%s is read past the page cache: %v, %q; %q was said", r.files[0].Path(), direct, why, p.Buffered)
			err = r.Close()
			expect.That(t, err == nil && ledger.Total() == 0, "%d bytes are left: %v", ledger.Total(), err)
			expect.Is(t, expect.Err(r.files[0].file.Stat()), os.ErrClosed, "the file is open still")
		}
	}
}
