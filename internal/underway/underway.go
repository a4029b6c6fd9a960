// Package underway knows what this process does at the moment: how far it is, what it waits for, and what it would
// leave behind if it ended now. Who ends the process by force, or sees that nothing moves, can then say and tidy that.
//
// All functions may be called by any goroutine.
package underway

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

// Kind says how something that was left is removed.
type Kind string

// The kinds.
const (
	File    Kind = "file"    // a file, or a folder if it is empty
	Folder  Kind = "folder"  // with all that is in it
	Dataset Kind = "dataset" // what its writer has made there so far
	Tasks   Kind = "tasks"   // of a conversion to that dataset, which this process runs
)

// Leaving is something that is removed before the process ends, unless it ends by force.
type Leaving struct {
	Kind Kind   `json:"kind"`
	Path string `json:"path"`
}

var now struct {
	sync.Mutex
	stage       string
	done, total int64
	moved       time.Time
	waits       []*string
	leaves      []*Leaving
}

// Moved says how far a stage is: done of total, 0 where that is not known. Without a name nothing is under way.
func Moved(stage string, done, total int64) {
	now.Lock()
	defer now.Unlock()
	if stage != now.stage || done != now.done {
		now.stage, now.done, now.moved = stage, done, time.Now()
	}
	now.total = total
}

// Waits says that the process waits for something from outside, until end is called.
func Waits(what string) (end func()) {
	now.Lock()
	defer now.Unlock()
	if len(now.waits) == 0 && now.stage == "" {
		now.moved = time.Now()
	}
	now.waits = append(now.waits, &what)
	return func() {
		now.Lock()
		defer now.Unlock()
		now.moved = time.Now()
		now.waits = slices.DeleteFunc(now.waits, func(w *string) bool { return w == &what })
	}
}

// Leaves says that something is there which must not stay, until done is called.
func Leaves(kind Kind, path string) (done func()) {
	now.Lock()
	defer now.Unlock()
	one := &Leaving{kind, path}
	now.leaves = append(now.leaves, one)
	return func() {
		now.Lock()
		defer now.Unlock()
		now.leaves = slices.DeleteFunc(now.leaves, func(l *Leaving) bool { return l == one })
	}
}

// Standing is where the process stands.
type Standing struct {
	Stage       string // "" for none
	Done, Total int64
	Moved       time.Time // when something moved last; for waits without a stage, when the first of them began
	Waits       []string  // the oldest first
	Leaves      []Leaving // the newest first
}

// Look returns where the process stands.
func Look() (s Standing) {
	now.Lock()
	defer now.Unlock()
	s = Standing{Stage: now.stage, Done: now.done, Total: now.total, Moved: now.moved}
	for _, w := range now.waits {
		s.Waits = append(s.Waits, *w)
	}
	for _, l := range slices.Backward(now.leaves) {
		s.Leaves = append(s.Leaves, *l)
	}
	return s
}

// Idle reports whether nothing is under way that could stand still.
func (s Standing) Idle() bool { return s.Stage == "" && len(s.Waits) == 0 }

// String says the stage, how far it is, and what it waits for.
func (s Standing) String() string {
	var parts []string
	if s.Stage != "" {
		part := fmt.Sprintf("stage %q, at %s", s.Stage, humanize.Comma(s.Done))
		if s.Total > 0 {
			part += " of " + humanize.Comma(s.Total)
		}
		parts = append(parts, part)
	}
	const most = 3
	for i, w := range s.Waits {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d waits more", len(s.Waits)-most))
			break
		}
		parts = append(parts, "it waits for "+w)
	}
	if len(parts) == 0 {
		return "no stage is known"
	}
	return strings.Join(parts, "; ")
}
