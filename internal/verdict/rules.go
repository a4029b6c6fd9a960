package verdict

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Rules are in the order in which they are asked: what causes others comes first.
var Rules = []Rule{
	{Name: "slow loop", Limit: "consumer",
		When: fmt.Sprintf("the loop waited less than %s of the time, and workers waited for slots %s of theirs or "+
			"more", percent(waiting), percent(atRest)),
		Then: "nothing in the loader: the loop's own steps",
		met:  func(f *Facts) bool { return f.idle() >= atRest },
		said: func(f *Facts) string {
			n := float64(f.Batches)
			return fmt.Sprintf("The loader waited for the loop, whose own steps took %s of the time: %s a batch, "+
				"where the loader needs %s.", percent(f.Body.Seconds()/f.Seconds), duration(f.Body.Seconds()/n),
				duration(f.work()/float64(f.Workers)/n))
		},
		change: func(*Facts, *Verdict) {}},
	{Name: "busy machine", Limit: "processors", waits: true,
		When: fmt.Sprintf("others took %s of the processors or more, all together %s; workers waited less than %s "+
			"for rows", percent(foreign), percent(crowded), percent(fetching)),
		Then: "end or move what else runs",
		met: func(f *Facts) bool {
			cores := float64(f.Cores)
			return f.Own >= 0 && f.of(f.Disk) < fetching && f.Others >= foreign*cores && f.Own+f.Others >= crowded*cores
		},
		said: func(f *Facts) string {
			return fmt.Sprintf("Other programs took %.1f of the %d processors.", f.Others, f.Cores)
		},
		change: func(_ *Facts, v *Verdict) { v.Advice = "to end or move what else runs here" }},
	{Name: "page cache lost", Limit: "memory", waits: true,
		When: fmt.Sprintf("mapped dataset; pages read from the disk took %s of the workers' time or more, at 0.1 ms "+
			"each", percent(faulting)),
		Then: "`residence` disk, or more memory",
		met:  func(f *Facts) bool { return f.Mapped && f.faulted() >= faulting },
		said: func(f *Facts) string {
			return fmt.Sprintf("Memory does not keep the dataset: workers waited for %s pages that were read from its "+
				"files again.", humanize.Comma(int64(f.Faults)))
		},
		change: func(f *Facts, v *Verdict) {
			v.Option, v.Value = "Residence", "disk"
			v.Advice = "more memory"
			v.Gain = f.within(f.Seconds * (1 - min(f.faulted(), 1)*f.waited()))
		}},
	{Name: "few slots", Limit: "slots", waits: true,
		When: fmt.Sprintf("workers waited for free slots %s of their time or more, though the loop waited too",
			percent(uneven)),
		Then: "`prefetch`, four times as many",
		met:  func(f *Facts) bool { return f.idle() >= uneven },
		said: func(f *Facts) string {
			return fmt.Sprintf("Workers waited for free slots %s of their time: batches or steps of the loop "+
				"differ, and only %s may wait.", percent(f.idle()),
				english.Plural(f.Prefetch, "finished batch", "finished batches"))
		},
		change: func(f *Facts, v *Verdict) {
			v.Option, v.Value = "Tuning.Prefetch", strconv.Itoa(min(4*f.Prefetch, 4096))
			v.Gain = f.within(f.work() / float64(f.Workers))
		}},
	{Name: "remote rows", Limit: "network", waits: true,
		When: fmt.Sprintf("workers waited %s of their time or more for rows from a store or a tier of yours",
			percent(fetching)),
		Then: "`workers`, twice as many: they mostly wait",
		met:  func(f *Facts) bool { return f.Remote && f.of(f.Disk) >= fetching },
		said: func(f *Facts) string { return sayRows(f, "rows from elsewhere") },
		change: func(f *Facts, v *Verdict) {
			v.Option, v.Value = "Workers", strconv.Itoa(2*f.Workers)
			v.Gain = f.within((f.Disk.Seconds()/2 + (f.Sample + f.Gather).Seconds()) / float64(f.Workers))
		}},
	{Name: "slow disk", Limit: "disk requests", waits: true,
		When: fmt.Sprintf("workers waited for the disk %s of their time or more", percent(fetching)),
		Then: "`cache-bytes`, twice as many; `khop plan` says what each size gains",
		met:  func(f *Facts) bool { return f.of(f.Disk) >= fetching },
		said: func(f *Facts) string {
			text := sayRows(f, "the disk")
			if f.Asked > 0 {
				text += fmt.Sprintf(" The cache of %s had %s of the rows.",
					humanize.IBytes(uint64(max(f.CacheBytes, 0))), percent(1-float64(f.Missed)/float64(f.Asked)))
			}
			return text
		},
		change: func(f *Facts, v *Verdict) {
			v.Advice = "a faster disk"
			if f.CacheBytes > 0 {
				v.Option = "Disk.CacheBytes"
				v.Value = strings.ReplaceAll(humanize.IBytes(uint64(2*f.CacheBytes)), " ", "")
				v.Advice = "a size from khop plan"
			}
			v.Gain = f.within((f.Sample + f.Gather).Seconds() / float64(f.Workers))
		}},
	{Name: "bus", Limit: "bus", waits: true,
		When: fmt.Sprintf("a device makes the batches, and gathered rows for %s of the time or more",
			percent(mostly)),
		Then: "`device-memory`, or `hot-rows` presample: more rows in its cache",
		met:  func(f *Facts) bool { return f.Device && f.Gather.Seconds() >= mostly*f.Seconds },
		said: func(f *Facts) string {
			return fmt.Sprintf("The device gathered rows for %s of the time; its cache had %s of them, and the rest "+
				"came over the bus.", percent(f.Gather.Seconds()/f.Seconds), percent(f.Hits))
		},
		change: func(_ *Facts, v *Verdict) {
			v.Option, v.Value = "Device.HotRows", "presample"
			v.Advice = "more device memory"
		}},
	{Name: "few workers", Limit: "workers", waits: true,
		When: "fewer workers than processors, of which one or more had nothing to do",
		Then: "`workers`, plus one for each free processor",
		met:  func(f *Facts) bool { return !f.Device && f.free() >= 1 },
		said: func(f *Facts) string {
			return fmt.Sprintf("%s busy, and %s of %d had nothing to do.", english.Plural(f.Workers, "worker was",
				"workers were"), english.Plural(f.free(), "processor", ""), f.Cores)
		},
		change: func(f *Facts, v *Verdict) {
			more := f.Workers + f.free()
			v.Option, v.Value = "Workers", strconv.Itoa(more)
			v.Gain = f.within(f.Seconds * float64(f.Workers) / float64(more))
		}},
	{Name: "wide rows", Limit: "memory", waits: true,
		When: fmt.Sprintf("workers gathered rows for %s of their time or more", percent(mostly)),
		Then: "`residence` resident, features of 16 bits (`khop convert --feature-dtype float16`), fewer columns",
		met:  func(f *Facts) bool { return !f.Device && f.of(f.Gather) >= mostly },
		said: func(f *Facts) string {
			return fmt.Sprintf("Workers gathered rows for %s of their time: %s a batch.", percent(f.of(f.Gather)),
				humanize.Bytes(f.Bytes/f.Batches))
		},
		change: func(f *Facts, v *Verdict) {
			v.Advice = "features of 16 bits (khop convert --feature-dtype float16), or fewer columns"
			if f.Mapped {
				v.Option, v.Value = "Residence", "resident"
			}
			v.Gain = f.within(f.Seconds * (1 - f.of(f.Gather)/2))
		}},
	{Name: "sampling", Limit: "sampling", waits: true,
		When: fmt.Sprintf("workers sampled for %s of their time or more", percent(1-mostly)),
		Then: "smaller `fanouts`, fewer hops, a device",
		met:  func(f *Facts) bool { return f.of(f.Sample) >= 1-mostly },
		said: func(f *Facts) string {
			return fmt.Sprintf("Workers sampled for %s of their time: %s edges a batch.", percent(f.of(f.Sample)),
				humanize.Comma(int64(f.Edges/f.Batches)))
		},
		change: func(_ *Facts, v *Verdict) { v.Advice = "smaller fan-outs, fewer hops, or a device" }},
}

// free is how many more workers there could be: processors that had nothing to do, as far as there are more than
// workers.
func (f *Facts) free() int {
	more := f.Cores - f.Workers
	if f.Own >= 0 {
		more = min(more, int(float64(f.Cores)-f.Own-f.Others+0.25))
	}
	return more
}

func sayRows(f *Facts, what string) string {
	return fmt.Sprintf("Workers waited for %s for %s of their time.", what, percent(f.of(f.Disk)))
}
