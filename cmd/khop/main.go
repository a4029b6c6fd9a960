// Command khop converts graphs, checks them, and loads mini-batches of them. It parses, calls the packages and prints;
// "khop --help" lists the commands, docs/cli.md describes them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/cmd/khop/internal/ending"
	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/formats/export"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// Exit statuses. Scripts rely on them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = ending.Interrupted
)

// commands is the command line, in the order and the groups of its help; one file holds each command.
type commands struct {
	Demo   demoCmd   `group:"Start:" help:"Tour: make a small graph, check it, load it, train on it."`
	Doctor doctorCmd `group:"Start:" help:"Describe this machine, and how each stage runs here."`
	Docs   docsCmd   `group:"Start:" help:"Show a page of the documentation."`

	Generate  generateCmd  `group:"Datasets:" help:"Write a synthetic graph of any size."`
	Convert   convertCmd   `group:"Datasets:" help:"Convert a graph, tables or a database to a dataset."`
	Task      taskCmd      `group:"Datasets:" help:"Run tasks that khop convert --plan has printed."`
	Add       addCmd       `group:"Datasets:" help:"Add columns, splits or database rows to a dataset."`
	Split     splitCmd     `group:"Datasets:" help:"Split nodes or links into train, val and test at random."`
	Partition partitionCmd `group:"Datasets:" help:"Divide the nodes into parts, for --sampler cluster."`
	Export    exportCmd    `group:"Datasets:" help:"Write a dataset in another program's format."`
	Stage     stageCmd     `group:"Datasets:" help:"Copy a dataset from a store to this machine."`
	Info      infoCmd      `group:"Datasets:" help:"Print what a dataset holds."`
	Check     checkCmd     `group:"Datasets:" help:"Verify a dataset: checksums, ids, order, counts."`

	Sample   sampleCmd   `group:"Batches:" help:"Load batches, and print a line or a digest of each."`
	Samplers samplersCmd `group:"Batches:" help:"List the samplers, with their options and defaults."`
	Bench    benchCmd    `group:"Batches:" help:"Measure how fast batches load."`
	Plan     planCmd     `group:"Batches:" help:"Predict the cost of features on disk, by cache size."`
	Serve    serveCmd    `group:"Batches:" help:"Feed batches to other processes by shared memory."`

	Train trainCmd `group:"Models:" help:"Train a graph neural network on the CPU."`
	Embed embedCmd `group:"Models:" help:"Compute a trained model's rows for every node."`
	Tune  tuneCmd  `group:"Models:" help:"Find the fastest sparse products on this machine."`

	Report reportCmd `group:"Runs:" help:"Compare runs in one HTML file."`
	Trace  traceCmd  `group:"Runs:" help:"Work with traces, which Perfetto opens."`

	Options    optionsCmd    `group:"This program:" help:"List the options of all commands."`
	Version    versionCmd    `group:"This program:" help:"Print the versions of program, format and sampling."`
	Completion completionCmd `group:"This program:" help:"Print a completion script for bash, zsh or fish."`

	general
}

// general are flags of every command.
type general struct {
	Parent int `placeholder:"PID" hidden:"" help:"End when that process, which started this one, ends."`
}

// environment is what a command runs in, so that tests run commands in memory.
type environment struct {
	ctx            context.Context
	stdout, stderr io.Writer
	terminal       bool // stderr is a terminal: progress is shown
	values         bool // errors are written as JSON
	memory         memoryLimit
}

// leastFiles is how many files must be allowed to be open: without a few of its own Go's runtime ends the process.
const leastFiles = 16

func main() {
	if n := machine.OpenFiles(); n > 0 && n < leastFiles {
		fmt.Fprintf(os.Stderr, "khop: %d files may be open at a time, and khop needs %d: allow more (ulimit -n)\n", n,
			leastFiles)
		os.Exit(exitFailed)
	}
	if len(os.Args) == 3 && os.Args[1] == ending.TidyUp {
		os.Exit(ending.Tidy(os.Args[2], os.Stderr))
	}
	ctx := ending.Interruptible()
	// Not stopped before the end: Ctrl-C in the last moment would kill a process that has done its work.
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, isTerminal(os.Stderr)))
}

// exited is what kong's exit function panics with, so that printing help ends the parse and not the process.
type exited int

// run executes one command line and returns the exit status. It never panics.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, terminal bool) (code int) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case exited:
			code = int(p)
		default:
			fmt.Fprintf(stderr, "khop: internal error: %v\nThis is a bug; please report it with the command line", p)
			if os.Getenv("KHOP_DEBUG") != "" {
				fmt.Fprintf(stderr, " and this trace:\n%s", debug.Stack())
			} else {
				fmt.Fprint(stderr, " (KHOP_DEBUG=1 adds a trace).\n")
			}
			code = exitFailed
		}
	}()
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if len(args) == 1 && args[0] == "--version" { // as most programs take it
		args = []string{"version"}
	}
	var cli commands
	named, asked := args, os.Getenv("COMP_LINE") != ""
	if asked {
		named = nil
	}
	parser, err := newParser(&cli, named, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "khop:", err)
		return exitFailed
	}
	if asked { // by a shell
		for _, word := range complete(parser, os.Getenv("COMP_LINE")) {
			fmt.Fprintln(stdout, word)
		}
		return exitDone
	}
	env := &environment{ctx: ctx, stdout: stdout, stderr: stderr, terminal: terminal, values: saysConfig(args)}
	defer ending.WatchStandstill(func(where string) {
		fmt.Fprintf(env.overStatus(), "khop: %s\n", paths.Message(where))
	})()
	line, err := parse(parser, args, ctx)
	if err != nil && (env.values || ctx.Err() != nil) {
		return env.status(&usage{err})
	}
	if err != nil {
		fmt.Fprintf(stderr, "khop: %s\n%s\n", paths.Message(errorText(err, option.Flag)), usageHint(line))
		return exitUsage
	}
	defer heaps.enter(&env.memory)()
	if err = env.limitMemory(line); err == nil {
		err = env.memory.explain(env.withParent(cli.Parent, func() error { return execute(line, env) }))
	}
	return env.status(err)
}

// errParent ends a command whose parent has ended.
var errParent = errors.New("the process that started this one has ended")

// withParent runs a command, which is interrupted when the process that started this one ends: 0 is any.
func (env *environment) withParent(pid int, run func() error) error {
	if pid == 0 {
		return run()
	}
	ctx, cancel := context.WithCancelCause(env.ctx)
	defer cancel(nil)
	env.ctx = ctx
	defer server.WatchProcess(pid, func() {
		cancel(errParent)
		ending.Later()
	})()
	if os.Getppid() != pid { // it has ended before it could be watched
		return wrongOption("parent", " %d: that is not the process that started this one", pid)
	}
	if err := run(); context.Cause(ctx) != errParent || err == nil {
		return err
	}
	return nil // an orderly end
}

// newParser returns a parser of command lines; nil stands for any. Where a line begins with a command it knows that one
// alone, and else flags that are made from tags of the commands that are named: no start makes what it does not need.
func newParser(cli *commands, line []string, stdout, stderr io.Writer) (*kong.Kong, error) {
	for door, flags := range cli.tagged() {
		if line == nil || slices.Contains(line, door) {
			flags.declare(door)
		}
	}
	return kong.New(&cli.general, append([]kong.Option{
		kong.Name("khop"),
		kong.Description("Mini-batches of large graphs for training graph neural networks."),
		kong.Writers(stdout, stderr),
		kong.Vars{"config_help": configHelp},
		kong.KindMapper(reflect.String, kong.MapperFunc(takeBytes)),
		kong.NamedMapper("path", kong.MapperFunc(takePath)),
		kong.WithHyphenPrefixedParameters(true), // --fanouts -1
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
	}, slices.Concat(spokenMappers(), cli.of(line))...)...)
}

// of returns the command that a line begins with, or else all of them, as kong takes them.
func (c *commands) of(line []string) (all []kong.Option) {
	fields := reflect.ValueOf(c).Elem()
	for i := range fields.NumField() {
		field := fields.Type().Field(i)
		if field.Anonymous {
			continue
		}
		name := strings.ToLower(field.Name)
		command := kong.DynamicCommand(name, field.Tag.Get("help"), field.Tag.Get("group"),
			fields.Field(i).Addr().Interface())
		if len(line) > 0 && line[0] == name {
			return []kong.Option{command}
		}
		all = append(all, command)
	}
	return all
}

// takeBytes takes a value as it is. kong's own way passes it through JSON, which turns bytes that are not UTF-8 into
// others: different paths would then name the same file.
func takeBytes(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("string")
	if err != nil || token.IsEOL() { // missing values are reported elsewhere
		return err
	}
	target.SetString(token.String())
	return nil
}

// takePath takes a path: see expandPath.
func takePath(ctx *kong.DecodeContext, target reflect.Value) error {
	err := takeBytes(ctx, target)
	target.SetString(expandPath(target.String()))
	return err
}

// expandPath returns a path from the root, in which "~/" leads to the user's folder. "-" is standard output or input,
// and an empty path stays empty. An address of a store stays what it is.
func expandPath(path string) string {
	if path == "" || path == "-" || remote.IsAddress(path) {
		return path
	}
	return kong.ExpandPath(path)
}

// usageHint names the help that fits where parsing ended.
func usageHint(line *kong.Context) string {
	if n := line.Selected(); n != nil {
		return fmt.Sprintf(`See "khop %s --help".`, n.Name)
	}
	return `See "khop --help".`
}

// errUsage marks errors that lie in how a command was called: exit status 2.
var errUsage = errors.New("usage")

// usageError returns an error of exit status 2.
func usageError(format string, args ...any) error {
	return &usage{fmt.Errorf(format, args...)}
}

type usage struct{ error }

func (u *usage) Is(target error) bool { return target == errUsage }
func (u *usage) Unwrap() error        { return u.error }

// isUsage tells errors that another command line would not have.
func isUsage(err error) bool {
	for _, target := range []error{errUsage, loader.ErrOptions, sampling.ErrOptions, graph.ErrPartition,
		synthetic.ErrOptions, convert.ErrOptions, export.ErrFormat, shm.ErrOptions} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// status prints a command's error and returns the exit status that stands for it.
func (env *environment) status(err error) int {
	switch {
	case err == nil:
		return exitDone
	case env.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(env.ctx))):
		fmt.Fprintln(env.stderr, "khop: interrupted")
		return exitInterrupted
	case env.values:
		return env.fail(err)
	case isUsage(err):
		env.note("%s", errorText(err, option.Flag))
		return exitUsage
	default:
		env.note("%s", errorText(err, option.Flag))
		return exitFailed
	}
}

// fail prints an error as a line of JSON, and returns the exit status that stands for it.
func (env *environment) fail(err error) int {
	p := asProblem(err)
	fmt.Fprintln(env.stderr, p.line(1<<16))
	if p.Usage {
		return exitUsage
	}
	return exitFailed
}

// errorText says what is wrong with a door's names of options.
func errorText(err error, spell func(option.Name) string) string {
	if of := (*option.Error)(nil); errors.As(err, &of) {
		return of.In(spell)
	}
	return strings.TrimPrefix(option.Spell(err, spell), loader.ErrOptions.Error()+": ")
}

// closing is deferred with what ends something; it keeps the first error.
func closing(err *error, end func() error) {
	if e := end(); *err == nil {
		*err = e
	}
}
