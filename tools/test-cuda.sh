#!/usr/bin/env bash
# Tests the build with -tags cuda, on the simulated device: kernels still give the committed PTX, it vets and links with three
# generations of headers, the command starts without a driver, and the tests that need a device pass. test.sh calls it; alone
# it runs from anywhere. Installs the pinned CUDA wheels into .venv-cuda first. Needs gcc, g++, make and Python with venv; no GPU.
#
# Environment: KHOP_TEST_FAST=1   leaves out static analysis and the headers of CUDA 12 and 13
#              REPORT, TOTALS     what test.sh counts with
set -euo pipefail
cd "$(dirname "$0")/.."

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
step() { printf '\n== cuda: %s\n' "$*"; }
fail() { printf 'test-cuda.sh: %s\n' "$*" >&2; exit 1; }

if [ "$(go env GOOS)" != linux ]; then
    echo "not run: CUDA is built for Linux alone"
    exit 0
fi
for tool in gcc g++ make python3; do
    command -v $tool >/dev/null || fail "$tool is missing; run: sudo apt-get install -y gcc g++ make python3 python3-venv"
done

exports=$(tools/cuda-env.sh)
eval "$exports"

step "kernels"
make --no-print-directory -s ptx-check

step "vet"
go vet -tags cuda ./...

if [ -z "${KHOP_TEST_FAST:-}" ]; then
    step "staticcheck"
    go run "$staticcheck" -tags cuda ./...
    step "headers"
    make --no-print-directory -s cuda-headers
fi

step "the command without a driver"
make --no-print-directory -s khop-cuda
if readelf -d dist/khop-cuda | grep NEEDED | grep -i cuda; then
    fail "dist/khop-cuda is linked to the library above: it must start without one"
fi
KHOP_CUDA_DRIVER=/nonexistent dist/khop-cuda version

step "simulated device"
if [ "$(go env GOARCH)" != amd64 ]; then
    echo "not run: the simulator is for amd64"
    exit 0
fi
make --no-print-directory -s cudasim
export KHOP_CUDA_DRIVER=$PWD/dist/libcudasim.so

# The tests that need a device are those of the files named *_cuda_test.go.
[ -n "${REPORT:-}" ] || { REPORT=$(mktemp -d)/testreport; trap 'rm -rf "$(dirname "$REPORT")"' EXIT; go build -o "$REPORT" ./tools/testreport; }
find . -name '*_cuda_test.go' -not -path './.*' -printf '%h\n' | sort -u | while read -r folder; do
    names=$(grep -h -o '^func \(Test\|Fuzz\|Example\)[A-Za-z0-9_]*' "$folder"/*_cuda_test.go | sed 's/^func //; /^TestMain$/d' | paste -sd '|')
    [ -z "$names" ] || printf '%s ^(%s)$\n' "$folder" "$names"
done >dist/cuda-tests.txt
while read -r folder names; do
    go test -race -tags cuda -json -run "$names" "$folder" || : # the report counts what failed
done <dist/cuda-tests.txt | "$REPORT" -any-skip ${TOTALS:+-totals "$TOTALS"}
