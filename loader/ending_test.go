package loader_test

import (
	"context"
	"errors"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/outlook"
	"github.com/khop-gnn/khop/sampling"
)

// ways are calls that take a context, by name, and the stages that they tell of.
func ways(t *testing.T) map[string]func(ctx context.Context, told func(stage string, done, total int64)) error {
	needDisk(t)
	stored, wide := storedGraph(t, graphs.Plain(t, 90, 4)), onDisk(t, graphs.Plain(t, 240, 4))
	deep, _ := inFiles(t, graphs.Plain(t, 2000, 6), true)
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Workers: 1, Device: loader.DeviceOptions{Name: "cpu"}}
	load := func(src loader.Source, opt loader.Options) func(context.Context, func(string, int64, int64)) error {
		return func(ctx context.Context, told func(string, int64, int64)) error {
			opt.Hooks.Progress = told
			l, err := loader.NewContext(ctx, src, opt)
			if err != nil {
				if l != nil {
					return errors.New("a loader and an error")
				}
				return err
			}
			return errors.Join(lastError(l.Epoch(background, 0)), l.Close())
		}
	}
	verified, resident, cached, paged, ofType, whole := opt, opt, opt, opt, opt, opt
	whole.Residence, whole.Disk.CacheBytes = loader.Disk, 1<<30
	ofType.Seeds = loader.AllEdges("rates")
	verified.Verify, verified.Seeds = true, loader.AllEdges()
	verified.Links.Negatives = sampling.Negatives{Ratio: 1, Law: sampling.ByDegree}
	resident.Residence = loader.Resident
	cached.Residence, cached.Disk.CacheBytes, cached.Disk.Lookahead = loader.Disk, 900, 2
	paged.Residence, paged.Disk.CacheBytes, paged.BatchSize = loader.Disk, 1, 200
	return map[string]func(context.Context, func(string, int64, int64)) error{
		"verified": load(stored, verified), "mapped": load(stored, opt), "resident": load(stored, resident),
		"edges": load(graphs.Typed(t, 20, 10), ofType), "rows on disk": load(wide, cached),
		"rows for a disk":  load(wide, whole),
		"topology on disk": load(deep, paged),
		"plan": func(ctx context.Context, told func(string, int64, int64)) error {
			opt := paged
			opt.Hooks.Progress = told
			_, err := loader.Plan(ctx, deep, opt)
			return err
		},
		"outlook": func(ctx context.Context, told func(string, int64, int64)) error {
			opt := cached
			opt.Hooks.Progress = told
			o, err := outlook.Look(ctx, wide, opt)
			if err != nil && o != nil {
				return errors.New("an outlook and an error")
			}
			return err
		},
	}
}

// A context may end at any look at it: the call says so, and leaves nothing.
func TestAContextMayEndAtAnyLook(t *testing.T) {
	for name, do := range ways(t) {
		opened := expect.OpenFiles(t)
		for looks := int64(0); ; looks += 1 + looks/4 {
			ctx := expect.EndsAfter(background, looks)
			err := do(ctx, nil)
			n := expect.OpenFiles(t)
			expect.Ensure(t, n == opened, "%s, %d looks: %d files stay open", name, looks, n-opened)
			if ctx.Left() >= 0 {
				expect.That(t, err == nil && looks != 0, "%s: %v", name, err)
				break
			}
			expect.Is(t, err, context.Canceled, "%s, %d looks", name, looks)
		}
	}
}

// When a context ends nothing of the stage at hand follows but what is under way, and the error is the context's cause.
func TestNothingFollowsTheEndOfAContext(t *testing.T) {
	why := errors.New("why")
	for name, do := range ways(t) {
		last := map[string][2]int64{} // of each stage
		steps := map[string]int64{}
		expect.OK(t, do(background, func(stage string, done, total int64) {
			if before := last[stage]; done <= before[0] && stage != "prepare" || before[1] != 0 && total != before[1] {
				t.Errorf("%s, %s: %d of %d after %d of %d", name, stage, done, total, before[0], before[1])
			}
			last[stage] = [2]int64{done, total}
			steps[stage]++
		}))
		for stage, n := range steps {
			if at := last[stage]; at[0] != at[1] && stage != "prepare" {
				t.Errorf("%s, %s: at its end %d of %d", name, stage, at[0], at[1])
			}
			for _, at := range []int64{1, n / 2} {
				if at == 0 || at == n {
					continue
				}
				ctx, end := context.WithCancelCause(background)
				told := int64(0)
				err := do(ctx, func(now string, _, _ int64) {
					if now != stage {
						return
					}
					if told++; told == at {
						end(why)
					}
				})
				underWay := int64(0)
				if stage == "slots" {
					underWay = 2 // one of three
				}
				expect.That(t, errors.Is(err, why) && told <= at+underWay,
					"%s ended at step %d of %d of %s: %d were told, %v", name, at, n, stage, told, err)
				end(nil)
			}
		}
	}
}
