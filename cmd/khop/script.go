package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/khop-gnn/khop/formats/remote"
)

// scripts write what runs the stages of a conversion, by the name of what starts the processes.
var scripts = map[string]func(w *scriptWriter){"slurm": (*scriptWriter).slurm, "k8s": (*scriptWriter).kubernetes}

// scriptWriter writes a script. Its first error stays.
type scriptWriter struct {
	w             io.Writer
	dataset, work string
	last          string // descriptor: it makes the dataset
	stages        [][]arrayOf
	err           error
}

// arrayOf is the tasks of a stage of one kind: numbers from 0.
type arrayOf struct {
	name  string
	count int
}

func (s *scriptWriter) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format+"\n", args...)
	}
}

// arraysOf groups the descriptors of each stage by kind.
func arraysOf(stages [][]string) (all [][]arrayOf) {
	for _, stage := range stages {
		var list []arrayOf
		for _, file := range stage {
			name, _, _ := strings.Cut(filepath.Base(file), "-")
			if last := len(list) - 1; last >= 0 && list[last].name == name {
				list[last].count++
				continue
			}
			list = append(list, arrayOf{name, 1})
		}
		all = append(all, list)
	}
	return all
}

// quoted is a word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// slurm writes arrays of jobs, each stage after the one before.
func (s *scriptWriter) slurm() {
	s.line("#!/bin/bash")
	s.line("# Runs the planned tasks of a conversion as arrays of jobs. Arguments are those of sbatch: --mem=8G.")
	s.line("set -eu")
	s.line("work=%s", quoted(s.work))
	s.line(`run() { # run AFTER NAME COUNT ..: prints the jobs
    after=$1; shift; jobs=
    while [ $# -gt 0 ]; do
        jobs=$jobs:$(sbatch --parsable --requeue ${after:+--dependency=afterok$after} --kill-on-invalid-dep=yes \
            --array=0-$(($2 - 1)) --job-name="khop-$1" "${options[@]}" \
            --wrap "exec khop task '${work//\'/\'\\\'\'}/tasks/$1-'\$SLURM_ARRAY_TASK_ID.json")
        shift 2
    done
    echo "$jobs"
}
options=() jobs=
for option; do # that to wait is for the last job: all are to stand in line before any is waited for
    [ "$option" = --wait ] || [ "$option" = -W ] || options+=("$option")
done`)
	for _, stage := range s.stages {
		words := ""
		for _, a := range stage {
			words += fmt.Sprintf(" %s %d", a.name, a.count)
		}
		s.line(`jobs=$(run "$jobs"%s)`, words)
	}
	s.line("# The last job fails where the dataset was not made, also of tasks that never ran.")
	s.line(`sbatch --parsable --dependency=afterany$jobs --job-name=khop-clean "$@" \`)
	s.line(`    --wrap %s`, quoted("khop task "+quoted(s.last)+" && exec khop convert --clean - "+quoted(s.dataset)))
}

// kubernetes writes Indexed Jobs, each stage when the one before is complete.
func (s *scriptWriter) kubernetes() {
	s.line("#!/bin/sh")
	s.line("# Runs the planned tasks of a conversion as Indexed Jobs. IMAGE has khop.")
	needs, inside, outside := `"${CLAIM:?}" "${MOUNT:?}"`, `volumeMounts: [{name: data, mountPath: "$MOUNT"}]`,
		`volumes: [{name: data, persistentVolumeClaim: {claimName: "$CLAIM"}}]`
	if remote.IsAddress(s.work) {
		s.line("# SECRET has what leads to the store: AWS_ACCESS_KEY_ID and the like.")
		needs, inside, outside = `"${SECRET:?}"`, `envFrom: [{secretRef: {name: "$SECRET"}}]`, `volumes: []`
	} else {
		s.line("# CLAIM is a volume that all pods can write to, MOUNT where source and dataset lie in it, as on the")
		s.line("# machine that planned the tasks.")
	}
	s.line(`set -eu
: "${IMAGE:?}" %s "${MEMORY:=8Gi}" "${NAME:=khop-convert}"
work=%s`, needs, quoted(s.work))
	s.line(`job() { # job STAGE NAME COUNT
    kubectl apply -f - <<END
apiVersion: batch/v1
kind: Job
metadata: {name: "$NAME-$1-$2"}
spec:
  completionMode: Indexed
  completions: $3
  parallelism: $3
  backoffLimitPerIndex: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: khop
        image: "$IMAGE"
        command: [sh, -c, 'exec khop task "\$WORK/tasks/$2-\$JOB_COMPLETION_INDEX.json"']
        env: [{name: WORK, value: "$work"}]
        resources: {limits: {memory: "$MEMORY"}}
        %s
      %s
END
}
done_() { # waits for a job, and ends where it has failed
    of="job/$NAME-$1-$2"
    until kubectl wait --for=condition=complete --timeout=5s "$of" 2>/dev/null; do
        ! kubectl wait --for=condition=failed --timeout=0s "$of" 2>/dev/null || { echo "$of has failed" >&2; exit 1; }
    done
}`, inside, outside)
	for i, stage := range s.stages {
		for _, a := range stage {
			s.line("job %d %s %d", i, a.name, a.count)
		}
		for _, a := range stage {
			s.line("done_ %d %s", i, a.name)
		}
	}
	s.line("# khop convert --clean removes the folder of the tasks")
}
