// Package ending ends a command that was interrupted: of its own accord where it can, by force where it does not, and
// with nothing left behind. It also says where a command stands that does not go on.
package ending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/underway"
)

const (
	// grace is how long a command that was interrupted may take to end of its own accord.
	grace = 900 * time.Millisecond
	// tidying is how long what it would leave may take to be removed, when it was ended by force.
	tidying = 900 * time.Millisecond
	// saying is how long stderr may take to have a line: its reader may have stalled, too.
	saying = 100 * time.Millisecond
)

// Interrupted is the status of a process that was interrupted.
const Interrupted = 130

// asProgram says that this process is the command, which may end by force; tests run commands within theirs.
var asProgram bool

// Interruptible returns a context that Ctrl-C and SIGTERM end. The process ends by force where it is still there after
// a time of grace, wherever it is then, and at once with a second signal. It is for the program's main alone.
func Interruptible() context.Context {
	asProgram = true
	ctx, interrupt := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		interrupt()
		select {
		case <-signals:
		case <-time.After(grace):
		}
		endByForce(os.Stderr)
	}()
	return ctx
}

// Later ends the process by force after the time of grace, where it is the program. Tests run commands within theirs.
func Later() {
	if asProgram {
		time.AfterFunc(grace, func() { endByForce(os.Stderr) })
	}
}

// endByForce ends the process, says where it was, and leaves nothing of what it has not finished. Work that goes on
// could put back what is removed. So this program takes the place of the process, by which all that works ends at once,
// and removes there what the work has left.
func endByForce(stderr io.Writer) {
	at := underway.Look()
	inTime(saying, func() { fmt.Fprintf(stderr, "khop: interrupted by force (%s)\n", paths.Message(at.String())) })
	if len(at.Leaves) > 0 {
		text, _ := json.Marshal(at.Leaves) // it has strings alone
		program := "/proc/self/exe"        // this one, though another may have its name by now
		if runtime.GOOS != "linux" {
			program, _ = os.Executable()
		}
		err := syscall.Exec(program, []string{os.Args[0], TidyUp, string(text)}, os.Environ())
		inTime(saying, func() { sayLeft(stderr, at.Leaves, err) })
	}
	os.Exit(Interrupted)
}

// inTime calls f, and returns after this time though f has not.
func inTime(most time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}

// TidyUp is the first argument of a process that only removes what another one has left: Tidy, by the second.
const TidyUp = "--tidy-up"

// Tidy removes what a process has left that was ended by force, as text says, and returns the status that the process
// should have had. It names on stderr what stays.
func Tidy(text string, stderr io.Writer) int {
	var all []underway.Leaving
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		fmt.Fprintln(stderr, "khop: internal error:", err)
		return 1
	}
	done := make(chan error, len(all))
	go func() {
		for _, l := range all {
			done <- remove(l)
		}
	}()
	late := time.After(tidying)
	var left []underway.Leaving
	for i, l := range all {
		select {
		case err := <-done:
			if err != nil {
				left = append(left, l)
			}
			continue
		case <-late:
			left = append(left, all[i:]...)
		}
		break
	}
	sayLeft(stderr, left, nil)
	return Interrupted
}

// remove removes one thing.
func remove(l underway.Leaving) (err error) {
	switch l.Kind {
	case underway.File:
		err = os.Remove(l.Path)
	case underway.Folder:
		err = os.RemoveAll(l.Path)
	case underway.Dataset:
		var w *formats.Writer
		if w, err = formats.Create(l.Path, formats.WriterOptions{}); err == nil {
			err = w.Abort()
		}
	case underway.Tasks:
		err = convert.CleanTasks(context.Background(), l.Path)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, formats.ErrExist) { // it is complete, or another one's by now
		return nil
	}
	return err
}

// sayLeft names what stays.
func sayLeft(stderr io.Writer, all []underway.Leaving, err error) {
	for _, l := range all {
		then := "remove it"
		switch l.Kind {
		case underway.Dataset:
			then = "the next command that writes there removes it"
		case underway.Tasks:
			then = "khop convert --clean removes it"
		}
		why := ""
		if err != nil {
			why = fmt.Sprintf(" (%v)", err)
		}
		fmt.Fprintf(stderr, "khop: %s: what is unfinished stays%s: %s\n", paths.Text(l.Path), why, then)
	}
}
