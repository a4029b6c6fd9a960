package meters

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/khop-gnn/khop/internal/expect"
)

// counters is a system with these zones: name and value in microjoules; all begin anew after 1,000,000.
func counters(zones map[string][2]any) fstest.MapFS {
	root := fstest.MapFS{}
	for zone, z := range zones {
		dir := "sys/class/powercap/" + zone + "/"
		root[dir+"name"] = &fstest.MapFile{Data: []byte(fmt.Sprintln(z[0]))}
		root[dir+"energy_uj"] = &fstest.MapFile{Data: []byte(fmt.Sprintln(z[1]))}
		root[dir+"max_energy_range_uj"] = &fstest.MapFile{Data: []byte("1000000\n")}
	}
	return root
}

func TestHostEnergyIsThatOfPackagesAndMemory(t *testing.T) {
	root := counters(map[string][2]any{
		"intel-rapl:0": {"package-0", 100}, "intel-rapl:0:0": {"core", 70}, "intel-rapl:0:1": {"dram", 30},
		"intel-rapl:1": {"package-1", 900_000}, "intel-rapl:2": {"psys", 5}, "intel-rapl-mmio:0": {"package-0", 100},
	})
	h := expect.Must(findHost(root))(t)
	if got := strings.Join(h.names(), " "); got != "package-0 dram package-1" {
		t.Errorf("domains are %s", got)
	}
	since := expect.Must(h.read())(t)
	for zone, now := range map[string]string{"0": "500100", "0:1": "30", "1": "100000"} { // the last has begun anew
		root["sys/class/powercap/intel-rapl:"+zone+"/energy_uj"].Data = []byte(now)
	}
	for _, want := range []float64{0.5 + 0 + 0.2, 0} { // the second time nothing has passed
		got, err := h.advance(since)
		expect.That(t, err == nil && math.Abs(got-want) <= 1e-9, "%v J, %v; want %v", got, err, want)
	}
}

func TestHostEnergyThatCannotBeReadSaysWhy(t *testing.T) {
	unreadable := counters(map[string][2]any{"intel-rapl:0": {"package-0", 1}, "intel-rapl:1": {"package-1", 1}})
	delete(unreadable, "sys/class/powercap/intel-rapl:1/energy_uj")
	for want, root := range map[string]fstest.MapFS{
		"no /sys/class/powercap": {}, "intel-rapl:1/energy_uj": unreadable,
		"no processor package": counters(map[string][2]any{"intel-rapl:2": {"psys", 5}}),
	} {
		h, err := findHost(root)
		expect.That(t, h == nil && err != nil && strings.Contains(err.Error(), want), "%v, %v; want %q", h, err, want)
	}
}
