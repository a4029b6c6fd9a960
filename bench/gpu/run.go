package gpu

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Run executes "rows", "random", "transfer" or "products" with its flags on the first device. With an error the result
// is what was measured before it, or nil.
func Run(ctx context.Context, args []string) (result any, err error) {
	if len(args) == 0 {
		return nil, errors.New("say what to measure: rows, random, transfer or products")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	r := &rig{ctx: ctx}
	flags.IntVar(&r.reps, "reps", 5, "times that a thing is measured; the median counts")
	var measure func() (any, error)
	switch args[0] {
	case "rows":
		o := rowsOptions{memory: memoryOptions{bytes: 1 << 30}, reads: 512 << 20}
		o.memory.flags(flags)
		flags.Var((*sizes)(&o.widths), "widths", "bytes a row, by commas")
		flags.Var((*sizes)(&o.offsets), "offsets", "bytes before the first row, by commas")
		flags.Var((*sizes)(&o.blocks), "blocks", "the most blocks of 256 threads a kernel, by commas; 0: the default")
		flags.Var((*size)(&o.reads), "reads", "bytes that a measurement carries over the bus")
		measure = func() (any, error) { return orNothing(r.rows(o)) }
	case "random":
		o := randomOptions{memory: memoryOptions{bytes: 1 << 30}, reads: 1 << 20}
		o.memory.flags(flags)
		flags.Var((*size)(&o.reads), "reads", "how many reads of 32 bytes")
		measure = func() (any, error) { return orNothing(r.random(o)) }
	case "transfer":
		o := transferOptions{}
		flags.StringVar(&o.dataset, "dataset", "", "dataset with a column feature")
		flags.StringVar(&o.fanouts, "fanouts", "15,10,5", "neighbours a hop")
		flags.IntVar(&o.batchSize, "batch-size", 1024, "seeds a batch")
		flags.IntVar(&o.batches, "batches", 20, "batches whose rows are transferred")
		flags.IntVar(&o.threads, "threads", 16, "threads that copy rows in the CPU-centric ways")
		flags.IntVar(&o.rounds, "rounds", 3, "times that all batches are measured")
		flags.Float64Var(&o.share, "cache", 0.2, "share of the rows that are cached in the cached way")
		flags.StringVar(&o.save, "save", "", "folder to write the batches' ids to, for other programs")
		measure = func() (any, error) { return orNothing(r.transfer(o)) }
	case "products":
		o := productsOptions{}
		flags.StringVar(&o.dataset, "dataset", "", "dataset whose graph is multiplied")
		flags.StringVar(&o.fanouts, "fanouts", "15,10,5", "neighbours a hop, of the block")
		flags.IntVar(&o.batchSize, "batch-size", 1024, "seeds of the block's batch")
		flags.Var((*sizes)(&o.widths), "widths", "columns, by commas")
		flags.StringVar(&o.save, "save", "", "folder to write the block to, for other programs")
		measure = func() (any, error) { return orNothing(r.products(o)) }
	default:
		return nil, fmt.Errorf("%q is none of rows, random, transfer, products", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return nil, err
	}
	if r.reps < 1 {
		return nil, errors.New("-reps: must be 1 or more")
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return measure()
}

// orNothing makes a nil result one that is equal to nil.
func orNothing[T any](result *T, err error) (any, error) {
	if result == nil {
		return nil, err
	}
	return result, err
}

// size is a flag of bytes: a number, or one with K, M or G of 1,024.
type size int64

func (s *size) String() string { return strconv.FormatInt(int64(*s), 10) }

// Set reads the flag.
func (s *size) Set(text string) error {
	shift := 0
	if i := strings.IndexAny(text, "KMG"); i >= 0 && i == len(text)-1 {
		shift = 10 * (strings.IndexByte("KMG", text[i]) + 1)
		text = text[:i]
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n<<shift>>shift != n {
		return fmt.Errorf("%q is not a size", text)
	}
	*s = size(n << shift)
	return nil
}

// sizes is a flag of several.
type sizes []int64

func (s *sizes) String() string { return fmt.Sprint([]int64(*s)) }

// Set reads the flag.
func (s *sizes) Set(text string) error {
	*s = nil
	for _, part := range strings.Split(text, ",") {
		var one size
		if err := one.Set(part); err != nil {
			return err
		}
		*s = append(*s, int64(one))
	}
	return nil
}
