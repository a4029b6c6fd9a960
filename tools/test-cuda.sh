#!/usr/bin/env bash
# Tests the build with -tags cuda, on the simulated device: kernels still give the committed PTX, it vets and links with
# the oldest headers, the command starts without a driver, and the tests that need a device pass. test.sh calls it; alone
# it runs from anywhere. Installs the pinned CUDA wheels into .venv-cuda first. Needs gcc, g++, make and Python with venv;
# no GPU.
#
# Environment: KHOP_TESTDATA      folder of real graphs; tests that need one skip without it
#              KHOP_TEST_NIGHT=1  adds static analysis, the race detector, cases, the tests on the committed PTX, the PTX
#                                 assembled, the newest headers, and the bundle
#              TOTALS             file to which the numbers of tests are added
#              RACE_LEVEL         the GOAMD64 of what is built with the race detector (default: v1)
set -euo pipefail
cd "$(dirname "$0")/.."

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
export GOFLAGS=${GOFLAGS--trimpath -vet=off}
step() { # and how much processor time went by until it
    times >"$scratch/times"
    awk -v step="$*" -v s=$SECONDS -F '[ms ]+' \
        'NR == 2 {printf "\n== cuda: %s (after %d s, %d s of processor)\n", step, s, $1 * 60 + $2 + $3 * 60 + $4}' "$scratch/times"
}
fail() { printf 'test-cuda.sh: %s\n' "$*" >&2; exit 1; }

if [ "$(go env GOOS)" != linux ]; then
    echo "not run: CUDA is built for Linux alone"
    exit 0
fi
for tool in gcc g++ make python3; do
    command -v $tool >/dev/null || fail "$tool is missing; run: sudo apt-get install -y gcc g++ make python3 python3-venv"
done

# Without the race detector all is compiled as the shared library of the Python package is, so that packages without the
# tag cuda are compiled once for both.
plain() { GOFLAGS="$GOFLAGS -buildmode=pie" "$@"; }
tags=cuda,netgo,osusergo
# By night the command has the kernels assembled, as it is released; by day they are PTX.
cubins=(CUBINS=no) of_command=$tags
[ -z "${KHOP_TEST_NIGHT:-}" ] || cubins=() of_command=$tags,cubins

scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || :; rm -rf "$scratch"' EXIT
exports=$(tools/cuda-env.sh)
eval "$exports"

step "kernels"
make --no-print-directory -s ptx-check ${KHOP_TEST_NIGHT:+cubins ANEW=--anew}
[ ! -e .git ] || git diff --quiet HEAD -- tools/ptx/checked.txt ||
    echo "commit tools/ptx/checked.txt, else each run compiles all kernels"

# The packages that have files with the tag: the others were looked at without it. The tags are those of the command, so
# that it is linked of what is compiled here.
mapfile -t tagged < <(grep -rlE --include='*.go' '^//go:build .*\bcuda\b' . | grep -v '^\./\.' | xargs -n 1 dirname | sort -u |
    while read -r folder; do [ -f "$folder/go.mod" ] || go list "$folder" 2>/dev/null || :; done)
step "vet"
plain go vet -tags $of_command "${tagged[@]}"

if [ -n "${KHOP_TEST_NIGHT:-}" ]; then
    step "staticcheck" # of everything, in this build; and of what stands in for it in others
    plain go run "$staticcheck" -tags $tags,cubins,libkhop ./...
    plain go run "$staticcheck" ./device ./internal/meters
    step "headers" # those of CUDA 11 are what all else is built with; 12 lies between
    plain make --no-print-directory -s cuda-headers MAJORS=13
fi

step "the command without a driver"
plain make --no-print-directory -s khop-cuda library-cuda "${cubins[@]}"
SCRATCH=$scratch tools/without-driver.sh dist/khop-cuda

step "simulated device"
if [ "$(go env GOARCH)" != amd64 ]; then
    echo "not run: the simulator is for amd64"
    exit 0
fi
make --no-print-directory -s cudasim
export KHOP_CUDA_DRIVER=$PWD/dist/libcudasim.so
dist/khop-cuda sample "$scratch/sbm.khop" --digest --device cuda | cmp - "$scratch/digests" ||
    fail "a device's batches differ from the CPU's"

# Without the real graphs any test may skip; with them only those on the list.
report=("$PWD/tools/report.py" ${TOTALS:+--totals "$TOTALS"})
[ -z "${KHOP_TESTDATA:-}" ] || report+=(--allowed "$PWD/tests/allowed-skips.txt")

# The tests that need a device are those of the files named *_cuda_test.go.
module_of() { # FOLDER
    local folder=$1
    until [ -f "$folder/go.mod" ]; do folder=$(dirname "$folder"); done
    echo "$folder"
}
touch "$scratch/tests" "$scratch/nested-tests"
{ # the longest first
    echo ./loader
    find . -name '*_cuda_test.go' -not -path './.*' -printf '%h\n' | sort -u | grep -vx ./loader
} | while read -r folder; do
    names=$(grep -h -o '^func \(Test\|Fuzz\|Example\)[A-Za-z0-9_]*' "$folder"/*_cuda_test.go |
        sed 's/^func //; /^TestMain$/d' | paste -sd '|')
    [ "$(module_of "$folder")" = . ] && list=tests || list=nested-tests
    [ -z "$names" ] || printf '%s ^(%s)$\n' "$folder" "$names" >>"$scratch/$list"
done

# One program a package, linked as what is compiled for the command: by night with the race detector, but for modules of
# their own. They stay in dist, so that those are not linked again of which nothing has changed.
export KHOP_DEVICE_TESTS=$PWD/dist/device-tests # some run others
programs=$KHOP_DEVICE_TESTS
mkdir -p "$programs"
if [ -n "${KHOP_TEST_NIGHT:-}" ]; then
    cut -d ' ' -f 1 "$scratch/tests" | GOAMD64=${RACE_LEVEL:-v1} xargs go test -race -tags cuda -c -o "$programs/"
else
    plain xargs go test -ldflags=-w -tags $tags -c -o "$programs/" < <(cut -d ' ' -f 1 "$scratch/tests")
fi
while read -r folder _; do
    module=$(module_of "$folder")
    plain go test -C "$module" -ldflags=-w -tags $tags -c -o "$programs/${folder##*/}.test" "./$(realpath --relative-to "$module" "$folder")"
done <"$scratch/nested-tests"
test_devices() { # FLAGS...: two packages at a time, for each uses one processor most of the time
    local out
    out=$(mktemp -d -p "$scratch")
    while read -r folder names; do
        [ "$(jobs -rp | wc -l)" -lt 2 ] || wait -n || :
        (cd "$folder" && go tool test2json -t -p "${folder#./}" "$programs/${folder##*/}.test" -test.v=test2json \
            -test.paniconexit0 -test.timeout 25m "$@" -test.run "$names" </dev/null) >"$(mktemp -p "$out")" &
    done
    wait
    cat "$out"/*
}

# What a real driver runs is the committed PTX, and it has no counts and settings. So by night the tests run on the PTX,
# too, with a simulator that poses as a real driver: beside the others, and short, for the Go code is the same. Tests that need counts or settings run there without the pose.
needs_simulator() { sed -n "s|^${1#./} \(Test[A-Za-z0-9_]*\)$|\1|p" tests/allowed-skips-device.txt; }
on_ptx() {
    cat "$scratch/tests" "$scratch/nested-tests" | while read -r folder all; do
        if [ -f "$folder/kernels.ptx.zip" ] || [[ $folder =~ ^./(loader|pinned|unified|internal/cudatest)$ ]]; then
            names=$(sed 's/^^(\(.*\))$$/\1/' <<<"$all" | tr '|' '\n')
            printf '%s ^(%s)$\n' "$folder" "$(grep -vxFf <(needs_simulator "$folder") <<<"$names" | paste -sd '|')"
            counted=$(grep -xFf <(needs_simulator "$folder") <<<"$names" | paste -sd '|') || :
            [ -z "$counted" ] || printf '%s ^(%s)$\n' "$folder" "$counted" >>"$scratch/ptx-counts"
        fi
    done >"$scratch/ptx-tests"
    make --no-print-directory -s cudasim-ptx
    export KHOP_CUDA_DRIVER=$PWD/dist/libcudasim-ptx.so
    KHOP_CUDASIM_POSE=1 test_devices -test.short <"$scratch/ptx-tests"
    test_devices -test.short <"$scratch/ptx-counts"
}
if [ -n "${KHOP_TEST_NIGHT:-}" ]; then
    on_ptx >"$scratch/on-ptx" 2>"$scratch/on-ptx.errors" &
    on_ptx=$!
fi
short=(-test.short) # by day every two options of a loader meet, by night more cases do
[ -z "${KHOP_TEST_NIGHT:-}" ] || short=()
test_devices "${short[@]}" <"$scratch/tests" | "${report[@]}"
if [ -n "${KHOP_TEST_NIGHT:-}" ]; then
    step "simulated device that poses as a real one, from PTX"
    wait $on_ptx || fail "the PTX does not become a simulator: $(cat "$scratch/on-ptx.errors")"
    "${report[@]}" <"$scratch/on-ptx"
fi

step "modules of their own, on the device"
cut -d ' ' -f 1 "$scratch/nested-tests" | while read -r folder; do module_of "$folder"; done | sort -u |
    while read -r module; do
        plain go vet -C "$module" -tags $tags ./...
    done
test_devices <"$scratch/nested-tests" | "${report[@]}"

[ -n "${KHOP_TEST_NIGHT:-}" ] || exit 0
step "bundle" # of programs that measure a GPU: all phases run, in tiny sizes, on the committed PTX and as on a real driver
plain bench/gpu/bundle.sh "$scratch/gpu" internal/drivertest
python=python3
[ ! -x .venv/bin/python ] || python=.venv/bin/python # has NumPy
KHOP_CUDASIM_POSE=1 KHOP_CUDA_DRIVER=$PWD/dist/libcudasim-ptx.so \
    $python "$scratch/gpu/run" --smoke --more --minutes 60 --dir "$scratch/state" >"$scratch/result.json" ||
    fail "a phase of the bundle failed: see above"
python3 bench/gpu/testdata/smoke.py "$scratch/result.json" || fail "the bundle did not run all phases: see above"
