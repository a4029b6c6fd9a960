package machine

import (
	"io/fs"
	"os"
	"strings"
	"time"
)

// Activity is what processors have done since the machine was started, as far as the process may use them.
type Activity struct {
	At     time.Time
	Own    time.Duration // this process had them
	All    time.Duration // anybody had them
	Faults uint64        // pages that this process waited for while they were read from a file
	Known  bool          // the system tells

	Processors int // that the process may use
}

// ReadActivity returns it so far. It reads a few files that the kernel writes.
func ReadActivity() Activity {
	a := Activity{At: time.Now(), Processors: Workers()}
	var err error
	a.Own, a.Faults, err = used()
	a.All, a.Known = allBusy(os.DirFS("/"), processors())
	a.Known = a.Known && err == nil
	return a
}

// ProcessorTime returns the processor time that the process has taken. Errors: errors.ErrUnsupported where the system
// does not tell.
func ProcessorTime() (time.Duration, error) {
	took, _, err := used()
	return took, err
}

// Since returns how many processors the process had since an earlier one, mean, and how many others had; -1 and 0
// where the system does not tell.
func (a Activity) Since(before Activity) (own, others float64) {
	seconds := a.At.Sub(before.At).Seconds()
	if !a.Known || !before.Known || seconds <= 0 {
		return -1, 0
	}
	own = (a.Own - before.Own).Seconds() / seconds
	return own, max((a.All-before.All).Seconds()/seconds-own, 0)
}

// tick is the unit of /proc/stat, which Linux keeps for programs whatever its own is.
const tick = 10 * time.Millisecond

// allBusy returns how long anybody had the processors, of those that are listed; nil for all.
func allBusy(root fs.FS, of map[int]bool) (busy time.Duration, ok bool) {
	for line := range strings.Lines(text(root, "proc/stat")) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" {
			continue
		}
		if of != nil && !of[int(number(fields[0][3:]))] {
			continue
		}
		ok = true
		for i, name := range fields[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
			if i != 3 && i != 4 {
				busy += time.Duration(number(name)) * tick
			}
		}
	}
	return busy, ok
}
