package sourcetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// Case is a source, what is asked of its reader, and where it may be damaged.
type Case struct {
	Name     string
	Reader   source.Reader
	Files    map[string]string // by their paths in a folder
	At       string            // the place within the folder; "": the folder
	Requests []source.Request  // but for Budget and Progress; none: the zero value
	// Pack makes what lies on the disk of the files, such as archives. Damage is done before. nil: nothing is made.
	Pack func(files map[string]string) map[string]string
	// Keep names files that are not damaged.
	Keep []string
	// Lines: the files are texts, and their lines are left out and doubled too.
	Lines bool
}

// Whole returns the case, of which no file is damaged.
func (c Case) Whole() Case {
	c.Keep = slices.Collect(maps.Keys(c.Files))
	return c
}

// Outcomes compares what comes of reading the cases with testdata/outcomes.txt: the graph, notes, memory and temporary
// room for each request; then, for each file, what becomes of it cut short, with other bytes, and without it. The same
// reading must be possible twice, end with its context wherever that is looked at, hand on errors of whoever it yields
// to, and give back what it took. An error must name its file.
func Outcomes(t *testing.T, cases ...Case) {
	t.Helper()
	graphs := map[string]string{}
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // each file that is opened takes a large buffer
	var b strings.Builder
	for i := range cases {
		c := &cases[i]
		if len(c.Requests) == 0 {
			c.Requests = make([]source.Request, 1)
		}
		fmt.Fprintf(&b, "# %s\n", c.Name)
		d := &disk{t: t, c: c, dir: filepath.Join(t.TempDir(), "in"), temp: t.TempDir(), graphs: graphs}
		before := held(d.dir)
		last := ""
		for _, r := range c.Requests {
			text := d.good(r)
			if text == last {
				text = "and again\n"
			} else {
				last = text
			}
			b.WriteString(text)
		}
		d.closed("as it is", before)
		for _, name := range slices.Sorted(maps.Keys(c.Files)) {
			if !slices.Contains(c.Keep, name) {
				b.WriteString(d.damaged(name))
				d.closed(name, before)
			}
		}
	}
	expect.Golden(t, "testdata/outcomes.txt", b.String())
}

// disk is where a case lies.
type disk struct {
	t         *testing.T
	c         *Case
	dir, temp string
	laid      map[string]string
	same      string            // what the first request reads, if nothing is damaged
	found     int               // how many sources there are then
	graphs    map[string]string // the cases in which what is read stands first
}

// lay writes what is not there yet and removes what is not to be there any more.
func (d *disk) lay(files map[string]string) {
	if d.c.Pack != nil {
		files = d.c.Pack(maps.Clone(files))
	}
	for name := range d.laid {
		if _, ok := files[name]; !ok {
			expect.OK(d.t, os.Remove(filepath.Join(d.dir, name)))
		}
	}
	for name, text := range files {
		if was, ok := d.laid[name]; ok && was == text {
			continue
		}
		path := filepath.Join(d.dir, name)
		expect.OK(d.t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), rewrite(path, text)))
	}
	d.laid = maps.Clone(files)
}

// rewrite writes a file. It cuts a longer one afterwards: ext4 waits for the disk where a file that was cut is written.
func rewrite(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Truncate(int64(len(text))), f.Close())
}

// held counts the files in a folder that are open, and the mappings of them; 0 where the system does not list them.
func held(dir string) (n int) {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range list {
		if name, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(name, dir) {
			n++
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	return n + strings.Count(string(maps), dir)
}

// closed fails the test where more files are held than before.
func (d *disk) closed(what string, before int) {
	d.t.Helper()
	n := held(d.dir) - before
	expect.That(d.t, n <= 0, "%s, %s: %d files are still open or mapped", d.c.Name, what, n)
}

// seen is what a reading comes to.
type seen struct {
	found     []string
	text      string // the graph, its notes and its other facts
	err       error
	peak      int64
	disk      int64
	left      int64 // memory that was not given back
	stages    []string
	leftovers string
}

// read reads what lies there.
func (d *disk) read(ctx context.Context, r source.Request, limit int64, use func(*source.Graph)) (s seen) {
	ledger := Limited(limit)
	r.Budget = &source.Budget{Memory: ledger, Dir: d.temp, Disk: 64 << 20}
	if r.Skips != nil {
		skips := *r.Skips
		r.Skips = &skips
		defer func() { s.text += strings.ReplaceAll("\n"+source.Text(skips.Notes()), d.dir, "in") }()
	}
	r.Progress = func(stage string, done, total int64) {
		if at := fmt.Sprint(stage, " of ", total); !slices.Contains(s.stages, at) {
			s.stages = append(s.stages, at)
		}
	}
	defer func() {
		s.peak, s.disk = ledger.Peak(), r.Budget.DiskPeak()
		if left, _ := os.ReadDir(d.temp); len(left) > 0 || s.err == nil && ledger.Total() != 0 {
			s.leftovers = "; left behind: memory"
			if len(left) > 0 {
				s.leftovers = fmt.Sprintf("; left behind: %d files", len(left))
			}
			s.left = ledger.Total()
		}
		if s.err != nil {
			s.text = s.err.Error()
			within, of := (*formats.Error)(nil), (*fs.PathError)(nil)
			expect.That(d.t, errors.As(s.err, &within) || errors.As(s.err, &of) || ctx.Err() != nil || errors.Is(s.err,
				source.ErrOptions) || errors.Is(s.err, pinned.ErrLimit), "an error without a file: %v", s.err)
		}
		s.text = strings.ReplaceAll(s.text, d.dir, "in")
	}()
	tree, err := source.OpenTree(d.dir, r.Budget)
	if err != nil {
		s.err = err
		return s
	}
	defer func() { s.err = errors.Join(s.err, tree.Close()) }()
	s.found = d.c.Reader.Find(tree)
	at := "."
	if d.c.At != "" {
		at = d.c.At
	}
	g, err := d.c.Reader.Read(ctx, tree.At(at), &r)
	if err != nil {
		s.err = err
		return s
	}
	defer func() { s.err = errors.Join(s.err, g.Close()) }()
	if s.text, s.err = describe(ctx, g); use != nil && s.err == nil {
		use(g)
	}
	return s
}

// Limited returns a ledger with a limit.
func Limited(limit int64) *pinned.Ledger {
	l := &pinned.Ledger{}
	l.SetLimit(limit)
	return l
}

// describe spells a graph and its facts.
func describe(ctx context.Context, g *source.Graph) (string, error) {
	if g.CountNodes != nil {
		if err := g.CountNodes(ctx); err != nil {
			return "", err
		}
	}
	text, err := spell(g)
	if err != nil {
		return "", err
	}
	if g.Edges.Undirected {
		text += "undirected\n"
	}
	if g.Edges.Where != nil {
		for _, i := range []int64{0, g.Edges.Count / 2, g.Edges.Count - 1} {
			text += g.Edges.Where(i) + "\n"
		}
	}
	return text + spellNotes(g.Notes), nil
}

// spellNotes writes notes a line each, with the changes that they are about.
func spellNotes(notes []source.Note) (text string) {
	for _, n := range notes {
		text += "note: "
		if n.Change != source.Said {
			text += fmt.Sprintf("%s, %d of %q: ", n.Change, n.Count, n.Name)
		}
		text += n.Text + "\n"
	}
	return text
}

// good reads what is not damaged.
func (d *disk) good(r source.Request) string {
	d.lay(d.c.Files)
	ctx := context.Background()
	s := d.read(ctx, r, 0, func(g *source.Graph) { d.promises(g) })
	what := d.anew(short(s.text))
	if s.err != nil {
		what = expect.Line(d.t, s.err, d.dir)
	}
	text := fmt.Sprintf("found %q\n%s%s\n", s.found, what, s.leftovers)
	if d.same == "" {
		d.same, d.found = s.text, len(s.found)
	}
	if s.err != nil {
		return text
	}
	least, most := int64(1), 16*max(s.peak, 1)
	var x seen
	for least < most {
		at := (least + most) / 2
		if x = d.read(ctx, r, at, nil); x.err == nil && graphOf(x.text) == graphOf(s.text) {
			most = at
			continue
		}
		if x.err == nil {
			d.t.Errorf("%s: in %d bytes it is another graph: %s", d.c.Name, at, x.text)
		} else if !errors.Is(x.err, pinned.ErrLimit) {
			d.t.Errorf("%s: in %d bytes: %v", d.c.Name, at, x.err)
		}
		least = at + 1
	}
	x = d.read(ctx, r, least, nil)
	looks := int64(1 << 40)
	counting := expect.EndsAfter(ctx, looks)
	d.read(counting, r, 0, nil)
	looks -= counting.Left()
	for i := range min(looks, 12) {
		n := i * looks / min(looks, 12)
		if s := d.read(expect.EndsAfter(ctx, n), r, 0, nil); s.err == nil || !errors.Is(s.err, context.Canceled) {
			d.t.Errorf("%s: the context ends at look %d of %d: %v", d.c.Name, n, looks, s.err)
		}
	}
	return text + fmt.Sprintf("memory %d (%d left), at least %d, then disk %d; %d looks at its context; %s\n", s.peak,
		s.left, least, x.disk, looks, strings.Join(s.stages, ", "))
}

// anew returns a graph, or where it stands already.
func (d *disk) anew(text string) string {
	if first, ok := d.graphs[text]; ok && len(text) > 60 {
		return "the graph that stands first in " + first
	} else if !ok {
		d.graphs[text] = d.c.Name
	}
	return text
}

// graphOf leaves out notes: some take memory to find out, and are left out where there is none.
func graphOf(text string) string {
	graph, _, _ := strings.Cut(text, "note: ")
	return graph
}

// short cuts a long text, and adds its digest.
func short(s string) string {
	if len(s) < 1200 {
		return s
	}
	digest := sha256.Sum256([]byte(s))
	tail := s[len(s)-400:]
	return fmt.Sprintf("%s ... %d bytes: %x ... %s", s[:200], len(s), digest[:8], tail[strings.IndexByte(tail, ' ')+1:])
}

// promises checks what each graph promises who uses it.
func (d *disk) promises(g *source.Graph) {
	stop := errors.New("stop")
	once, _ := spell(g)
	if twice, err := spell(g); err != nil || once != twice {
		d.t.Errorf("%s: read once\n%sread again\n%s%v", d.c.Name, once, twice, err)
	}
	for batches := range 3 {
		n := 0
		if err := g.Edges.Each(func(source.Batch) error {
			if n++; n > batches {
				return stop
			}
			return nil
		}); n > batches && (n > batches+1 || !errors.Is(err, stop)) {
			d.t.Errorf("%s: an error in batch %d of edges becomes %v in batch %d", d.c.Name, batches, err, n)
		}
	}
	for _, n := range g.Nodes {
		for _, c := range n.Columns {
			if size := n.Count * c.RowBytes(); size > 0 && size <= spellable {
				for _, room := range []int64{0, size - 1} {
					if err := c.Write(context.Background(), &full{room, stop}); !errors.Is(err, stop) {
						d.t.Errorf("%s: column %s into a writer with room for %d of %d bytes: %v", d.c.Name, c.Name,
							room, size, err)
					}
				}
			}
		}
		for _, list := range n.Strings {
			if err := list.Each(func(string) error { return stop }); list.Rows > 0 && !errors.Is(err, stop) {
				d.t.Errorf("%s: an error beside strings %s becomes %v", d.c.Name, list.Name, err)
			}
		}
	}
}

// full is a writer with so much room.
type full struct {
	room int64
	err  error
}

func (f *full) Write(p []byte) (int, error) {
	if int64(len(p)) > f.room {
		return 0, f.err
	}
	f.room -= int64(len(p))
	return len(p), nil
}

// readings is about how many times a file is damaged.
const readings = 300

// damaged reads a case with one file damaged.
func (d *disk) damaged(name string) string {
	var count expect.Tally
	try := func(text string, there bool) {
		files := maps.Clone(d.c.Files)
		if files[name] = text; !there {
			delete(files, name)
		}
		d.lay(files)
		s := d.read(context.Background(), d.c.Requests[0], 64<<20, nil)
		before := strings.TrimPrefix(strings.TrimPrefix(s.leftovers+": ", "; "), ": ")
		if len(s.found) != d.found {
			before = fmt.Sprintf("%d found%s: ", len(s.found), s.leftovers)
		}
		switch {
		case s.err != nil:
			count.Fault(d.t, before, s.err, d.dir)
		case s.text == d.same:
			count.Add(before+"the same graph", s.found, s.left)
		default:
			count.Add(before+"another graph", s.found, s.left, s.text)
		}
	}
	try("", false)
	damage(d.c.Files[name], d.c.Lines, func(text string) { try(text, true) })
	return fmt.Sprintf("## %s\n%s", name, &count)
}

// damage tries a text twice over, cut short, with other bytes, and, if it has lines, without each and with each twice.
func damage(b string, byLine bool, try func(text string)) {
	try(b + b)
	step := 1 + 2*len(b)/readings
	for at := 0; at < len(b); at += step {
		try(b[:at])
	}
	others := []func(c byte) byte{func(c byte) byte { return c ^ 1 }, func(byte) byte { return '-' },
		func(byte) byte { return 0xff }, func(byte) byte { return '\n' }, func(c byte) byte { return c ^ 0x80 },
		func(byte) byte { return '0' }, func(byte) byte { return 0 }}
	for i, at := 0, 0; at < len(b); at += step {
		for range max(1, min(readings/2/len(b), len(others))) {
			if c := others[i%len(others)](b[at]); c != b[at] {
				try(b[:at] + string([]byte{c}) + b[at+1:])
			}
			i++
		}
	}
	if lines := strings.SplitAfter(b, "\n"); byLine && len(lines) < 100 {
		for i, line := range lines {
			try(strings.Join(lines[:i], "") + strings.Join(lines[i+1:], ""))
			try(strings.Join(lines[:i], "") + line + strings.Join(lines[i:], ""))
		}
	}
}

// Seen is what one way to look at some bytes comes to.
type Seen struct {
	Way    string
	Err    error
	Values string // what else is seen
}

// together makes one of ways that stand beside each other and come to the same.
func together(all []Seen) (list []Seen) {
	for _, s := range all {
		last := len(list) - 1
		if last < 0 || s.Values != list[last].Values || fmt.Sprint(s.Err) != fmt.Sprint(list[last].Err) {
			list = append(list, s)
			continue
		}
		list[last].Way += ", " + s.Way
	}
	return list
}

// Texts is Outcomes for what reads bytes: look says what it sees in some. of has texts by name.
func Texts(t *testing.T, of map[string]string, look func(text string) []Seen) {
	t.Helper()
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(of)) {
		var count expect.Tally
		good := look(of[name])
		fmt.Fprintf(&all, "# %s\n", name)
		for _, s := range together(good) {
			fmt.Fprintf(&all, "%s: %s, %s\n", s.Way, expect.Line(t, s.Err, ""), short(s.Values))
		}
		damage(of[name], false, func(text string) {
			got := look(text)
			if fmt.Sprint(got) == fmt.Sprint(good) {
				count.Add("the same")
				return
			}
			for _, s := range together(got) {
				if s.Err == nil {
					count.Add(s.Way+": fine", s.Values)
					continue
				}
				count.Fault(t, s.Way+": ", s.Err, "")
				if s.Values != "" {
					count.Add("beside errors", s.Way, s.Values)
				}
			}
		})
		fmt.Fprintf(&all, "##\n%s", &count)
	}
	expect.Golden(t, "testdata/outcomes.txt", all.String())
}
