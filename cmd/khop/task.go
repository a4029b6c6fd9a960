package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/underway"
)

// tasksFlags are flags of "khop convert" for a conversion in tasks.
type tasksFlags struct {
	Tasks  int    `placeholder:"N" help:"Convert in tasks, for N processes; without --plan this process runs them all."`
	Plan   bool   `help:"Print the tasks, which khop task runs, and run none."`
	Script string `enum:",slurm,k8s" default:"" placeholder:"NAME" help:"Plan, and print a script for slurm or k8s."`
	Clean  bool   `help:"Remove what unfinished tasks have left."`
}

// tasksResult is what "khop convert --plan --json" prints. Scripts rely on the names.
type tasksResult struct {
	Dataset string     `json:"dataset"`
	Stages  [][]string `json:"stages"`
}

// inTasks plans tasks, and runs them unless they are only to be planned.
func (c *convertCmd) inTasks(env *environment) error {
	if err := c.settle(env); err != nil {
		return err
	}
	res, took, err := watched(env, func(bar *progress) (*convert.Result, error) {
		opt := doorsOf(env, bar, c.opt)
		stages, err := convert.PlanTasks(env.ctx, c.Source, c.Dataset, c.Tasks, opt)
		if err != nil {
			return nil, err
		}
		if write := scripts[c.Script]; write != nil {
			bar.finish()
			s := &scriptWriter{w: env.stdout, stages: arraysOf(stages), last: stages[len(stages)-1][0]}
			s.work, s.dataset = foldersOf(stages[0][0])
			write(s)
			return nil, s.err
		}
		if c.Plan {
			bar.finish()
			return nil, c.show(env, tasksResult{paths.Text(c.Dataset), stages}, func(env *environment) error {
				return printStages(env, stages)
			})
		}
		defer underway.Leaves(underway.Tasks, c.Dataset)()
		res, err := runTasks(env, slices.Concat(stages...), opt)
		return res, errors.Join(err, convert.CleanTasks(context.WithoutCancel(env.ctx), c.Dataset))
	})
	if err != nil || res == nil {
		return err
	}
	return c.say(env, res, took)
}

// foldersOf returns the working folder of a task, which is a file or an address, and the dataset that it is for.
func foldersOf(task string) (work, dataset string) {
	work = filepath.ToSlash(task)
	for range 2 { // the task's name, and that of its folder
		if at := strings.LastIndexByte(work, '/'); at >= 0 {
			work = work[:at]
		}
	}
	return work, strings.TrimSuffix(work, path.Ext(work))
}

// runTasks runs tasks, one after the other, and returns what the last one made.
func runTasks(env *environment, tasks []string, opt convert.Options) (res *convert.Result, err error) {
	for _, task := range tasks {
		if res, err = convert.RunTask(env.ctx, task, opt); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// printStages prints a line a task: the number of its stage, and its descriptor.
func printStages(env *environment, stages [][]string) error {
	for i, stage := range stages {
		for _, task := range stage {
			if _, err := fmt.Fprintf(env.stdout, "%d %s\n", i, paths.Text(task)); err != nil {
				return err
			}
		}
	}
	return nil
}

type taskCmd struct {
	Tasks []string `arg:"" name:"task" help:"Descriptors that khop convert --plan printed, in order."`

	flagsOf[taskOptions] `embed:""`

	jsonFlag `embed:""`
}

// taskOptions are those of a task that its plan does not have.
type taskOptions struct {
	MemoryLimit int64 `same:"max-memory" kind:"size" help:"...bounded-memory"`
}

// Run runs tasks, one after the other.
func (c *taskCmd) Run(env *environment) error {
	of := convertCmd{jsonFlag: c.jsonFlag}
	of.elsewhere = c.elsewhere
	if err := of.settle(env); err != nil {
		return err
	}
	res, took, err := watched(env, func(bar *progress) (*convert.Result, error) {
		return runTasks(env, c.Tasks, doorsOf(env, bar, of.opt))
	})
	if err != nil || res == nil {
		return err
	}
	_, of.Dataset = foldersOf(c.Tasks[len(c.Tasks)-1])
	return of.say(env, res, took)
}
