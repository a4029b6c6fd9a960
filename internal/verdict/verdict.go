// Package verdict says in a sentence what a run of a loader waited for, and what to change.
//
// Facts are what the run has measured. The first of a few Rules that they meet speaks; where none does, the run is
// healthy, or too short to tell. docs/troubleshooting.md has the rules with their thresholds, as Table prints them.
package verdict

import (
	"fmt"
	"strings"
	"time"
)

// Facts is what a loader has measured of a run: an epoch, or a part of one.
type Facts struct {
	Seconds float64 // since the run began, up to its end
	Batches uint64

	Wait  time.Duration // the loop waited for batches
	First time.Duration // of it, for the first one: nothing could be ready then
	Body  time.Duration // the loop's own steps

	Workers, Prefetch    int
	Sample, Gather, Disk time.Duration // the workers' time, all together: to sample, to gather, to wait for rows
	Idle                 time.Duration // and to wait for a free slot

	Edges, Rows, Bytes uint64  // sampled, and gathered
	Mapped             bool    // rows are read from mapped files
	Remote             bool    // rows come from elsewhere, by a tier of the caller's own or of a source that is partial
	Asked, Missed      int64   // rows on disk that were asked for, and those of them that the cache did not have
	Topology           bool    // the topology stays on disk
	CacheBytes         int64   // of rows on disk
	Device             bool    // batches are made on a device
	Hits               float64 // the share of rows that its cache had

	Cores  int     // processors that the process may use
	Own    float64 // processors that it took, mean; below 0: not measured
	Others float64 // and others took
	Faults uint64  // pages that the process waited for while they were read from a file
}

// Verdict is the judgement of a run.
type Verdict struct {
	Rule   string  // its name; "" where there is nothing to say
	Limit  string  // that was met
	Text   string  // who waited for whom, how long, and why
	Option string  // what to change: its field of loader.Options, whose reports have its name; "" for none
	Value  string  // and what to
	Advice string  // what else to change; "" for nothing
	Gain   float64 // how many times as fast the run can become by that, at most; 0: not known

	Seconds float64 // of the run
	Batches uint64
	Waited  float64 // the share of them in which the loop waited for batches, but for the first
}

// Rule is one judgement of runs.
type Rule struct {
	Name, Limit string
	When        string // in words, for docs
	Then        string // what it proposes, in words
	waits       bool   // it is for loops that wait
	met         func(f *Facts) bool
	said        func(f *Facts) string
	change      func(f *Facts, v *Verdict)
}

const (
	leastBatches = 8    // before which a run is too short to tell
	waiting      = 0.1  // the share of the time that a loop waits, from which on somebody should know
	atRest       = 0.5  // the share of the workers' time in which they wait for slots, where the loop takes the time
	uneven       = 0.1  // and where the loop waits as well
	foreign      = 0.25 // the share of the processors that others take
	crowded      = 0.85 // and that all together take
	faulting     = 0.2  // the share of the workers' time that page faults take
	faultSeconds = 1e-4 // each, about, of a fast disk
	fetching     = 0.4  // the share of the workers' time in which they wait for rows
	mostly       = 0.6  // and in which they gather
)

// waited is the share of the time that the loop waited, but for the first batch.
func (f *Facts) waited() float64 { return (f.Wait - f.First).Seconds() / f.Seconds }

// work is the workers' time in which they made batches, or waited for rows, in seconds.
func (f *Facts) work() float64 { return (f.Sample + f.Gather + f.Disk).Seconds() }

// of returns the share of the work.
func (f *Facts) of(d time.Duration) float64 { return d.Seconds() / max(f.work(), 1e-12) }

// idle is the share of the workers' time in which they waited for a slot.
func (f *Facts) idle() float64 { return f.Idle.Seconds() / (f.Seconds * float64(max(f.Workers, 1))) }

// faulted is the share of the workers' time that page faults took, about.
func (f *Facts) faulted() float64 { return float64(f.Faults) * faultSeconds / max(f.work(), 1e-12) }

// within returns how many times as fast the run becomes if loading takes this number of seconds: the loop's own steps
// stay.
func (f *Facts) within(seconds float64) float64 {
	return f.Seconds / max(f.Body.Seconds(), seconds, 1e-9)
}

// Of returns the judgement of a run.
func Of(f *Facts) (v Verdict) {
	v.Seconds, v.Batches = f.Seconds, f.Batches
	if f.Batches < leastBatches || f.Seconds <= 0 {
		return v
	}
	v.Waited = max(f.waited(), 0)
	waits := v.Waited >= waiting
	for i := range Rules {
		r := &Rules[i]
		if r.waits != waits || !r.met(f) {
			continue
		}
		v.Rule, v.Limit, v.Text = r.Name, r.Limit, r.said(f)
		if waits {
			v.Text = fmt.Sprintf("The loop waited for the loader %s of the time, %s. ", percent(f.waited()),
				duration((f.Wait-f.First).Seconds())) + v.Text
		}
		r.change(f, &v)
		if v.Gain < 1.05 {
			v.Gain = 0
		}
		return v
	}
	return v
}

// Say returns the whole sentence, with the option as a door spells it.
func (v *Verdict) Say(spell func(option, value string) string) string {
	var try []string
	if v.Option != "" {
		try = append(try, spell(v.Option, v.Value))
	}
	if v.Advice != "" {
		try = append(try, v.Advice)
	}
	if len(try) == 0 {
		return v.Text
	}
	text := v.Text + " Try " + strings.Join(try, ", or ")
	if v.Gain > 0 {
		text += fmt.Sprintf(": up to %.1f times as fast", v.Gain)
	}
	return text + "."
}

// Flag spells an option as the command line does.
func Flag(option, value string) string { return "--" + option + " " + value }

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
