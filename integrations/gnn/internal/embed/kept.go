package embed

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/direct"
)

// What is kept of a program (Options.Keep) are its tables, and a file of sums: a line of JSON, and a hash of 64 bits
// for each row of a column and for the edges of each node. A later run over another graph sees in them which nodes have
// changed, and computes again what these reach: a sum that is damaged differs, too. The sums of the run in hand are in
// a file beside, which takes the place of the other when all tables are done.
const (
	keptFormat = "khop-embed-kept 2" // 1 had sums that lists of few sources shared
	keptFile   = "kept"
	keptNext   = "kept.next"
)

type keptHead struct {
	Format  string     `json:"format"`
	Program string     `json:"program"`
	Base    string     `json:"base"`
	Parts   []keptPart `json:"parts"`
}

type keptPart struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"`
}

// input is a column, or edges of nodes. each calls emit with the sums of its rows, some at a time.
type input struct {
	keptPart
	each    func(emit func(sums []uint64) error) error
	changed set
}

// inputs are what the tables of a program are made of, by name.
type inputs struct {
	all    []*input
	byName map[string]*input
}

func (in *inputs) add(name string, rows int64, each func(emit func([]uint64) error) error) {
	if in.byName[name] == nil {
		one := &input{keptPart{name, rows}, each, newSet(rows)}
		in.all, in.byName[name] = append(in.all, one), one
	}
}

// inputs lists what the program's tables are made of.
func (r *run) inputs() *inputs {
	in, schema := &inputs{byName: map[string]*input{}}, r.p.Graph.Schema()
	for _, s := range r.p.Steps {
		for _, t := range s.reads() {
			if t.bytes != nil {
				in.add(t.Name, t.Rows, func(emit func([]uint64) error) error { return r.columnSums(t, emit) })
			}
		}
		for i := range s.Sums {
			rel := &s.Sums[i]
			e := &schema.Edges[rel.Edges]
			in.add(r.edgesName(rel), schema.Nodes[e.Dst].Count, func(emit func([]uint64) error) error {
				sum := func(v int64) uint64 { return r.topology.sum(rel.Edges, v) }
				return r.sums(0, schema.Nodes[e.Dst].Count, sum, emit)
			})
			if rel.Reduce.normed() {
				in.add(r.degreesName(rel), schema.Nodes[e.Src].Count, func(emit func([]uint64) error) error {
					d, err := r.degreesOf(rel)
					if err != nil {
						return err
					}
					return r.sums(0, schema.Nodes[e.Src].Count, func(v int64) uint64 { return uint64(d.of[v]) }, emit)
				})
			}
		}
	}
	return in
}

func (r *run) edgesName(rel *Relation) string {
	return "edges " + r.p.Graph.Schema().Edges[rel.Edges].String() + rel.loopsOnce()
}

// sums calls emit with what sum makes of rows lo to hi, some at a time.
func (r *run) sums(lo, hi int64, sum func(v int64) uint64, emit func([]uint64) error) error {
	for ; lo < hi; lo += applySums {
		sums, err := room[uint64](r, "sums of inputs", min(applySums, hi-lo))
		if err != nil {
			return err
		}
		err = r.pool.Split(int64(len(sums)), 256, func(a, b int64) {
			for i := a; i < b; i++ {
				sums[i] = sum(lo + i)
			}
		})
		if err := errors.Join(r.ctxErr(), err); err != nil {
			return err
		}
		if err := emit(sums); err != nil {
			return err
		}
	}
	return nil
}

// applySums is how many rows are summed up at a time.
const applySums = 1 << 14

// columnSums emits the sums of a column's rows, and of what multiplies them.
func (r *run) columnSums(t *Table, emit func([]uint64) error) error {
	tables, row := []*Table{t}, t.rowBytes()
	return r.pass(tables, 0, t.Rows, r.blockRows(tables), func(first int64, raw [][]byte) error {
		return r.sums(first, first+int64(len(raw[0]))/row, func(v int64) uint64 {
			seed := uint64(0)
			if t.Scale != nil {
				seed = uint64(math.Float32bits(t.Scale[v]))
			}
			return xxh3.HashSeed(raw[0][(v-first)*row:(v-first+1)*row], seed)
		}, emit)
	})
}

// sum is that of the sources of a node's edges of a type.
func (t *topology) sum(edges int, node int64) uint64 {
	lo, hi := t.between(edges, node)
	offset := t.offset(edges)
	return sumOfList(node, hi-lo, func(i int64) int64 { return t.source(lo+i, offset) })
}

// sumOfList hashes a node, the length of a list, and the list: 64 entries at a time, each hash keyed by the
// one before.
func sumOfList(node, n int64, at func(i int64) int64) uint64 {
	var block [64 * 8]byte
	binary.LittleEndian.PutUint64(block[:], uint64(n))
	sum := xxh3.HashSeed(block[:8], uint64(node))
	for i := int64(0); i < n; {
		b := block[:0]
		for ; i < n && len(b) < len(block); i++ {
			b = binary.LittleEndian.AppendUint64(b, uint64(at(i)))
		}
		sum = xxh3.HashSeed(b, sum)
	}
	return sum
}

// compare chooses for all steps the nodes whose rows differ from those that were kept, or leaves all of them chosen
// where nothing of this program was kept. It writes the sums for the next run, but for a plan.
func (r *run) compare(planning bool) (err error) {
	in, next, file := r.inputs(), io.Discard, (*os.File)(nil)
	r.now = &StepReport{}
	if !planning {
		if err := os.MkdirAll(r.opt.Folder, 0o700); err != nil {
			return err
		}
		if file, err = os.Create(filepath.Join(r.opt.Folder, keptNext)); err != nil {
			return err
		}
		defer file.Close()
		next = direct.NewWriter(file)
	}
	before, err := r.openKept(in)
	if err != nil {
		return err
	}
	if before != nil {
		defer before.file.Close()
	}
	to := bufio.NewWriterSize(next, 1<<18)
	head := keptHead{keptFormat, r.p.Name, r.p.Base, nil}
	for _, one := range in.all {
		head.Parts = append(head.Parts, one.keptPart)
	}
	line, _ := json.Marshal(head)
	_, _ = to.Write(append(line, '\n')) // Flush says what comes of it
	for i, one := range in.all {
		from := before.part(i)
		if err := one.each(func(sums []uint64) error {
			from.compare(one.changed, sums)
			return binary.Write(to, binary.LittleEndian, sums)
		}); err != nil {
			return err
		}
	}
	err = to.Flush()
	if file != nil && err == nil {
		err = file.Sync()
	}
	if err != nil {
		return writeError(filepath.Join(r.opt.Folder, keptNext), err)
	}
	if before == nil || before.err != nil { // or it ends early
		return nil
	}
	r.update = before.Program
	return r.reach(in)
}

// keptSums is the file of sums that is there. nil has none.
type keptSums struct {
	keptHead
	file *os.File
	from *bufio.Reader
	err  error
}

// openKept opens the sums of this program; nil where there are none, or tables are not those that they are of.
func (r *run) openKept(in *inputs) (*keptSums, error) {
	f, err := os.Open(filepath.Join(r.opt.Folder, keptFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	k := &keptSums{file: f, from: bufio.NewReaderSize(f, 1<<18)}
	line, err := k.from.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &k.keptHead)
	}
	journal := readHead(filepath.Join(r.opt.Folder, journalFile))
	if err != nil || k.Format != keptFormat || k.Base != r.p.Base || len(k.Parts) != len(in.all) ||
		journal.Program != k.Program && (journal.Program != r.p.Name || journal.From != k.Program) {
		return nil, f.Close()
	}
	for i, p := range k.Parts {
		if p.Name != in.all[i].Name || p.Rows > in.all[i].Rows || p.Rows < 0 {
			return nil, f.Close()
		}
	}
	return k, nil
}

// part returns the sums of an input; their rows end where those that were kept do.
func (k *keptSums) part(i int) *keptRows {
	if k == nil {
		return &keptRows{}
	}
	return &keptRows{keptSums: k, left: k.Parts[i].Rows}
}

// keptRows are those of an input.
type keptRows struct {
	*keptSums
	at, left int64
	was      [applySums]uint64
}

// compare adds rows whose sums are others than before to a set.
func (k *keptRows) compare(changed set, sums []uint64) {
	n := min(k.left, int64(len(sums)))
	was := k.was[:n]
	if n > 0 && k.err == nil {
		k.err = binary.Read(k.from, binary.LittleEndian, was)
	}
	for i, sum := range sums {
		if int64(i) >= n || was[i] != sum {
			changed.add(k.at + int64(i))
		}
	}
	k.at, k.left = k.at+int64(len(sums)), k.left-n
}

// reach chooses the nodes of each step that what has changed reaches.
func (r *run) reach(in *inputs) error {
	changed := map[*Table]set{}
	of := func(t *Table) set {
		if t.bytes != nil {
			return in.byName[t.Name].changed
		}
		return changed[t]
	}
	for k, s := range r.p.Steps {
		n := r.of[k].count
		if n > math.MaxInt32 {
			return nil // all of them
		}
		chosen := newSet(n)
		for _, t := range s.ownTables() {
			chosen.addAll(of(t))
		}
		for i := range s.Sums {
			rel := &s.Sums[i]
			chosen.addAll(in.byName[r.edgesName(rel)].changed)
			sources := newSet(rel.Table.Rows)
			for _, t := range rel.tables() {
				sources.addAll(of(t))
			}
			if rel.Reduce.normed() {
				sources.addAll(in.byName[r.degreesName(rel)].changed)
			}
			if rel.Loops {
				chosen.addAll(sources)
			}
			r.topology.addTargets(chosen, rel.Edges, sources)
		}
		for _, t := range s.To {
			changed[t] = chosen
		}
		if count := chosen.count(); count < n {
			r.of[k] = nodes{count: count, list: chosen.list()}
		}
	}
	return nil
}

// addTargets adds the nodes that edges of a type lead to from some sources.
func (t *topology) addTargets(to set, edges int, sources set) {
	e := &t.g.Schema().Edges[edges]
	if offset := t.g.Offset(e.Src); sources.count() > 0 {
		for v := range t.g.Schema().Nodes[e.Dst].Count {
			for lo, hi := t.between(edges, v); lo < hi && !to.has(v); lo++ {
				if sources.has(t.source(lo, offset)) {
					to.add(v)
				}
			}
		}
	}
}
