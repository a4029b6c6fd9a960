package disk

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/pinned/pinnedtest"
)

// numberedCounts has another number in each field.
func numberedCounts(from int64) (c Counts) {
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(from + int64(i*i))
	}
	return c
}

func TestCountsAreAddedTakenAwayAndMultipliedFieldByField(t *testing.T) {
	a, b := numberedCounts(1000), numberedCounts(7)
	sum, n := a, reflect.ValueOf(a).NumField()
	sum.Add(b)
	for name, got := range map[string]Counts{"sum": sum, "difference": a.Less(&b), "thrice": a.Times(3)} {
		for i := range n {
			x, y := reflect.ValueOf(a).Field(i).Int(), reflect.ValueOf(b).Field(i).Int()
			want := map[string]int64{"sum": x + y, "difference": x - y, "thrice": 3 * x}[name]
			if is := reflect.ValueOf(got).Field(i).Int(); is != want {
				t.Errorf("%s of %s: %d, want %d", name, reflect.TypeOf(a).Field(i).Name, is, want)
			}
		}
	}
}

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
	if got := p.memory(); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

// What a disk takes is linear in requests and bytes, through the two points that were tried.
func TestADiskTakesWhatItsProbeFound(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
	p := Probe{Shape: Shape{Page: 4096, Most: 1 << 16}, Small: 50_000, Large: 2e9}
	if got := p.Seconds(1000, 1000*4096); !near(got, 0.02) {
		t.Errorf("1,000 small requests take %v s", got)
	}
	if got := p.Seconds(1000, 1000<<16); !near(got, 1000*65536/2e9) {
		t.Errorf("1,000 large requests take %v s", got)
	}
	p.Large = 4e9 // a large request takes less than a small one: then the bytes cost nothing
	if got := p.Seconds(10, 1<<40); !near(got, 10/50e3) {
		t.Errorf("requests that cost the same at any size take %v s", got)
	}
	p.Large = 1e8 // and here the bytes are all that costs
	if each, perByte := p.cost(); each != 0 || !near(perByte, (65536/1e8-1/50e3)/(65536-4096)) {
		t.Errorf("%v for a request and %v a byte", each, perByte)
	}
	for _, bad := range []Probe{{Shape: p.Shape, Large: 1}, {Shape: p.Shape, Small: 1},
		{Shape: Shape{Page: 4096, Most: 4096}, Small: 1, Large: 1}} {
		if got := bad.Seconds(3, 7); !near(got, 3*10e-6+7*1e-9) {
			t.Errorf("where nothing was tried: %v s", got)
		}
	}
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
				if l.Shape != p.Shape || l.Rows != bytes/512 || l.RowBytes != 512 {
					t.Errorf("%+v, probed %+v", l, p.Shape)
				}
			}
			name, refused := Engine()
			if engine == "threads" {
				name, refused = "threads", ""
			}
			if p.Engine != name || p.Refused != refused {
				t.Errorf("engine %q, refused %q; want %q, %q", p.Engine, p.Refused, name, refused)
			}
			direct, why := r.files[0].Direct()
			if r.files[0].Path() != path || direct != (why == "") || p.Buffered != why {
				t.Errorf("%s is read past the page cache: %v, %q; %q was said", r.files[0].Path(), direct, why,
					p.Buffered)
			}
			if err := r.Close(); err != nil || ledger.Total() != 0 {
				t.Errorf("%d bytes are left: %v", ledger.Total(), err)
			}
			if _, err := r.files[0].file.Stat(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("the file is open still: %v", err)
			}
		}
	}
}
