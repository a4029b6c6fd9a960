package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/cmd/khop/internal/paths"
	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/sparse"
)

// diagnose runs doctor and returns what it found.
func diagnose(t *testing.T, args ...string) (d struct {
	CUDA   cudaReport `json:"cuda"`
	Arrays []struct {
		Array  string                           `json:"array"`
		Bytes  int64                            `json:"bytes"`
		Rung   string                           `json:"rung"`
		Better []struct{ Rung, Refused string } `json:"better"`
	} `json:"arrays"`
	Rank  rankFound                           `json:"rank"`
	Paths []struct{ Stage, Path, Why string } `json:"paths"`
}) {
	t.Helper()
	text := must(t, append([]string{"doctor", "--json"}, args...)...)
	err := json.Unmarshal([]byte(text), &d)
	expect.Ensure(t, err == nil, "%v in %s", err, text)
	return d
}

func TestDoctorSaysWhichDevicesThereAreOrWhyNone(t *testing.T) {
	d := diagnose(t)
	text := must(t, "doctor")
	if device.Count() == 0 {
		want := "no CUDA device: " + device.Reason()
		if d.CUDA.Reason == "" || len(d.CUDA.Devices) != 0 || d.Paths[0].Path != "cpu" || d.Paths[0].Why != want ||
			!strings.Contains(text, want) {
			t.Errorf("%+v, %+v and %s", d.CUDA, d.Paths[0], text)
		}
		return
	}
	for _, found := range d.CUDA.Devices {
		if found.Name == "" || found.SMs == 0 || found.MemoryBytes == 0 || found.Kernels == "" ||
			!strings.Contains(text, found.Kernels) ||
			len(found.Attributes) != len(memoryAttributes) || !strings.Contains(text, found.Name) {
			t.Errorf("%+v in %s", found, text)
		}
	}
	if d.CUDA.Reason != "" || len(d.CUDA.Devices) != device.Count() || d.CUDA.Driver == "" ||
		!strings.HasPrefix(d.Paths[0].Path, "cuda:0") {
		t.Errorf("%+v, %+v", d.CUDA, d.Paths[0])
	}
}

func TestDoctorSaysHowEachArrayWouldBeAddressed(t *testing.T) {
	data := small(t)
	d := diagnose(t, data)
	seen := map[string]bool{}
	for _, a := range d.Arrays {
		seen[a.Array] = true
		expect.That(t, a.Bytes != 0 && a.Rung != "", "%+v", a)
		expect.That(t, device.Count() != 0 || a.Rung == pinned.RungHost.String(), "without a device %s would be %s",
			a.Array, a.Rung)
		for _, b := range a.Better {
			expect.That(t, b.Rung != a.Rung && b.Refused != "", "%s: %+v is better than %s", a.Array, b, a.Rung)
		}
	}
	text := must(t, "doctor", data)
	registers := slices.ContainsFunc(d.Arrays, func(a struct {
		Array  string                           `json:"array"`
		Bytes  int64                            `json:"bytes"`
		Rung   string                           `json:"rung"`
		Better []struct{ Rung, Refused string } `json:"better"`
	}) bool {
		return a.Rung == pinned.RungReadOnly.String() || a.Rung == pinned.RungInPlace.String()
	})
	said := strings.Contains(text, "--host-pages measured")
	expect.That(t, said == registers, "registered: %t, but the choice of pages is named: %t", registers, said)
	for _, name := range []string{"graph/indptr.arrow", "graph/indices.arrow", "nodes/n0/feature.arrow",
		"nodes/n0/label.arrow"} {
		if !seen[name] || !strings.Contains(text, name) {
			t.Errorf("nothing about %s among %v", name, seen)
		}
	}
}

func TestDoctorNamesTheDeviceThatAutoTakes(t *testing.T) {
	usable := deviceReport{Device: "cuda:1", Name: "a board"}
	for _, c := range []struct {
		cuda cudaReport
		path string
	}{
		{cudaReport{Reason: "no driver"}, "cpu"},
		{cudaReport{Devices: []deviceReport{usable}}, "cuda:1 (a board)"},
		{cudaReport{Reason: "cuda:0 cannot be opened", Devices: []deviceReport{{Device: "cuda:0"}, usable}}, "cpu"},
	} {
		d := diagnosis{Machine: machine.Probe(), CUDA: c.cuda}
		if d.decide(&paths.Load{}); d.Paths[0].Path != c.path {
			t.Errorf("%+v: batches are made on %s, want %s", c.cuda, d.Paths[0].Path, c.path)
		}
	}
}

// TestDoctorSaysWhichSparseOperationsDevicesHave holds what doctor says to what package sparse has.
func TestDoctorSaysWhichSparseOperationsDevicesHave(t *testing.T) {
	said := strings.ToLower(strings.Join(whereSparseRuns().Device, ", "))
	kernels := reflect.TypeFor[*sparse.DeviceKernels]()
	if n := len(whereSparseRuns().Device); n != kernels.NumMethod()-1 { // without Close
		t.Errorf("doctor names %d operations: %s", n, said)
	}
	for i := range kernels.NumMethod() {
		if name := kernels.Method(i).Name; name != "Close" && !strings.Contains(said, strings.ToLower(name)) {
			t.Errorf("doctor does not name %s: %s", name, said)
		}
	}
}

// doctor, khop samplers and two pages list which sampler runs where: all agree with the samplers' own descriptions.
func TestWhatRunsWhereIsSaidAlike(t *testing.T) {
	w, device, cpu := whereSamplersRun(), []string{}, []string{}
	for i := range samplers.All {
		k := &samplers.All[i]
		_, ok := expect.Must(k.Make(nil))(t).(sampling.DeviceSampler)
		if ok {
			device = append(device, k.Name)
		} else {
			cpu = append(cpu, k.Name)
		}
	}
	expect.That(t, slices.Equal(w.Device, device) && slices.Equal(w.CPU, cpu), "doctor: on devices %v, on the CPU %v; "+
		"samplers say %v and %v", w.Device, w.CPU, device, cpu)
	listed := struct{ Samplers []samplerRecord }{}
	expect.OK(t, json.Unmarshal([]byte(must(t, "samplers", "--json")), &listed))
	for _, s := range listed.Samplers {
		on := slices.Contains(device, s.Name)
		expect.That(t, s.Device == on, "khop samplers: %s runs on devices: %v", s.Name, s.Device)
		expect.That(t, (s.Why == "") == on, "khop samplers: %s runs on devices: %v, reason %q", s.Name, on, s.Why)
	}

	said := regexp.MustCompile(`(?s)\nAll run on the CPU and on a device but (.*?), for which`).
		FindStringSubmatch(page(t, "docs/cli.md"))
	expect.Ensure(t, said != nil, "docs/cli.md does not say what runs where")
	inOrder := slices.Sorted(slices.Values(cpu))
	expect.That(t, slices.Equal(slices.Sorted(slices.Values(inBackquotes(said[1]))), inOrder),
		"docs/cli.md: %q", said)
	inTable(t, cpu)

	about, kernels := page(t, "sampling/doc.go"), regexp.MustCompile(
		`__global__ void (?:__launch_bounds__\S* )?([a-z]+_)\w+`)
	for _, file := range expect.Must(filepath.Glob("../../sampling/*.cu"))(t) {
		text := string(expect.Must(os.ReadFile(file))(t))
		for _, kernel := range kernels.FindAllStringSubmatch(text, -1) {
			expect.That(t, strings.Contains(about, kernel[1]+"*"), "sampling/doc.go has no kernels %s*", kernel[1])
		}
	}
}

// inTable compares the table of docs/sampling.md.
func inTable(t *testing.T, cpu []string) {
	t.Helper()
	_, rest, _ := strings.Cut(page(t, "docs/sampling.md"), "| | on a device | on the CPU alone\n")
	on := map[string][]string{}
	for row := range strings.Lines(rest) {
		cells := strings.Split(row, "|")
		if len(cells) != 3 || !strings.HasPrefix(cells[0], "`") {
			if len(on) > 0 {
				break
			}
			continue
		}
		for _, name := range inBackquotes(cells[0]) {
			on[name] = []string{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])}
		}
	}
	for i := range samplers.All {
		k := &samplers.All[i]
		want := []string{"with all options", ""}
		if slices.Contains(cpu, k.Name) {
			want = []string{"", "with all options"}
		}
		got := on[k.Struct()]
		expect.That(t, slices.Equal(got, want), "docs/sampling.md of %s: %q, want %q", k.Struct(), got, want)
	}
}

// inBackquotes returns what stands between backquotes.
func inBackquotes(text string) (names []string) {
	for _, m := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// page returns a file of the tree.
func page(t *testing.T, name string) string {
	t.Helper()
	return string(expect.Must(os.ReadFile(filepath.Join("../..", name)))(t))
}

func TestRanksComeFromTheLauncherWhereNoneIsSaid(t *testing.T) {
	data := filepath.Join(t.TempDir(), "g.khop")
	must(t, "generate", "rmat", data, "--nodes", "600", "--edges", "3000", "--features", "2")
	sample := []string{"sample", data, "--seeds", "all", "--batch-size", "100", "--digest"}
	want := must(t, append(sample, "--rank", "1", "--world-size", "3")...)
	t.Setenv("SLURM_PROCID", "1")
	t.Setenv("SLURM_NTASKS", "3")
	expect.That(t, must(t, sample...) == want, "the launcher's rank is not taken")
	rank := diagnose(t).Rank
	expect.That(t, rank.Rank == 1 && rank.Size == 3 && strings.HasPrefix(rank.From, "SLURM_"), "doctor: %+v", rank)
	all := must(t, append(sample, "--rank", "0", "--world-size", "1")...)
	expect.That(t, strings.Count(all, "\n") == 6, "what is said does not win: %s", all)
	t.Setenv("SLURM_PROCID", "3")
	expect.That(t, strings.Contains(diagnose(t).Rank.Error, "rank 3 of 3"), "%+v", diagnose(t).Rank)
}
