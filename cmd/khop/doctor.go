package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/cmd/khop/internal/paths"
	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/loader/config"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sparse"
)

type doctorCmd struct {
	Dataset string `arg:"" optional:"" help:"Dataset to give advice for."`

	jsonFlag `embed:""`
}

// diagnosis is what "khop doctor --json" prints. Scripts rely on the names.
type diagnosis struct {
	Versions versions         `json:"versions"`
	Machine  *machine.Machine `json:"machine"`
	CUDA     cudaReport       `json:"cuda"`
	Arrays   []arrayLadder    `json:"arrays"` // of the dataset, if one was given
	Disk     diskReport       `json:"disk"`   // columns on disk (--residence disk)
	Rank     rankFound        `json:"rank"`
	Paths    []paths.Choice   `json:"paths"`
	Advice   []string         `json:"advice"`
	Samplers samplersWhere    `json:"samplers"`
	Sparse   sparseWhere      `json:"sparse"`
}

// rankFound is this process among those that train together, as far as its environment says.
type rankFound struct {
	Rank  int    `json:"rank"`
	Size  int    `json:"world_size"`
	From  string `json:"from"`
	Error string `json:"error,omitempty"`
}

func findRank() rankFound {
	rank, size, from, err := config.FindRank()
	if err != nil {
		return rankFound{Error: err.Error()}
	}
	return rankFound{Rank: rank, Size: size, From: from}
}

func (r *rankFound) print(t *table) {
	if r.Error != "" {
		t.row("  rank", "none", r.Error)
	} else {
		t.row("  rank", fmt.Sprintf("%d of %d", r.Rank, r.Size), r.From)
	}
}

// sparseWhere says where sparse operations run.
type sparseWhere struct {
	Kernel string   `json:"kernel"` // of the CPU
	Device []string `json:"device"` // those that package sparse has for CUDA devices, too
	CPU    []string `json:"cpu"`    // those that run on the CPU alone
}

func whereSparseRuns() sparseWhere {
	return sparseWhere{Kernel: sparse.Kernel(),
		Device: []string{"SpMM (sum, mean)", "SDDMM", "softmax over edges", "SoftmaxBackward (its gradient)"},
		CPU:    []string{"extremes", "sums of SDDMM", "dense products", "rows of 16 bits", "khop train"}}
}

func (w *sparseWhere) print(t *table) {
	t.section("Sparse operations")
	t.row("  kernels of the CPU", w.Kernel)
	t.row("  on CUDA devices, too", strings.Join(w.Device, ", "))
	t.row("  on the CPU alone", strings.Join(w.CPU, ", "))
}

// samplersWhere says where samplers run.
type samplersWhere struct {
	Device []string `json:"device"` // those that run on CUDA devices, too
	CPU    []string `json:"cpu"`    // those that run on the CPU alone
	Why    []string `json:"why"`    // of each of these
	Flags  []string `json:"flags"`  // options with which the others do: none
	Host   []string `json:"host"`   // what the host does of batches that devices make
}

func whereSamplersRun() (w samplersWhere) {
	for i := range samplers.All {
		if s := &samplers.All[i]; s.OnDevice() {
			w.Device = append(w.Device, s.Name)
		} else {
			w.CPU, w.Why = append(w.CPU, s.Name), append(w.Why, s.Why)
		}
	}
	w.Flags = []string{}
	w.Host = []string{"looks up seeds that are edges", "samples where the topology stays on disk"}
	return w
}

func (w *samplersWhere) print(t *table) {
	t.section("Samplers")
	t.row("  on CUDA devices, too", strings.Join(w.Device, ", "))
	for i, name := range w.CPU {
		t.row("  on the CPU alone", name+": "+w.Why[i])
	}
	t.row("  for batches of a device the host", strings.Join(w.Host, ", "))
}

// Run probes the machine and prints what follows from it.
func (c *doctorCmd) Run(env *environment) error {
	d := diagnosis{Versions: currentVersions(), Machine: machine.Probe(), Arrays: []arrayLadder{},
		Rank: findRank(), Samplers: whereSamplersRun(), Sparse: whereSparseRuns()}
	load := paths.Load{CopyKernel: gather.Kernel(), DeviceNode: -1}
	var dev *device.Device
	d.CUDA, dev = probeCUDA()
	if dev != nil {
		defer dev.Close()
	}
	d.Disk = probeDisk(env.ctx, nil)
	if c.Dataset != "" {
		ds, err := remote.Open(env.ctx, c.Dataset, remote.Options{})
		if err != nil {
			return err
		}
		load.TopologyBytes, load.ColumnBytes = sizes(ds.Graph())
		d.Arrays = ladders(dev, ds)
		d.Disk = probeDisk(env.ctx, ds)
		if err := ds.Close(); err != nil {
			return err
		}
	}
	d.decide(&load)
	return c.show(env, d, d.print)
}

// decide fills in what follows from what was found.
func (d *diagnosis) decide(load *paths.Load) {
	load.DeviceWhy = "no CUDA device: " + d.CUDA.Reason
	if d.CUDA.Reason == "" {
		first := d.CUDA.Devices[0]
		load.Device, load.DeviceNode = fmt.Sprintf("%s (%s)", first.Device, first.Name), first.PCI.NUMANode
		load.DeviceFree, load.DeviceWhy = first.MemoryFree, "the first CUDA device, which --device auto takes"
	}
	var rungs []string
	for _, a := range d.Arrays {
		if name := a.Rung.String(); !slices.Contains(rungs, name) {
			rungs = append(rungs, name)
		}
		if a.Rung == pinned.RungCopy || a.Rung == pinned.RungHostAlloc {
			load.CopyBytes += a.Bytes
		}
	}
	load.HostRungs = strings.Join(rungs, " or ")
	d.Paths, d.Advice = paths.Plan(d.Machine, *load), paths.Advise(d.Machine, *load)
	if d.Advice == nil {
		d.Advice = []string{}
	}
}

func (d *diagnosis) print(env *environment) error {
	t := newTable(env.stdout)
	t.row(fmt.Sprintf("khop %s, %s", d.Versions.Version, d.Versions.Go))
	d.printFound(t)
	d.Rank.print(t)
	d.CUDA.print(t)
	printLadders(t, d.Arrays)
	t.section("Paths")
	for _, p := range d.Paths {
		t.row("  "+p.Stage, p.Path, p.Why)
	}
	path, why := d.Disk.row()
	t.row("  columns on disk", path, why)
	d.Samplers.print(t)
	d.Sparse.print(t)
	t.section("Advice")
	for _, a := range d.Advice {
		t.row("  - " + a)
	}
	if len(d.Advice) == 0 {
		t.row("  nothing: this machine is set up well")
	}
	return t.flush()
}

// printFound says what the machine has besides devices.
func (d *diagnosis) printFound(t *table) {
	m := d.Machine
	t.section("Found")
	t.row("  system", or(strings.TrimSpace(m.OS+"/"+m.Arch+" "+m.Kernel)))
	t.say("  processor", "%s, %d logical, %d used at a time", or(m.Processor), m.Cores, m.Threads)
	t.row("  instructions", or(strings.Join(m.Features, " ")))
	cache := machine.Bytes(m.CacheBytes)
	if m.CacheAssumed {
		cache += ", assumed: the system does not tell"
	}
	t.row("  last-level cache", cache)
	t.say("  memory", "%s, %s available", size(m.MemoryTotal), size(m.MemoryAvailable))
	group := "memory: " + limit(m.MemoryLimit)
	if _, room, ok := m.GroupRoom(); ok {
		group += fmt.Sprintf(", %s in use, room for %s of data", machine.Bytes(m.MemoryInGroup),
			machine.Bytes(max(room, 0)))
	}
	quota := "no quota"
	if m.CPUQuota > 0 {
		quota = fmt.Sprintf("%.3g processors", m.CPUQuota)
	}
	t.row("  control group", group+"; processor time: "+quota)
	t.row("  locked memory", limit(m.LockLimit)+" (for information: mapping and copying need none)")
	t.say("  pages", "%s; huge pages: %s, defrag: %s, %s each", machine.Bytes(m.PageSize),
		or(m.HugePages.Mode), or(m.HugePages.Defrag), size(m.HugePageBytes))
	t.row("  NUMA nodes", max(m.NUMANodes, 1))
}

// sizes returns the bytes of a graph's structure, and of the columns that a loader takes along by default.
func sizes(g *graph.Graph) (topology, columns int64) {
	topology = int64(len(g.Indptr()))*8 + int64(len(g.Indices().Bytes())) + int64(len(g.Types().Bytes()))
	for t := range g.Schema().Nodes {
		for _, role := range []graph.Role{graph.Feature, graph.Label} {
			if c, ok := g.NodeRole(t, role); ok {
				columns += int64(len(c.Bytes()))
			}
		}
	}
	return topology, columns
}

func or(s string) string { return cmp.Or(s, "unknown") }

func size(n int64) string {
	if n == 0 {
		return "unknown"
	}
	return machine.Bytes(n)
}

func limit(n int64) string {
	if n == machine.Unlimited {
		return "no limit"
	}
	return size(n)
}
