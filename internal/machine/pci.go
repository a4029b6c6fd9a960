package machine

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
)

// PCI is what the system tells about a device on the bus. Empty means unknown.
type PCI struct {
	Address  string `json:"address"`   // domain:bus:device.function
	NUMANode int    `json:"numa_node"` // of the device, -1 where the system names none
	// current speed and width, such as "32.0 GT/s PCIe x16"; a device at rest may show less
	Link string `json:"link"`
	// "off", "identity" (passed through) or how addresses are translated: "DMA", "DMA-FQ"
	IOMMU string `json:"iommu"`
}

// FindPCI returns what the system tells about the first function of a device.
func FindPCI(domain, bus, device int) PCI { return findPCI(os.DirFS("/"), domain, bus, device) }

func findPCI(root fs.FS, domain, bus, device int) PCI {
	p := PCI{Address: fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, device), NUMANode: -1}
	dir := path.Join("sys/bus/pci/devices", p.Address)
	if n, err := strconv.Atoi(text(root, path.Join(dir, "numa_node"))); err == nil && n >= 0 {
		p.NUMANode = n
	}
	speed, width := text(root, path.Join(dir, "current_link_speed")), text(root, path.Join(dir, "current_link_width"))
	if speed != "" && width != "" {
		p.Link = speed + " x" + width
	}
	p.IOMMU = text(root, path.Join(dir, "iommu_group/type"))
	if _, err := fs.Stat(root, dir); err == nil && p.IOMMU == "" {
		p.IOMMU = "off"
	}
	return p
}
