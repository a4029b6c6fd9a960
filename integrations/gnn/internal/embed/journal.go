package embed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/zeebo/xxh3"
)

// journal is the ranges that a run has finished: a line of JSON that names the program, and one for each range. A range
// is on the disk before its line is.
type journal struct {
	file *os.File
	done [][]record // by step
}

type record struct {
	Step int      `json:"step"`
	Lo   int64    `json:"lo"` // numbers of nodes among those of the step
	Hi   int64    `json:"hi"`
	Sums []string `json:"xxh3"` // of the rows of each table
}

type journalHead struct {
	Format  string `json:"format"`
	Program string `json:"program"`
	From    string `json:"from,omitempty"` // the program of tables that it changes
}

const (
	journalFormat = "khop-embed 1"
	journalFile   = "journal"
)

// readHead returns the head of a journal; nothing where there is none.
func readHead(path string) (head journalHead) {
	text, _ := os.ReadFile(path)
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if json.Unmarshal(line, &head) != nil || head.Format != journalFormat {
		return journalHead{}
	}
	return head
}

// openJournal reads what there is of a program, or begins anew.
func openJournal(path string, head journalHead, steps int) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f, done: make([][]record, steps)}
	if err := j.read(head); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

func (j *journal) read(want journalHead) error {
	text, err := os.ReadFile(j.file.Name())
	if err != nil {
		return err
	}
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	var head journalHead
	if json.Unmarshal(line, &head) != nil || head != want {
		if err := j.file.Truncate(0); err != nil {
			return err
		}
		return j.add(want)
	}
	end := int64(len(line) + 1)
	for {
		line, left, whole := bytes.Cut(rest, []byte("\n"))
		var one record
		if !whole || json.Unmarshal(line, &one) != nil || one.Step < 0 || one.Step >= len(j.done) || one.Lo < 0 ||
			one.Lo >= one.Hi {
			break // the end, or what a run was writing when it was killed
		}
		j.done[one.Step] = append(j.done[one.Step], one)
		end, rest = end+int64(len(line)+1), left
	}
	if err := j.file.Truncate(end); err != nil {
		return err
	}
	_, err = j.file.Seek(end, 0)
	return err
}

// add writes a line for each value, and waits until they are on the disk.
func (j *journal) add(values ...any) error {
	var text bytes.Buffer
	to, err := json.NewEncoder(&text), error(nil)
	for _, v := range values {
		err = errors.Join(err, to.Encode(v))
	}
	if err == nil {
		_, err = j.file.Write(text.Bytes())
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return writeError(j.file.Name(), err)
	}
	return nil
}

func (j *journal) close() error { return j.file.Close() }

// gaps returns which of n nodes no range has.
func gaps(done []record, n int64) (left [][2]int64) {
	slices.SortFunc(done, func(a, b record) int { return cmp.Compare(a.Lo, b.Lo) })
	at := int64(0)
	for _, d := range done {
		if d.Lo > at {
			left = append(left, [2]int64{at, d.Lo})
		}
		at = max(at, d.Hi)
	}
	if at < n {
		left = append(left, [2]int64{at, n})
	}
	return left
}

// piece is rows of a table, of nodes whose numbers follow each other, that were written and are not noted.
type piece struct {
	lo, hi int64
	hash   *xxh3.Hasher
}

// hash adds rows of a table, by its number, that were written: of nodes numbered from lo on, behind the last ones or
// elsewhere.
func (r *run) hash(number int, lo, count int64, raw []byte) {
	all := r.pieces[number]
	if n := len(all); n == 0 || all[n-1].hi != lo {
		all = append(all, piece{lo, lo, xxh3.New()})
		r.pieces[number] = all
	}
	last := &all[len(all)-1]
	last.hi += count
	_, _ = last.hash.Write(raw)
}

// note begins to note rows of a step.
func (r *run) note(s *Step) { r.pieces, r.noted = make([][]piece, len(s.To)), time.Now() }

// finished notes all rows that were written since the last note.
func (r *run) finished(k int, s *Step) error {
	var all []record
	var lines []any
	for i, p := range r.pieces[0] {
		one := record{Step: k, Lo: p.lo, Hi: p.hi}
		for _, of := range r.pieces {
			one.Sums = append(one.Sums, sumText(of[i].hash.Sum64()))
		}
		all, lines = append(all, one), append(lines, one)
	}
	if r.note(s); len(all) == 0 {
		return nil
	}
	for _, t := range s.To {
		if err := t.file.Sync(); err != nil {
			return writeError(t.file.Name(), err)
		}
	}
	r.journal.done[k] = append(r.journal.done[k], all...)
	return r.journal.add(lines...)
}

func sumText(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// complete reports whether a step was finished before.
func (r *run) complete(k int) bool { return len(gaps(r.journal.done[k], r.of[k].count)) == 0 }

// needed reports whether the tables of a step are to be made, or are read: the last ones, and those that are read by
// steps that are not finished.
func (r *run) needed(k int) bool {
	if !r.complete(k) || k == len(r.p.Steps)-1 {
		return true
	}
	last := true
	for j := k + 1; j < len(r.p.Steps); j++ {
		for _, t := range r.p.Steps[j].reads() {
			if slices.Contains(r.p.Steps[k].To, t) {
				if last = false; !r.complete(j) {
					return true
				}
			}
		}
	}
	return last
}

// verify opens the tables of steps that were begun and are needed, and drops ranges from the journal whose rows are not
// as it says. It goes backwards, for what a later step has to make again decides what earlier ones are needed for.
func (r *run) verify() error {
	for k := len(r.p.Steps) - 1; k >= 0; k-- {
		s, of := r.p.Steps[k], r.of[k]
		if len(r.journal.done[k]) == 0 || !r.needed(k) {
			continue
		}
		for _, t := range s.To {
			if err := t.create(r.path(t)); err != nil {
				return err
			}
		}
		r.journal.done[k] = slices.DeleteFunc(r.journal.done[k], func(one record) bool {
			return !one.fits(s, of)
		})
		if err := r.ctxErr(); err != nil {
			return err
		}
	}
	return nil
}

// fits reports whether the rows of a range are as the journal says.
func (one *record) fits(s *Step, of nodes) bool {
	if one.Hi > of.count || len(one.Sums) != len(s.To) {
		return false
	}
	for i, t := range s.To {
		h := xxh3.New()
		_ = of.runs(one.Lo, one.Hi, func(_, first, count int64) error {
			_, err := h.Write(t.rows(first, first+count))
			return err
		})
		if sumText(h.Sum64()) != one.Sums[i] {
			return false
		}
	}
	return true
}

// forget removes tables that no later step reads, and are not the last.
func (r *run) forget(k int) error {
	for _, s := range r.p.Steps[:k] {
		for _, t := range s.To {
			if t.bytes == nil || r.readAfter(t, k) || !r.readAfter(t, -1) {
				continue
			}
			name, file := r.path(t), t.file != nil
			if err := t.close(); err != nil {
				return err
			}
			if file {
				if err := os.Remove(name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// readAfter reports whether a step after k reads a table.
func (r *run) readAfter(t *Table, k int) bool {
	for _, s := range r.p.Steps[k+1:] {
		if slices.Contains(s.reads(), t) {
			return true
		}
	}
	return false
}
