package disk

import (
	"math"
	"reflect"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
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

func TestCountsOfPagesAreTakenAwayFieldByField(t *testing.T) {
	a, b := PageCounts{8, 20, 60, 100}, PageCounts{2, 4, 10, 30}
	expect.That(t, a.Less(&b) == PageCounts{6, 16, 50, 70}, "difference: %+v", a.Less(&b))
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
	if each, perByte := p.Seconds(1, 0), p.Seconds(0, 1); each != 0 || !near(perByte, (65536/1e8-1/50e3)/(65536-4096)) {
		t.Errorf("%v for a request and %v a byte", each, perByte)
	}
	for _, bad := range []Probe{{Shape: p.Shape, Large: 1}, {Shape: p.Shape, Small: 1},
		{Shape: Shape{Page: 4096, Most: 4096}, Small: 1, Large: 1}} {
		got := bad.Seconds(3, 7)
		expect.That(t, near(got, 3*10e-6+7*1e-9), "where nothing was tried: %v s", got)
	}
}
