package machine

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestFindPCIReadsWhatLinuxTells(t *testing.T) {
	const dir = "sys/bus/pci/devices/0001:3b:00.0/"
	full := map[string]string{dir + "numa_node": "1\n", dir + "current_link_speed": "32.0 GT/s PCIe\n", dir +
		"current_link_width": "16\n", dir + "iommu_group/type": "DMA-FQ\n"}
	for name, c := range map[string]struct {
		files map[string]string
		want  PCI
	}{
		"everything":   {full, PCI{"0001:3b:00.0", 1, "32.0 GT/s PCIe x16", "DMA-FQ"}},
		"no IOMMU":     {map[string]string{dir + "numa_node": "-1\n"}, PCI{"0001:3b:00.0", -1, "", "off"}},
		"not a number": {map[string]string{dir + "numa_node": "x"}, PCI{"0001:3b:00.0", -1, "", "off"}},
		"nothing":      {nil, PCI{"0001:3b:00.0", -1, "", ""}},
	} {
		got := findPCI(tree(c.files), 1, 0x3b, 0)
		expect.That(t, got == c.want, "%s: %+v, want %+v", name, got, c.want)
	}
}
