package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// cudaReport is what doctor says about CUDA. Scripts rely on the names.
type cudaReport struct {
	Driver  string         `json:"driver"` // CUDA version that the driver supports, such as "12.4"; empty without one
	Reason  string         `json:"reason"` // why there is no device; empty if there is one
	Devices []deviceReport `json:"devices"`
}

type deviceReport struct {
	Device      string         `json:"device"` // "cuda:0"
	Name        string         `json:"name"`
	UUID        string         `json:"uuid"` // the same in every process; an ordinal is not
	MPS         bool           `json:"mps"`
	Compute     string         `json:"compute"` // compute capability
	SMs         int            `json:"sms"`
	MemoryBytes int64          `json:"memory_bytes"`
	MemoryFree  int64          `json:"memory_free_bytes"`
	PCI         machine.PCI    `json:"pci"`
	Kernels     string         `json:"kernels"`    // what code of theirs the driver takes
	Attributes  map[string]int `json:"attributes"` // those that decide how host memory is addressed
	Error       string         `json:"error,omitempty"`
}

// memoryAttributes are the attributes that doctor reports, in order.
var memoryAttributes = []struct {
	name string
	attr device.Attr
}{
	{"unified_addressing", device.AttrUnifiedAddressing}, {"host_register", device.AttrHostRegister},
	{"host_pointer_for_registered", device.AttrHostPointerForRegistered},
	{"read_only_register", device.AttrReadOnlyRegister},
	{"pageable_access", device.AttrPageableAccess}, {"pageable_uses_host_page_tables",
		device.AttrPageableUsesHostPageTables},
	{"integrated", device.AttrIntegrated},
}

// arrayLadder is how a device would address an array of a dataset.
type arrayLadder struct {
	Array  string        `json:"array"` // its file, within the dataset
	Bytes  int64         `json:"bytes"`
	Rung   pinned.Rung   `json:"rung"`
	Better []pinned.Step `json:"better"` // the better rungs, and why each is refused
}

// probeCUDA reports on every device and returns the first one, which --device auto takes, for the caller to close; nil,
// and the reason, where there is none or it cannot be opened.
func probeCUDA() (r cudaReport, first *device.Device) {
	r = cudaReport{Reason: device.Reason(), Devices: []deviceReport{}}
	if v, err := device.DriverVersion(); err == nil {
		r.Driver = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	for i := range device.Count() {
		d, err := device.Open(i)
		if err != nil {
			r.Devices = append(r.Devices, deviceReport{Device: fmt.Sprintf("cuda:%d", i),
				PCI: machine.PCI{NUMANode: -1}, Error: err.Error()})
			if i == 0 {
				r.Reason = "cuda:0 cannot be opened: " + err.Error()
			}
			continue
		}
		r.Devices = append(r.Devices, reportDevice(d))
		if i == 0 {
			first = d
		} else {
			d.Close()
		}
	}
	return r, first
}

func reportDevice(d *device.Device) deviceReport {
	major, minor := d.Compute()
	r := deviceReport{
		Device: fmt.Sprintf("cuda:%d", d.Ordinal()), Name: d.Name(), UUID: d.UUID(), MPS: d.MPS(), SMs: d.SMs(),
		Attributes: map[string]int{}, Compute: fmt.Sprintf("%d.%d", major, minor), PCI: machine.FindPCI(d.PCI()),
	}
	var err error
	if r.MemoryFree, r.MemoryBytes, err = d.Memory(); err == nil {
		r.Kernels, err = cuda.TryKernels(d)
	}
	if err != nil {
		r.Error = err.Error()
	}
	for _, a := range memoryAttributes {
		r.Attributes[a.name] = d.Attribute(a.attr)
	}
	return r
}

// ladders says for every array of a dataset that batches are made from how the device would address it.
func ladders(dev *device.Device, ds *formats.Dataset) []arrayLadder {
	all := []arrayLadder{}
	columns := ds.Manifest().Columns
	for i := range columns {
		info := &columns[i]
		b := arrayBytes(ds.Graph(), info)
		if len(b) == 0 {
			continue
		}
		steps := pinned.Ladder(dev, b)
		held := slices.IndexFunc(steps, func(s pinned.Step) bool { return s.Refused == "" })
		all = append(all, arrayLadder{Array: info.Parts[0].Path, Bytes: int64(len(b)), Rung: steps[held].Rung,
			Better: steps[:held]})
	}
	return all
}

// arrayBytes returns the memory of an array of the dataset; nothing for lists of strings and edge ids, which no device
// reads.
func arrayBytes(g *graph.Graph, info *formats.ArrayInfo) []byte {
	var t unified.Tensor
	switch info.Owner {
	case formats.OwnerGraph:
		switch info.Name {
		case "indptr":
			t = unified.FromSlice(g.Indptr())
		case "indices":
			t = g.Indices()
		case "type":
			t = g.Types()
		}
	case formats.OwnerEdges:
		t, _ = g.EdgeColumn(info.Name)
	default:
		var node int
		if _, err := fmt.Sscanf(info.Owner, "nodes/%d", &node); err == nil {
			t, _ = g.NodeColumn(node, info.Name)
		}
	}
	return t.Bytes()
}

// print writes the part of the report that is for people.
func (r *cudaReport) print(t *table) {
	t.section("CUDA")
	if r.Driver != "" {
		t.row("  driver", "CUDA "+r.Driver)
	}
	if r.Reason != "" {
		t.row("  device", "no CUDA device: "+r.Reason)
	}
	for i := range r.Devices {
		d := &r.Devices[i]
		if d.Name == "" {
			t.row("  "+d.Device, "cannot be opened: "+d.Error)
			continue
		}
		t.row("  "+d.Device, fmt.Sprintf("%s, compute capability %s, %d SMs, %s free of %s", d.Name, d.Compute, d.SMs,
			size(d.MemoryFree), size(d.MemoryBytes)))
		node := "unknown"
		if d.PCI.NUMANode >= 0 {
			node = fmt.Sprint(d.PCI.NUMANode)
		}
		t.row("", or(d.UUID))
		t.say("", "bus %s, link %s, NUMA node %s, IOMMU %s", d.PCI.Address, or(d.PCI.Link), node, or(d.PCI.IOMMU))
		var attributes []string
		for _, a := range memoryAttributes {
			attributes = append(attributes, fmt.Sprintf("%s %d", a.name, d.Attributes[a.name]))
		}
		t.row("", strings.Join(attributes, ", "))
		if d.Kernels != "" {
			t.row("", "kernels: "+d.Kernels)
		}
		if d.MPS {
			t.row("", "MPS runs: kernels of several processes run at the same time")
		} else {
			t.row("", device.WithoutMPS)
		}
		if d.Error != "" {
			t.row("", d.Error)
		}
	}
}

// printLadders writes how each array would be addressed. Reasons that several arrays share are written once.
func printLadders(t *table, all []arrayLadder) {
	if len(all) == 0 {
		return
	}
	t.section("Arrays, as a device would address them in host memory")
	var reasons []string
	for _, a := range all {
		var notes []string
		for _, s := range a.Better {
			text := fmt.Sprintf("not %v: %s", s.Rung, s.Refused)
			at := slices.Index(reasons, text)
			if at < 0 {
				at = len(reasons)
				reasons = append(reasons, text)
			}
			notes = append(notes, fmt.Sprintf("[%d]", at+1))
		}
		t.row("  "+a.Array, machine.Bytes(a.Bytes), a.Rung, strings.Join(notes, ""))
	}
	for i, text := range reasons {
		t.row(fmt.Sprintf("  [%d] %s", i+1, text))
	}
	if slices.ContainsFunc(all, func(a arrayLadder) bool {
		return a.Rung == pinned.RungReadOnly || a.Rung == pinned.RungInPlace
	}) {
		t.row("  Registered columns lie on the small pages of their files; --host-pages measured tries a copy on " +
			"huge pages when loading begins.")
	}
}

// diskReport says how columns on disk would be read.
type diskReport struct {
	Engine  string `json:"engine"`  // "io_uring" or "threads"
	Refused string `json:"refused"` // why it is not io_uring
	// Probe is what the disk gives under the dataset's largest column; null without a dataset.
	Probe *disk.Probe `json:"probe"`
}

// probeDisk finds out how columns of a dataset, which may be nil, would be read from disk.
func probeDisk(ctx context.Context, ds *formats.Dataset) (d diskReport) {
	d.Engine, d.Refused = diskio.Engine()
	if ds == nil {
		return d
	}
	c := largestColumn(ds.Graph())
	if !c.Valid() || c.RowBytes() == 0 {
		return d
	}
	r, _, err := diskio.Open(ctx, []diskio.Mapped{{Bytes: c.Bytes(), RowBytes: c.RowBytes()}}, diskio.ReaderOptions{})
	if err != nil {
		d.Refused = err.Error()
		return d
	}
	p := r.Probe()
	d.Probe = &p
	if err := r.Close(); err != nil {
		d.Refused = err.Error()
	}
	return d
}

func largestColumn(g *graph.Graph) (largest unified.Tensor) {
	s := g.Schema()
	for t := range s.Nodes {
		for _, c := range s.Nodes[t].Columns {
			if x, _ := g.NodeColumn(t, c.Name); len(x.Bytes()) > len(largest.Bytes()) {
				largest = x
			}
		}
	}
	return largest
}

// describeProbe says in a few words how a disk is read.
func describeProbe(p *disk.Probe) string {
	how := "past the page cache"
	if p.Buffered != "" {
		how = "through the page cache (" + p.Buffered + ")"
	}
	engine := p.Engine
	if p.Refused != "" {
		engine += " (" + p.Refused + ")"
	}
	return fmt.Sprintf("%s, depth %d, %s", engine, p.Depth, how)
}

func (d *diskReport) row() (path, why string) {
	path, why = d.Engine, "--residence disk reads columns so"
	if d.Refused != "" {
		why = d.Refused
	}
	if p := d.Probe; p != nil {
		path = describeProbe(p)
		if why = "the file is too small to try"; p.Small > 0 {
			why = fmt.Sprintf("%.0f requests/s of %s, %s/s in requests of %s", p.Small, machine.Bytes(p.Page),
				machine.Bytes(int64(p.Large)), machine.Bytes(p.Most))
		}
	}
	return path, why
}
