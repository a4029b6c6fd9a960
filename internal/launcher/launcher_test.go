package launcher_test

import (
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/launcher"
)

func TestTheFirstLauncherThatSaysRankAndNumberIsRight(t *testing.T) {
	for env, want := range map[string]string{
		"": "0 of 1", "RANK=5": "0 of 1", "WORLD_SIZE=1": "0 of 1", "RANK=5 WORLD_SIZE=8": "5 of 8 RANK",
		"SLURM_PROCID=3 SLURM_NTASKS=4":                                               "3 of 4 SLURM_PROCID",
		"RANK=1 WORLD_SIZE=2 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0":           "1 of 2 RANK",
		"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 SLURM_PROCID=0 SLURM_NTASKS=1": "2 of 3 OMPI_COMM_WORLD_RANK",
		"PMI_RANK=1 PMI_SIZE=2":                                                       "1 of 2 PMI_RANK",
		"ENVIRONMENT=BATCH SLURM_PROCID=0 SLURM_NTASKS=4":                             "0 of 1",
		"ENVIRONMENT=BATCH SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_STEP_ID=0":             "1 of 4 SLURM_PROCID",
		"SLURM_NTASKS=4":                      "0 of 1", // salloc's shell
		"JOB_COMPLETION_INDEX=6 WORLD_SIZE=7": "6 of 7 JOB_COMPLETION_INDEX",
		"JOB_COMPLETION_INDEX=6":              "0 of 1",
		"WORLD_SIZE=4":                        "! no RANK",
		"RANK=x WORLD_SIZE=4":                 `! RANK is "x"`,
		"RANK=4 WORLD_SIZE=4":                 "! rank 4 of 4, which cannot be",
		"RANK=0 WORLD_SIZE=0":                 "! rank 0 of 0",
	} {
		said := map[string]string{}
		for _, v := range strings.Fields(env) {
			name, value, _ := strings.Cut(v, "=")
			said[name] = value
		}
		p, err := launcher.Find(func(name string) string { return said[name] })
		got := p.String()
		if p.Size > 1 {
			got += " " + strings.Fields(p.From)[0]
		}
		if err != nil {
			got = err.Error()
		}
		if want, fails := strings.CutPrefix(want, "! "); fails != (err != nil) || !strings.Contains(got, want) ||
			!fails && got != want {
			t.Errorf("%s: got %q, want %q", env, got, want)
		}
	}
}
