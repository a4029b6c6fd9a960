package gnn

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/wholefile"
)

// ErrCheckpoint is returned for a file that is not a checkpoint, is damaged, or belongs to other options.
var ErrCheckpoint = errors.New("gnn: not a checkpoint of this training")

// A checkpoint is a line of JSON (checkpointHead), then for each parameter its numbers and both moments, float32 in
// little-endian order, then 16 bytes: the XXH3 of all before.
type checkpointHead struct {
	Format  string  `json:"format"`
	Options string  `json:"options"` // those that decide what training gives
	Epoch   int     `json:"epoch"`
	Step    uint64  `json:"step"`
	Best    int     `json:"best_epoch"`
	Val     float64 `json:"val_accuracy"`
	Test    float64 `json:"test_accuracy"`
	Loss    float64 `json:"loss"`
	Params  []shape `json:"params"`
}

type shape struct {
	Name string `json:"name"`
	Rows int    `json:"rows"`
	Cols int    `json:"cols"`
}

const checkpointFormat = "khop-gnn 1"

// identity names everything but the number of epochs that decides what training gives.
func (t *trainer) identity() string {
	o := t.opt
	return fmt.Sprintf("%s layers=%d hidden=%d heads=%d dropout=%g rate=%g decay=%g seed=%d normalise=%v fanouts=%v "+
		"batch=%d nodes=%d edges=%d", o.Model, o.Layers, o.Hidden, o.Heads, o.Dropout, o.Rate, o.Decay, o.Seed,
		o.RowNormalise, o.Fanouts, o.BatchSize, t.data.whole.Rows(), t.data.whole.Edges())
}

func (t *trainer) head() checkpointHead {
	r := &t.result
	h := checkpointHead{Format: checkpointFormat, Options: t.identity(), Epoch: r.Epochs, Step: t.step, Best: r.Best,
		Val: r.Val, Test: r.Test, Loss: r.Loss}
	for _, p := range t.model.params {
		h.Params = append(h.Params, shape{p.Name, p.Rows, p.Cols})
	}
	return h
}

// arrays are the numbers of a checkpoint, in order.
func (t *trainer) arrays() [][]byte {
	var all [][]byte
	for _, p := range t.model.params {
		for _, s := range [][]float32{p.Data, p.first, p.second} {
			all = append(all, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 4*len(s)))
		}
	}
	return all
}

// save replaces the checkpoint.
func (t *trainer) save() error {
	if t.opt.Checkpoint == "" {
		return nil
	}
	line, err := json.Marshal(t.head())
	if err != nil {
		return err
	}
	text := append(line, '\n')
	for _, b := range t.arrays() {
		text = append(text, b...)
	}
	sum := xxh3.Hash128(text).Bytes()
	return wholefile.Replace(t.opt.Checkpoint, 0o600, func(w io.Writer) error {
		_, err := w.Write(append(text, sum[:]...))
		return err
	})
}

// restore reads the checkpoint, if there is one, and returns the epochs that are done.
func (t *trainer) restore() (int, error) {
	if t.opt.Checkpoint == "" {
		return 0, nil
	}
	text, err := os.ReadFile(t.opt.Checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	head, err := t.load(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w; remove it, or name another file", t.opt.Checkpoint, ErrCheckpoint, err)
	}
	t.step = head.Step
	r := &t.result
	r.Epochs, r.Best, r.Val, r.Test, r.Loss = head.Epoch, head.Best, head.Val, head.Test, head.Loss
	return head.Epoch, nil
}

func (t *trainer) load(text []byte) (head checkpointHead, err error) {
	if len(text) < 16 {
		return head, errors.New("it is too short")
	}
	body, sum := text[:len(text)-16], xxh3.Hash128(text[:len(text)-16]).Bytes()
	if !bytes.Equal(sum[:], text[len(body):]) {
		return head, errors.New("its checksum is wrong")
	}
	line, rest, _ := bytes.Cut(body, []byte{'\n'})
	if err := json.Unmarshal(line, &head); err != nil {
		return head, err
	}
	want := t.head()
	if head.Format != want.Format || head.Options != want.Options || !slices.Equal(head.Params, want.Params) {
		return head, fmt.Errorf("it is of %q (%s), not of %q", head.Options, head.Format, want.Options)
	}
	n := 0
	for _, b := range t.arrays() {
		n += len(b)
	}
	if n != len(rest) || head.Epoch < 0 {
		return head, fmt.Errorf("it has %d bytes of numbers, not %d", len(rest), n)
	}
	for _, p := range t.model.params {
		for _, s := range [][]float32{p.Data, p.first, p.second} {
			used, err := binary.Decode(rest, binary.LittleEndian, s)
			if err != nil {
				return head, err
			}
			rest = rest[used:]
		}
	}
	return head, nil
}
