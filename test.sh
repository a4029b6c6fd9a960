#!/usr/bin/env bash
# Runs every check of this repository: formatting, vet, types on other systems, tests with the race
# detector at another instruction-set level, then without it and cgo, nested modules, the CUDA build on a simulated GPU,
# and the Python tests that compare with other programs. A test that would take long and has one goroutine is in a file
# with the tag !race. Installs what is missing first, where it can. See CONTRIBUTING.md.
#
# Environment: KHOP_TESTDATA  folder of real graphs; tests that need one skip without it
#              KHOP_TEST_FAST=1  leaves out known vulnerabilities
#              KHOP_TEST_NIGHT=1 adds what takes long and seldom fails alone ("make nightly"): static analysis, the race
#                                detector over samplers, training and device code, more drawn cases, device tests on the
#                                committed PTX, kernels assembled, assembly for arm64, the headers of CUDA 13, the bundle
#                                of programs for a GPU, and builds that repeat
#              KHOP_VULNDB    folder or address of the database of vulnerabilities, where vuln.go.dev cannot be reached
#              KHOP_VULNCHECK=required  fails where known vulnerabilities cannot be checked; without it the last line
#                                       says so
set -euo pipefail
cd "$(dirname "$0")"

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.7.0
requirements=tests/requirements.txt
started=$SECONDS
unchecked=
work=$(mktemp -d)
totals=$work/totals
: >"$totals"
trap 'kill $(jobs -p) 2>/dev/null || :; rm -rf "$work"' EXIT

# Most of a run on a new machine is compiling, so builds differ in as little as can be: all as programs are released
# (-trimpath), and without cgo where nothing needs it. "go vet" runs once by itself, so "go test" need not.
export GOFLAGS="-trimpath -vet=off"

# Says the next step, and how much time and processor time went by until it.
step() {
    times >"$totals.times"
    awk -v step="$*" -v s=$((SECONDS - started)) -F '[ms ]+' \
        'NR == 2 {printf "\n== %s (after %d s, %d s of processor)\n", step, s, $1 * 60 + $2 + $3 * 60 + $4}' "$totals.times"
}
fail() { printf 'test.sh: %s\n' "$*" >&2; exit 1; }

# What uses one processor, or waits, runs beside what follows.
begin() { # NAME COMMAND...
    "${@:2}" >"$work/$1.log" 2>&1 </dev/null &
    echo $! >"$work/$1.pid"
}
end() { # NAME: shows what it said
    local status=0
    wait "$(cat "$work/$1.pid")" || status=$?
    cat "$work/$1.log"
    [ $status = 0 ] || fail "$1: see above"
}

# --- what must be there ---------------------------------------------------------------------------------------------

command -v go >/dev/null || fail "Go is not installed: get 1.25 or later from https://go.dev/dl/"
have=$(go env GOVERSION) && have=${have#go}
[ "$(printf '%s\n' 1.25 "$have" | sort -V | head -n 1)" = 1.25 ] || fail "Go $have is too old: 1.25 or later is needed"

# Debian packages: a C compiler for the race detector, C++ and make for the simulated GPU, Python with venv for the
# comparisons.
packages=()
if ! command -v gcc >/dev/null || ! echo 'int main(void){return 0;}' | gcc -x c - -pthread -o /dev/null 2>/dev/null; then
    packages+=(gcc libc6-dev)
fi
command -v g++ >/dev/null || packages+=(g++)
command -v make >/dev/null || packages+=(make)
command -v python3 >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3 python3-venv)
if [ ${#packages[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        step "installing ${packages[*]}"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
    else
        fail "missing; run: sudo apt-get install -y ${packages[*]}"
    fi
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "Python 3.10 or later is needed, for the packages in $requirements"

# What the last steps need of the network comes beside what computes: Python packages, pinned, in local virtual
# environments that are made again when their lists change, and CUDA's headers and compilers.
fetch() {
    local want
    want=$( (python3 --version; cat "$requirements") | sha256sum)
    if [ "$(cat .venv/made-from 2>/dev/null)" != "$want" ]; then
        rm -rf .venv
        python3 -m venv .venv
        .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements"
        echo "$want" >.venv/made-from
    fi
    [ "$(go env GOOS)" = linux ] || return 0
    tools/cuda-env.sh >/dev/null
    [ -z "${KHOP_TEST_NIGHT:-}" ] || tools/cuda-env.sh 13 >/dev/null
    tools/test-python.sh --fetch
}
begin fetched fetch

# --- checks that run nothing ----------------------------------------------------------------------------------------

go version
step "formatting"
unformatted=$(find . -name '*.go' -not -path './.*' -print0 | xargs -0 gofmt -l 2>&1)
[ -z "$unformatted" ] || fail "not gofmt-ed:
$unformatted"

types_elsewhere() { # by night what has assembly there is linked; "make cross" compiles everything, which takes minutes
    (cd tools/crosscheck && CGO_ENABLED=0 go run . ../.. linux/arm64 darwin/arm64 windows/amd64)
    [ -n "${KHOP_TEST_NIGHT:-}" ] || return 0
    git ls-files '*_arm64.s' | xargs -n 1 dirname | sort -u | while read -r folder; do
        CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go test -c -o /dev/null "./$folder"
    done
}
begin types types_elsewhere

# What is compiled here is what the program and the tests without the race detector need.
step "vet"
CGO_ENABLED=0 go vet ./...

step "modules"
go mod verify
go mod tidy -diff || fail "go.mod or go.sum is not tidy: run go mod tidy"

if [ -n "${KHOP_TEST_NIGHT:-}" ] && [ "$(go env GOOS)" != linux ]; then # on Linux tools/test-cuda.sh does it
    step "staticcheck"
    CGO_ENABLED=0 go run "$staticcheck" ./...
fi
if [ -z "${KHOP_TEST_FAST:-}" ]; then
    step "known vulnerabilities"
    database=${KHOP_VULNDB:-https://vuln.go.dev}
    [[ $database = *://* ]] || database=file://$(realpath "$database")
    # Asked first: building the checker takes more than a minute.
    if ! python3 -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1] + "/index/db.json", timeout=20)' "$database" 2>/dev/null; then
        unchecked="known vulnerabilities (the database $database cannot be read; KHOP_VULNDB names another)"
        echo "not checked: $unchecked"
    elif vulnerabilities=$(go run "$govulncheck" -db "$database" ./... 2>&1); then
        echo "none that the code reaches"
    else
        fail "$vulnerabilities"
    fi
else
    unchecked="known vulnerabilities (KHOP_TEST_FAST is set)"
fi
[ -z "$unchecked" ] || [ "${KHOP_VULNCHECK:-}" != required ] || fail "not checked: $unchecked"

step "types on other systems"
end types

# --- tests ----------------------------------------------------------------------------------------------------------

# The program as it is released: one for all tests that run it.
mkdir -p dist
CGO_ENABLED=0 go build -buildvcs=false -o dist/khop ./cmd/khop
export KHOP=$PWD/dist/khop

# Every skip must be on the list where the real graphs are there. Without them, any test may skip.
report=("$PWD/tools/report.py" --totals "$totals")
strict=("${report[@]}")
[ -z "${KHOP_TESTDATA:-}" ] || strict+=(--allowed "$PWD/tests/allowed-skips.txt")

# The race detector has nothing to find in a package that starts no goroutine, holds no lock and knows no workers, and
# makes its tests four times as long. So such a package runs without it, beside those that compute. Those run in both
# ways, each at a level of its own: at v3 the compiler fuses multiplications and additions, which may round in another way.
shared=() alone=()
for package in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | sed "s|^$PWD|.|"); do
    if grep -qE '\bgo (func|[a-zA-Z.]+\()|"sync(/atomic)?"|errgroup|Workers' "$package"/*.go; then
        shared+=("$package")
    else
        alone+=("$package")
    fi
done
computing=(./gather/... ./integrations/gnn ./internal/prefetch ./internal/rng/... ./sampling ./sparse/... ./formats/synthetic)

# Three packages at a time on two processors: some tests wait most of the time. Those that take longest come first, so
# that none of them runs alone in the end.
# No debugger reads them: linking takes a fifth less without what one needs.
tests() { go test -ldflags=-w -p 3 -timeout 30m -json "$@" | "${strict[@]}"; }
export GORACE=atexit_sleep_ms=0 # each program with the race detector sleeps for a second before it ends otherwise
level=v1
[ "$(go env GOARCH)" != amd64 ] || ! grep -qw avx2 /proc/cpuinfo 2>/dev/null || level=v3
step "tests with the race detector, at GOAMD64=$level"
# Else the first tests run beside the compiler, for twice as long. Nobody runs the programs.
go list -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./... | GOAMD64=$level xargs go build -race
if [ -z "${KHOP_TEST_NIGHT:-}" ]; then
    # Samplers start no goroutine of their own; loaders' tests run them in many. Training starts those of sparse and
    # embed, whose tests run here.
    mapfile -t shared < <(printf '%s\n' "${shared[@]}" | grep -vxE './(sampling|integrations/gnn)')
fi
GOAMD64=$level tests -race ./cmd/khop ./loader ./formats ./formats/convert "${shared[@]}"

export CGO_ENABLED=0
# The tests of sampling take one processor for most of the time, so what else there is runs beside them.
begin computing tests -short ./sampling "${computing[@]}" "${alone[@]}"

step "tests that the race detector leaves out or shortens, without it and cgo"
files=$(grep -rlE --include='*_test.go' --exclude-dir='.?*' '^//go:build .*!race|invariants\.Enabled' . | grep -v _cuda_test)
names=$(xargs grep -hoE '^func (Test|Fuzz|Example)[A-Za-z0-9_]*' <<<"$files" | sed 's/^func //; /^TestMain$/d' | paste -sd '|')
mapfile -t left < <(xargs -n 1 dirname <<<"$files" | sort -u | grep -xFf <(printf '%s\n' "${shared[@]}") |
    grep -vxFf <(go list -f '{{.Dir}}' "${computing[@]}" | sed "s|^$PWD|.|"))
tests -short -run "^($names)$" "${left[@]}"

step "tests of computing, and of what is not shared, likewise"
end computing
export -n CGO_ENABLED

test_modules() {
    local mod workspace
    find . -mindepth 2 -name go.mod -not -path './.*' -not -path '*/testdata/*' -exec dirname {} \; | sort | while IFS= read -r mod; do
        echo "$mod"
        workspace=
        if grep -q '^replace github.com/khop-gnn/khop ' "$mod/go.mod"; then
            # What it imports of this module is then compiled as above; elsewhere its paths have a version, so it is all anew.
            workspace=$work/go.work
            printf 'go 1.25.0\n\nuse (\n\t%s\n\t%s\n)\n' "$PWD" "$PWD/${mod#./}" >"$workspace"
        fi
        # Without cgo, as most was compiled; programs of tools compile anew in either way, and bom asks for what cgo brings.
        (cd "$mod" && export GOWORK=$workspace && { [ -z "$workspace" ] || export CGO_ENABLED=0; } && go vet ./... && go test -count 1 -json ./... | "${report[@]}")
    done
}

# Kernels and modules are compiled and tested one after the other, so both use one processor most of the time.
begin modules test_modules

step "what comes from the network"
end fetched

step "CUDA build"
TOTALS="$totals" RACE_LEVEL=$level tools/test-cuda.sh

step "modules of their own"
end modules

# The package's tests wait for a third of their time.
[ "$(go env GOOS)" != linux ] || begin package tools/test-python.sh "$KHOP"

step "Python tests"
python_passed=0
if compgen -G 'tests/test_*.py' >/dev/null; then
    log=$work/pytest.log
    PYTHONPATH=tests .venv/bin/python -m pytest -p skips --note-skips="$PWD/dist/skips-tests.txt" -q -rs tests 2>&1 | tee "$log"
    python_passed=$(grep -Eo '[0-9]+ passed' "$log" | awk '{n += $1} END {print n + 0}')
    if [ -n "${KHOP_TESTDATA:-}" ] && grep '^SKIPPED' "$log" | grep -vFf <(sed -n 's/^pytest //p' tests/allowed-skips.txt); then
        fail "the Python tests above were skipped, but are not on tests/allowed-skips.txt"
    fi
else
    echo "none"
fi

step "Python package"
if [ -f "$work/package.pid" ]; then
    end package
    python_passed=$((python_passed + $(grep -Eo '[0-9]+ passed' "$work/package.log" | awk '{n += $1} END {print n + 0}')))
else
    echo "not run: the feed is for Linux"
fi

if [ -n "${KHOP_TEST_NIGHT:-}" ] && [ "$(go env GOOS)" = linux ]; then
    step "builds that repeat"
    PYTHON=$PWD/.venv-python/bin/python tools/reproducible.sh --built # dist has program and wheel
fi

awk -v python="$python_passed" -v s=$((SECONDS - started)) \
    '{p += $1; k += $3} END {printf "\nAll passed: %d Go tests, %d skipped, %d Python tests, in %d s.\n", p, k, python, s}' "$totals"
[ -n "${KHOP_TESTDATA:-}" ] ||
    echo "KHOP_TESTDATA is not set: tests on real graphs were left out. tools/test-graphs.sh runs them alone."
[ -z "$unchecked" ] || echo "Not checked: $unchecked."
