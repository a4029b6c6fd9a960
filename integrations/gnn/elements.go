package gnn

import (
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/internal/vector"
)

// activation is a function of each element.
type activation uint8

// The activations.
const (
	same activation = iota // x itself
	relu                   // x where it is positive, else 0
	elu                    // x where it is positive, else e^x - 1
)

// Activate adds the row b, which may be nil, to each row of x, applies f, and drops elements out with probability p
// where the tape trains, as Dropout does. It changes x, which must be what another operation made and nothing else
// reads, and returns it.
func (t *autodiff) Activate(x, b *variable, f activation, p float32) *variable {
	a := &activate{tape: t, x: x, b: b, f: f, factor: 1}
	if t.Training && p > 0 {
		a.p, a.factor, a.stream, a.kept = p, 1/(1-p), t.chance(), t.bits(len(x.Data))
	}
	t.do("activation", func() error { return t.rowSpans(x.Rows, x.Cols, a.forward) }, a.backward)
	return x
}

// activate is a bias, an activation and a dropout, of some rows at a time.
type activate struct {
	tape   *autodiff
	x, b   *variable
	f      activation
	p      float32 // 0: nothing is dropped
	factor float32 // of what is kept
	stream uint64
	kept   []byte
	sums   []float32 // the gradient of b, of each part of rows
}

func (a *activate) forward(lo, hi int) {
	cols := a.x.Cols
	part := a.x.Data[lo*cols : hi*cols]
	if a.b != nil {
		for i := 0; i < len(part); i += cols {
			vector.Add(part[i:i+cols], a.b.Data, 1)
		}
	}
	switch a.f {
	case relu:
		vector.ReLU(part)
	case elu:
		vector.ELU(part)
	}
	if a.p > 0 {
		kept := a.bits(lo, len(part))
		vector.Keep(kept, a.stream, uint64(lo*cols), a.p)
		vector.Scale(part, part, kept, a.factor)
	}
}

// bits returns those of n elements from row lo on.
func (a *activate) bits(lo, n int) []byte { return a.kept[lo*a.x.Cols/8:][:vector.Bits(n)] }

func (a *activate) backward() error {
	if a.x.Grad == nil {
		return nil
	}
	t, cols := a.tape, a.x.Cols
	a.x.gradient()
	step := rowSpan(cols)
	if a.b != nil {
		a.sums = t.room((a.x.Rows + step - 1) / step * cols)
	}
	if err := t.rowSpans(a.x.Rows, cols, a.slope); err != nil || a.b == nil {
		return err
	}
	return t.flow(a.b, func(to []float32) error {
		clear(to)
		for i := 0; i < len(a.sums); i += cols {
			vector.Add(to, a.sums[i:i+cols], 1)
		}
		return nil
	})
}

// slope makes the gradient of the operand, in place, of some rows.
func (a *activate) slope(lo, hi int) {
	cols := a.x.Cols
	d, y := a.x.Grad[lo*cols:hi*cols], a.x.Data[lo*cols:hi*cols]
	if a.f == relu { // what was dropped is 0, too
		vector.Slope(d, y, a.factor)
	} else if a.p > 0 {
		vector.Scale(d, d, a.bits(lo, len(d)), a.factor)
	}
	if a.f == elu {
		vector.ELUSlope(d, y, 1-a.p)
	}
	if a.b != nil {
		sum := a.sums[lo/rowSpan(cols)*cols:][:cols]
		clear(sum)
		for i := 0; i < len(d); i += cols {
			vector.Add(sum, d[i:i+cols], 1)
		}
	}
}

// Dropout sets elements to 0 with probability p and scales the others by 1/(1-p), where the tape trains. Whether
// element i stays is decided by draw i of a stream that is keyed by the seed, the step and the number of the dropout in
// it, so that it depends on nothing else.
func (t *autodiff) Dropout(x *variable, p float32) *variable {
	if !t.Training || p == 0 {
		return x
	}
	y := t.made(x.Rows, x.Cols, x)
	var kept []byte
	t.do("dropout", func() (err error) {
		kept, err = t.drop(y.Data, x.Data, p)
		return err
	}, func() error {
		from := y.gradient()
		return t.flow(x, func(to []float32) error { return t.undrop(to, from, kept, p) })
	})
	return y
}

// drop writes what dropout leaves of x to y, and returns the bits of what was kept.
func (t *autodiff) drop(y, x []float32, p float32) (kept []byte, err error) {
	stream := t.chance()
	kept = t.bits(len(x))
	return kept, t.spans(len(x), func(lo, hi int) {
		bits := kept[lo/8:][:vector.Bits(hi-lo)]
		vector.Keep(bits, stream, uint64(lo), p)
		vector.Scale(y[lo:hi], x[lo:hi], bits, 1/(1-p))
	})
}

// undrop writes the gradient of what dropout kept, which may be in place.
func (t *autodiff) undrop(to, from []float32, kept []byte, p float32) error {
	return t.spans(len(to), func(lo, hi int) {
		vector.Scale(to[lo:hi], from[lo:hi], kept[lo/8:][:vector.Bits(hi-lo)], 1/(1-p))
	})
}

// dropped returns what dropout leaves of data where the tape trains, and the bits of what was kept; otherwise data and
// nil.
func (t *autodiff) dropped(data []float32, p float32) (left []float32, kept []byte, err error) {
	if !t.Training || p == 0 {
		return data, nil, nil
	}
	left = t.room(len(data))
	kept, err = t.drop(left, data, p)
	return left, kept, err
}

// lossRows are computed by one goroutine at a time.
const lossRows = 512

// CrossEntropy returns the mean over rows of -log softmax(x)[label], and how many labels have the greatest score, and
// adds to the gradient of x that of the mean. rows are rows of x, labels one each, below the columns of x.
func (t *autodiff) CrossEntropy(x *variable, rows []int64, labels []int64) (loss float64, right int) {
	if t.err != nil || len(rows) == 0 {
		return 0, 0
	}
	if x.Grad != nil {
		x.gradient()
	}
	step := int64(len(rows)) // where rows repeat, two goroutines could meet
	if ascending(rows) {
		step = lossRows
	}
	parts := make([]lossPart, (int64(len(rows))+step-1)/step)
	err := t.pool.Split(int64(len(rows)), step, func(lo, hi int64) {
		parts[lo/step].add(x, rows[lo:hi], labels[lo:hi], 1/float64(len(rows)))
	})
	for _, p := range parts {
		loss, right = loss+p.loss, right+p.right
		if err == nil {
			err = p.err
		}
	}
	if err != nil {
		t.err = err
		return 0, 0
	}
	return loss / float64(len(rows)), right
}

// ascending reports whether each row follows those before it, so that none repeats.
func ascending(rows []int64) bool {
	for i := 1; i < len(rows); i++ {
		if rows[i-1] >= rows[i] {
			return false
		}
	}
	return true
}

// lossPart is the loss of some rows.
type lossPart struct {
	loss  float64
	right int
	err   error
}

func (l *lossPart) add(x *variable, rows, labels []int64, weight float64) {
	chances := make([]float32, x.Cols)
	for n, i := range rows {
		label := labels[n]
		if uint64(label) >= uint64(x.Cols) {
			l.err = fmt.Errorf("row %d: label %d is not below %d classes", i, label, x.Cols)
			return
		}
		scores := x.Data[i*int64(x.Cols) : (i+1)*int64(x.Cols)]
		greatest, sum := vector.Softmax(chances, scores)
		l.loss += math.Log(float64(sum)) - float64(scores[label]-greatest)
		if slices.Index(scores, greatest) == int(label) {
			l.right++
		}
		if x.Grad == nil {
			continue
		}
		chances[label]--
		vector.Add(x.Grad[i*int64(x.Cols):(i+1)*int64(x.Cols)], chances, float32(weight))
	}
}
