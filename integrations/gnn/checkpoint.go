package gnn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// ErrCheckpoint is returned for a file that is not a checkpoint, is damaged, or belongs to other options.
var ErrCheckpoint = errors.New("gnn: not a checkpoint of this training")

// A checkpoint is a line of JSON (checkpointHead), then for each parameter its numbers and both moments, float32 in
// little-endian order, then 16 bytes: the XXH3 of all before.
type checkpointHead struct {
	Format  string `json:"format"`
	Options string `json:"options"` // those that decide what training gives
	place
	Loader *loader.State `json:"loader,omitempty"` // before the next batch
	Params []shape       `json:"params"`
	Ways   []string      `json:"ways,omitempty"` // to compute layers (Options.Fastest)
	Kept   [][]byte      `json:"kept,omitempty"` // by aggregation, which rows gradients are made of: site.kept
	// Tuning says how products were computed (sparse.Tuning). Another machine leaves it aside.
	Tuning json.RawMessage `json:"tuning,omitempty"`
}

type shape struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
	Cols int    `json:"cols"`
}

const checkpointFormat = "khop-gnn 3"

// identity names everything but the number of epochs that decides what training gives.
func (t *trainer) identity() string {
	o := t.opt
	return fmt.Sprintf("%s layers=%d hidden=%d heads=%d dropout=%g rate=%g decay=%g seed=%d normalise=%v fanouts=%v "+
		"batch=%d nodes=%d edges=%d", o.Model, o.Layers, o.Hidden, o.Heads, o.Dropout, o.Rate, o.Decay, o.Seed,
		o.RowNormalise, o.Fanouts, o.BatchSize, t.data.whole.Rows(), t.data.whole.Edges()) + t.extras()
}

// extras names options that are rarely set: gradients that are sampled end where the epochs say.
func (t *trainer) extras() (s string) {
	if t.opt.Fastest {
		s = " fastest"
	}
	if t.opt.BackwardBudget == 0 {
		return s
	}
	return s + fmt.Sprintf(" budget=%g of %d epochs", t.opt.BackwardBudget, t.opt.Epochs)
}

func (t *trainer) head() (h checkpointHead, err error) {
	h = checkpointHead{Format: checkpointFormat, Options: t.identity(), place: t.place}
	if t.opt.Tuning != nil {
		h.Tuning, err = t.opt.Tuning.MarshalJSON()
	}
	if t.loader != nil {
		s := t.loader.State(uint64(t.Epoch), t.next)
		h.Loader = &s
	}
	for _, w := range t.model.ways {
		h.Ways = append(h.Ways, w.name)
	}
	if p := t.tape.approximate; p != nil {
		for _, s := range p.sites {
			h.Kept = append(h.Kept, s.kept())
		}
	}
	for _, p := range t.model.params {
		h.Params = append(h.Params, shape{p.Name, p.Rows, p.Cols})
	}
	return h, err
}

// arrays are the numbers of a checkpoint, in order.
func (t *trainer) arrays() [][]byte {
	var all [][]byte
	for _, p := range t.model.params {
		for _, s := range [][]float32{p.Data, p.first, p.second} {
			all = append(all, unified.FromSlice(s).Bytes())
		}
	}
	return all
}

// saveInTime saves where the last time is long ago.
func (t *trainer) saveInTime() error {
	if time.Since(t.saved) < t.opt.CheckpointEvery {
		return nil
	}
	defer func() { t.saved = time.Now() }()
	return t.save()
}

// checkpointFile is a checkpoint that is written. What is there has been read before, so it is one.
func checkpointFile(path string) wholefile.Output {
	return wholefile.Output{Path: path, Mode: 0o600, Force: true, Kept: true}
}

// save replaces the checkpoint.
func (t *trainer) save() error {
	if t.opt.Checkpoint == "" {
		return nil
	}
	head, err := t.head()
	if err != nil {
		return err
	}
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	text := append(line, '\n')
	for _, b := range t.arrays() {
		text = append(text, b...)
	}
	sum := xxh3.Hash128(text).Bytes()
	return checkpointFile(t.opt.Checkpoint).Write(context.Background(), func(w io.Writer) error {
		_, err := w.Write(append(text, sum[:]...))
		return err
	})
}

// mostHead is how many bytes a checkpoint has at most beside its arrays.
const mostHead = 16 << 20

// restore reads the checkpoint, if there is one.
func (t *trainer) restore() error {
	if t.opt.Checkpoint == "" {
		return nil
	}
	if err := checkpointFile(t.opt.Checkpoint).Check(); err != nil {
		return err
	}
	most := int64(mostHead)
	for _, b := range t.arrays() {
		most += int64(len(b))
	}
	text, err := wholefile.Read(t.opt.Checkpoint, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = t.load(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w; remove it, or name another file", t.opt.Checkpoint, ErrCheckpoint, err)
	}
	return nil
}

// unwrap returns a checkpoint's head, and its numbers.
func unwrap(text []byte) (head checkpointHead, numbers []byte, err error) {
	if len(text) < 16 {
		return head, nil, errors.New("it is too short")
	}
	body, sum := text[:len(text)-16], xxh3.Hash128(text[:len(text)-16]).Bytes()
	if !bytes.Equal(sum[:], text[len(body):]) {
		return head, nil, errors.New("its checksum is wrong")
	}
	line, rest, _ := bytes.Cut(body, []byte{'\n'})
	if err := json.Unmarshal(line, &head); err != nil {
		return head, nil, err
	}
	if head.Format != checkpointFormat {
		return head, nil, fmt.Errorf("its format is %q, not %q", head.Format, checkpointFormat)
	}
	return head, rest, nil
}

func (t *trainer) load(text []byte) error {
	head, rest, err := unwrap(text)
	if err != nil {
		return err
	}
	want, err := t.head()
	if err != nil {
		return err
	}
	switch {
	case head.Options != want.Options:
		return fmt.Errorf("it has other options: %s", otherOptions(head.Options, want.Options))
	case !slices.Equal(head.Params, want.Params):
		return fmt.Errorf("its parameters are %v, not %v", head.Params, want.Params)
	}
	if err := t.check(head, len(rest)); err != nil {
		return err
	}
	if err := t.adopt(head.Tuning); err != nil {
		return err
	}
	if err := t.take(head.Ways); err != nil {
		return err
	}
	t.place = head.place
	for n, kept := range head.Kept {
		if t.tape.approximate != nil {
			t.tape.approximate.site(n).restore(kept, int(t.data.whole.Rows()))
		}
	}
	if t.loader != nil {
		t.next = head.Loader.Next
	}
	return t.model.take(rest)
}

// take takes the numbers of parameters and moments from a checkpoint, which has them all.
func (m *network) take(numbers []byte) error {
	for _, p := range m.params {
		for _, s := range [][]float32{p.Data, p.first, p.second} {
			used, err := binary.Decode(numbers, binary.LittleEndian, s)
			if err != nil {
				return err
			}
			numbers = numbers[used:]
		}
	}
	return nil
}

// otherOptions says which options of two texts of trainer.identity differ, and how.
func otherOptions(has, wants string) string {
	names, here := wordsOf(wants)
	before, there := wordsOf(has)
	var list []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(names, before...)))) {
		if there[name] != here[name] {
			list = append(list, fmt.Sprintf("%s is %s, and here %s", name, cmp.Or(there[name], "not set"),
				cmp.Or(here[name], "not set")))
		}
	}
	return strings.Join(list, "; ")
}

// wordsOf returns the options of a text of trainer.identity, by name.
func wordsOf(text string) (names []string, values map[string]string) {
	values = map[string]string{}
	for _, word := range strings.Fields("model=" + strings.Replace(text, " fastest", " fastest=yes", 1)) {
		if name, value, ok := strings.Cut(word, "="); ok {
			names, values[name] = append(names, name), value
		} else if len(names) > 0 { // a value of several words
			values[names[len(names)-1]] += " " + word
		}
	}
	return names, values
}

// adopt takes the choices of a checkpoint, if they are of this machine.
func (t *trainer) adopt(tuning json.RawMessage) error {
	if t.opt.Tuning == nil || tuning == nil {
		return nil
	}
	if err := t.opt.Tuning.UnmarshalJSON(tuning); !errors.Is(err, sparse.ErrTuning) {
		return err
	}
	return nil
}

// check refuses a place that no training comes to.
func (t *trainer) check(head checkpointHead, numbers int) error {
	n := 0
	for _, b := range t.arrays() {
		n += len(b)
	}
	if n != numbers || head.Epoch < 1 || len(head.Points) != head.Epoch-1 {
		return fmt.Errorf("it has %d bytes of numbers, not %d, and %d points before epoch %d", numbers, n,
			len(head.Points), head.Epoch)
	}
	if t.loader == nil {
		return nil
	}
	if head.Loader == nil || head.Loader.Epoch != uint64(head.Epoch) || head.Loader.Next > t.loader.AllBatches() {
		return errors.New("it does not say which batch is next")
	}
	return t.loader.CheckState(*head.Loader)
}
