package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/depot"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
)

// A conversion in tasks goes through a working folder beside the dataset, which all machines see, or one in its store:
//
//	plan.json   what is converted, how, and in which tasks
//	tasks/      a descriptor of each task, which says no more than which one it is
//	data/       a folder of each attempt at a task
//	done/       what each task has made, and in which attempt: written once, by the first that is done
//
// Stages follow each other, and the tasks of one do not wait for each other:
//
//	read     some of the edges, as the source lists them; or the whole source
//	nodes    all that the source has beside edges
//	number   which number each key of a node stands for, and that which a node has in a new order (one task)
//	place    the edges of a read task, by these numbers
//	range    the in-edges of a range of nodes
//	commit   the dataset (one task)
const (
	planName  = "plan.json"
	tasksName = "tasks"
	dataName  = "data"
	doneName  = "done"

	taskRead   = "read"
	taskNodes  = "nodes"
	taskNumber = "number"
	taskPlace  = "place"
	taskRange  = "range"
	taskCommit = "commit"
)

// maxTasks is the greatest number of tasks of a stage.
const maxTasks = 1 << 12

// tasksVersion is that of plans: tasks of another do not go together.
const tasksVersion = 2

// tasksPlan is what all tasks have in common.
type tasksPlan struct {
	Version int            `json:"version"`
	ID      string         `json:"id"`
	Source  string         `json:"source"`
	Dataset string         `json:"dataset"`
	Options Options        `json:"options"`
	Kind    string         `json:"kind"`
	Tasks   int            `json:"tasks"`
	Reads   int            `json:"reads"`            // read tasks
	Whole   string         `json:"whole,omitempty"`  // why one task reads all; "": several do
	Numbers bool           `json:"numbers"`          // nodes get numbers that no read task knows
	Facts   []byte         `json:"facts,omitempty"`  // of source.Planned
	Notes   []formats.Note `json:"notes"`            // on the source
	Files   []stamp        `json:"files"`            // of the source, as far as planning has opened them
	Content string         `json:"content"`          // of a source that has an address: tells it from another
	Stages  [][]string     `json:"stages,omitempty"` // names of tasks
}

// stamp tells whether a file is the same.
type stamp struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	Time int64  `json:"time"` // it was written, in nanoseconds
}

// descriptor is a task.
type descriptor struct {
	Plan   string `json:"plan"` // its id
	Task   string `json:"task"`
	Number int    `json:"number"`
}

// workOf returns the working folder of a dataset.
func workOf(dst string) string {
	if address.Is(dst) {
		return strings.TrimSuffix(dst, "/") + workEnd
	}
	return filepath.Clean(dst) + workEnd
}

// workEnd is what names of working folders end in.
const workEnd = ".khop-tasks"

// absolute returns a path that all machines understand. An address is one.
func absolute(path string) (string, error) {
	if path == "" || address.Is(path) {
		return path, nil
	}
	return filepath.Abs(path)
}

// PlanTasks divides the conversion of src to dst into tasks for about n processes, and returns the descriptors of those
// of each stage: RunTask runs one. They lie in a working folder beside dst, which CleanTasks removes. Tasks of a stage
// may run at the same time, on any machine where the source and the folder of dst have the same paths, or addresses;
// those of the next stage begin when all are done. A task may run again, or twice at the same time, whether it failed
// or not: a finished task does nothing. The dataset is the same as that of Run.
//
// Errors are those of Run, and formats.ErrExist if there is a working folder.
func PlanTasks(ctx context.Context, src, dst string, n int, opt Options) (stages [][]string, err error) {
	if n < 1 || n > maxTasks {
		return nil, fmt.Errorf("%w: %d tasks: 1 to %d are possible", ErrOptions, n, maxTasks)
	}
	if opt.DryRun {
		return nil, option.Errorf(ErrOptions, opt, "DryRun", " is for a conversion at once")
	}
	for _, path := range []*string{&src, &dst, &opt.Features, &opt.Labels} {
		if *path, err = absolute(*path); err != nil {
			return nil, err
		}
	}
	c, err := begin(src, dst, &opt)
	if err != nil {
		return nil, err
	}
	if address.Is(dst) {
		_, err = newTarget(ctx, dst, opt.Force)
	} else {
		err = c.roomFor(0)
	}
	if err != nil {
		return nil, err
	}
	p := &tasksPlan{Version: tasksVersion, ID: depot.Unique(), Source: src, Dataset: dst, Tasks: n, Reads: n,
		Notes: []formats.Note{}}
	if err := c.planTasks(ctx, p); err != nil {
		return nil, err
	}
	p.list()
	work, err := depot.Of(ctx, workOf(dst))
	if err == nil {
		err = p.write(work)
	}
	if err != nil {
		return nil, err
	}
	for _, stage := range p.Stages {
		var files []string
		for _, name := range stage {
			files = append(files, work.Path(taskFile(name)))
		}
		stages = append(stages, files)
	}
	if p.Whole != "" {
		opt.Log(fmt.Sprintf("one task reads the source: %s", p.Whole))
	}
	return stages, nil
}

// planTasks looks at the source.
func (c *conversion) planTasks(ctx context.Context, p *tasksPlan) (err error) {
	if p.Content, err = c.come(ctx, false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.leave()) }()
	t, err := c.open()
	if err != nil {
		return err
	}
	c.tree = t
	defer func() { err = errors.Join(t.ExplainText(err), t.Close()) }()
	r, at, err := recognise(t, c.opt.From)
	if err != nil {
		return err
	}
	if err := c.checkOptions(&r); err != nil {
		return err
	}
	p.Kind = r.Name
	nodes, err := c.openTables()
	if err != nil {
		return err
	}
	switch {
	case r.Plan == nil:
		p.Whole = fmt.Sprintf("parts of the kind %q are not read", r.Name)
	case t.Packed():
		p.Whole = "it is an archive"
	case c.opt.Strict:
		p.Whole = "to be strict takes all of it"
	case c.opt.Reorder != 0 && c.opt.Reorder != AsListed && c.opt.Reorder != ByDegree:
		p.Whole = fmt.Sprintf("the order %q takes all edges", c.opt.Reorder)
	default:
		known, err := r.Plan(ctx, at, c.request(nodes))
		if err != nil {
			return err
		}
		p.Whole, p.Facts = known.Whole, known.Facts
		p.Numbers = known.Keys || c.opt.Reorder == ByDegree
		p.Notes = append(p.Notes, c.spell(known.Notes)...)
	}
	if p.Whole != "" {
		p.Reads, p.Numbers, p.Notes = 1, false, []formats.Note{}
	}
	for path, st := range t.Opened() {
		if p.Content != "" {
			break
		}
		p.Files = append(p.Files, stamp{path, st.Size(), st.ModTime().UnixNano()})
	}
	p.Options = c.opt
	p.Options.MemoryLimit = 0
	return nil
}

// list names the tasks of each stage.
func (p *tasksPlan) list() {
	several := func(task string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%s-%d", task, i))
		}
		return list
	}
	first := several(taskRead, p.Reads)
	if p.Whole == "" {
		first = append(first, taskNodes+"-0")
	}
	p.Stages = [][]string{first}
	if p.Numbers {
		p.Stages = append(p.Stages, []string{taskNumber + "-0"}, several(taskPlace, p.Reads))
	}
	p.Stages = append(p.Stages, several(taskRange, p.Tasks), []string{taskCommit + "-0"})
}

// taskFile returns the name of a descriptor in the working folder.
func taskFile(name string) string { return tasksName + "/" + name + ".json" }

// write makes the working folder, whole or not at all.
func (p *tasksPlan) write(work depot.Depot) error {
	files := map[string][]byte{}
	add := func(name string, v any) error {
		text, err := json.Marshal(v)
		files[name] = append(text, '\n')
		return err
	}
	err := add(planName, p)
	for _, stage := range p.Stages {
		for _, name := range stage {
			task, number, _ := strings.Cut(name, "-")
			n, _ := strconv.Atoi(number)
			err = errors.Join(err, add(taskFile(name), descriptor{p.ID, task, n}))
		}
	}
	if err == nil {
		err = work.Make(files, planName)
	}
	if errors.Is(err, fs.ErrExist) {
		err = source.Error(work.Path(""), "", -1, option.Textf("run its tasks, or remove it (%s)", depot.Cleaning),
			fmt.Errorf("%w: tasks of another conversion", formats.ErrExist))
	}
	return err
}

// readJSON reads a small file of a depot.
func readJSON(from depot.Depot, name string, v any) error {
	text, err := from.Get(name)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return source.Error(from.Path(name), "", -1, "", err)
	}
	return nil
}

// task is an attempt at a task.
type task struct {
	descriptor
	plan  tasksPlan
	work  depot.Depot
	data  string // the name of its folder of data
	files *depot.Attempt
	c     *conversion
}

// name returns what the task is called.
func (t *task) name() string { return nameOf(t.Task, t.Number) }

func nameOf(task string, number int) string { return fmt.Sprintf("%s-%d", task, number) }

// dir returns the folder of this machine that the attempt writes to.
func (t *task) dir() string { return t.files.Dir }

// RunTask runs a task of PlanTasks, by its descriptor. Of the options only MemoryLimit, Remote, Progress, Heat,
// Spell and Log are its own: all others are those of the plan. What it writes has another name until it is whole, so
// that it may be killed at any time. The result is that of the last task, which makes the dataset, and nil of all
// others.
//
// Errors are those of Run; formats.ErrCorrupt where what another task has written is not what it was;
// fs.ErrNotExist where a task of an earlier stage is not done.
func RunTask(ctx context.Context, file string, opt Options) (res *Result, err error) {
	t := &task{}
	if file, err = absolute(file); err != nil {
		return nil, err
	}
	folder, name := address.Split(file, 1)
	if t.work, err = depot.Of(ctx, folder); err != nil {
		return nil, err
	}
	if err := readJSON(t.work, name, &t.descriptor); err != nil {
		return nil, err
	}
	if err := readJSON(t.work, planName, &t.plan); err != nil {
		return nil, err
	}
	if err := t.check(file); err != nil {
		return nil, err
	}
	if done, err := t.isDone(); err != nil || done && t.Task != taskCommit {
		return nil, err
	}
	own := opt
	opt = t.plan.Options
	opt.MemoryLimit, opt.Progress, opt.Log = own.MemoryLimit, own.Progress, own.Log
	opt.Heat, opt.Spell, opt.Remote = own.Heat, own.Spell, own.Remote
	if t.c, err = begin(t.plan.Source, t.plan.Dataset, &opt); err != nil {
		return nil, err
	}
	t.data = t.name() + "." + depot.Unique()
	if t.files, err = t.work.Begin(path.Join(dataName, t.data)); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.files.End()) }()
	t.c.budget.Dir = t.dir()
	t.c.budget.Disk, _ = transaction.FreeSpace(t.dir())
	err = t.c.guarded(func() (err error) {
		res, err = t.run(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.name(), t.explainSpace(err))
	}
	return res, nil
}

// explainSpace says of a full disk what is to be done.
func (t *task) explainSpace(err error) error {
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, formats.ErrSpace) {
		return err
	}
	return source.Error(t.dir(), "", -1, "make room there, and run the task again",
		fmt.Errorf("%w: %w", formats.ErrSpace, err))
}

// check refuses what is no task of the plan.
func (t *task) check(file string) error {
	bad := func(format string, args ...any) error {
		return source.Error(file, "", -1, "plan the tasks again", fmt.Errorf(format, args...))
	}
	p := &t.plan
	switch {
	case p.Version != tasksVersion:
		return bad("%w: tasks of version %d, and this khop has version %d", ErrOptions, p.Version, tasksVersion)
	case t.Plan != p.ID:
		return bad("%w: a task of another plan", ErrOptions)
	case p.Tasks < 1 || p.Tasks > maxTasks || p.Reads < 1 || p.Reads > maxTasks,
		!slices.ContainsFunc(p.Stages, func(s []string) bool { return slices.Contains(s, t.name()) }):
		return bad("%w: %s is no task of the plan", ErrOptions, paths.Text(t.name()))
	}
	return nil
}

func (t *task) run(ctx context.Context) (*Result, error) {
	switch t.Task {
	case taskRead:
		if t.plan.Whole != "" {
			return nil, t.reading(ctx, t.readWhole)
		}
		return nil, t.reading(ctx, t.readPart)
	case taskNodes:
		return nil, t.reading(ctx, t.readNodes)
	case taskNumber:
		return nil, t.number(ctx)
	case taskPlace:
		return nil, t.place(ctx)
	case taskRange:
		return nil, t.sortRange(ctx)
	}
	return t.commit(ctx)
}

// isDone reports whether the task has been done.
func (t *task) isDone() (bool, error) {
	_, err := t.work.Get(doneFile(t.name()))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// doneFile returns the name of what a task says that is done.
func doneFile(name string) string { return doneName + "/" + name + ".json" }

// done says what a task has made.
type done struct {
	Plan string `json:"plan"`
	Data string `json:"data"` // the folder of the attempt
	made
}

// finish notes that the task is done, unless another attempt already has.
func (t *task) finish(m made) error {
	text, err := json.Marshal(done{t.plan.ID, t.data, m})
	if err != nil {
		return err
	}
	return t.files.Publish(doneFile(t.name()), append(text, '\n'))
}

// look reads what a task has made, and the folder in which that lies.
func (t *task) look(task string, number int) (made, depot.Depot, error) {
	var d done
	name := nameOf(task, number)
	if err := readJSON(t.work, doneFile(name), &d); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = source.Error(t.work.Path(doneFile(name)), "", -1, "run that task first",
				fmt.Errorf("task %s is not done: %w", name, fs.ErrNotExist))
		}
		return made{}, nil, err
	}
	if d.Plan != t.plan.ID || !filepath.IsLocal(d.Data) || filepath.Base(d.Data) != d.Data {
		return made{}, nil, source.Error(t.work.Path(doneFile(name)), "", -1, "plan the tasks again",
			fmt.Errorf("%w: what it says is not of this plan", formats.ErrCorrupt))
	}
	return d.made, t.work.In(path.Join(dataName, d.Data)), nil
}

// CleanTasks removes the working folder of the tasks for the dataset dst, and the remains of tasks that died, if the
// dataset is not complete. It does nothing without either. No task may be running.
func CleanTasks(ctx context.Context, dst string) error {
	dst, err := absolute(dst)
	if err != nil {
		return err
	}
	work, err := depot.Of(ctx, workOf(dst))
	if err != nil {
		return source.Error(dst, "", -1, "", err)
	}
	if err := work.Remove(tasksName, dataName, doneName, planName); err != nil {
		return err
	}
	if address.Is(dst) {
		t, err := newTarget(ctx, dst, true)
		if err != nil {
			return err
		}
		return t.Clean(ctx)
	}
	w, err := formats.Create(dst, formats.WriterOptions{})
	if errors.Is(err, formats.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return w.Abort()
}
