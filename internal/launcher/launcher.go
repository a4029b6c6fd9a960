// Package launcher finds which of the processes that train together this one is, by what their launcher has put into
// the environment. Its table is the whole rule: "make options" writes it into Python and docs/machines.md.
package launcher

import (
	"fmt"
	"strconv"
	"strings"
)

// Launcher starts the processes of a run, and tells each its place under these names.
type Launcher struct {
	Name      string `json:"name"`
	Rank      string `json:"rank"`
	Size      string `json:"size"`       // the number of ranks
	LocalRank string `json:"local_rank"` // among the processes of this machine
	LocalSize string `json:"local_size"`
	Here      string `json:"here"`  // the ranks of this machine, in the order of their local ranks: 4,5,6
	Step      string `json:"step"`  // a batch script (ENVIRONMENT=BATCH) is no rank unless this is there, too
	Alone     bool   `json:"alone"` // each process has a machine of its own
}

// All are the launchers that khop knows. The first that says rank and number is right: one that was started by another
// comes before it.
var All = []Launcher{
	{Name: "torchrun, accelerate, torch.distributed.run, Kubeflow", Rank: "RANK", Size: "WORLD_SIZE",
		LocalRank: "LOCAL_RANK", LocalSize: "LOCAL_WORLD_SIZE"},
	{Name: "Open MPI", Rank: "OMPI_COMM_WORLD_RANK", Size: "OMPI_COMM_WORLD_SIZE",
		LocalRank: "OMPI_COMM_WORLD_LOCAL_RANK", LocalSize: "OMPI_COMM_WORLD_LOCAL_SIZE"},
	{Name: "MPICH, Intel MPI", Rank: "PMI_RANK", Size: "PMI_SIZE", LocalRank: "MPI_LOCALRANKID",
		LocalSize: "MPI_LOCALNRANKS"},
	{Name: "Slurm (srun)", Rank: "SLURM_PROCID", Size: "SLURM_NTASKS", LocalRank: "SLURM_LOCALID", Here: "SLURM_GTIDS",
		Step: "SLURM_STEP_ID"},
	{Name: "Kubernetes Indexed Job", Rank: "JOB_COMPLETION_INDEX", Size: "WORLD_SIZE", Alone: true},
}

// Place is this process among those that share an epoch.
type Place struct {
	Rank, Size int
	From       string // what says so
}

// String says the place: "3 of 8".
func (p Place) String() string { return fmt.Sprintf("%d of %d", p.Rank, p.Size) }

// Find returns the place that the environment says, else 0 of 1. It returns an error for a place that cannot be, and
// where ranks are counted but this one has no number.
func Find(getenv func(string) string) (Place, error) {
	for i := range All {
		l := &All[i]
		if getenv(l.Rank) == "" || getenv(l.Size) == "" ||
			l.Step != "" && getenv("ENVIRONMENT") == "BATCH" && getenv(l.Step) == "" {
			continue
		}
		rank, err := number(getenv, l.Rank)
		if err != nil {
			return Place{}, err
		}
		size, err := number(getenv, l.Size)
		if err != nil {
			return Place{}, err
		}
		from := fmt.Sprintf("%s and %s of the environment (%s)", l.Rank, l.Size, l.Name)
		if rank < 0 || rank >= size {
			return Place{}, fmt.Errorf("%s say rank %d of %d, which cannot be", from, rank, size)
		}
		return Place{rank, size, from}, nil
	}
	if size := strings.TrimSpace(getenv("WORLD_SIZE")); size != "" && size != "1" {
		return Place{}, fmt.Errorf(
			"the environment has WORLD_SIZE=%s and no RANK: set it, or say which rank this is", size)
	}
	return Place{0, 1, "no launcher's names are in the environment"}, nil
}

func number(getenv func(string) string, name string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(getenv(name)))
	if err != nil {
		return 0, fmt.Errorf("the environment's %s is %q, which is not a number", name, getenv(name))
	}
	return n, nil
}
