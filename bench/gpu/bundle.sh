#!/usr/bin/env bash
# Writes all that a machine with a GPU, Python and no Go needs to test and measure khop. "make gpu-bundle" calls it.
#
#   bundle.sh [FOLDER [PACKAGE...]]   default: dist/gpu, with the tests of all packages
#
# Environment: KHOP_PEERS=folder   source archives, or wheels, of torch-scatter and torch-sparse to take along, for
#                                  PyG's sampler (optional)
set -euo pipefail
cd "$(dirname "$0")/../.."
exports=$(tools/cuda-env.sh)
eval "$exports"
out=${1:-dist/gpu} limit=$((48 << 20))
packages=("${@:2}")
[ ${#packages[@]} -gt 0 ] || packages=($(find . -name '*_cuda_test.go' -not -path './.*' -not -path './internal/cudasim/*' \
    -printf '%P\n' | xargs -n 1 dirname | sort -u))
programs=$out.programs
rm -rf "$out" "$programs"
mkdir -p "$out/python" "$out/peers" "$programs"
out=$(realpath "$out") programs=$(realpath "$programs")
touch "$out/tests.txt"

# Tests that a real device cannot pass, which would skip there.
simulated() { sed -n "s|^$1 \(Test[A-Za-z0-9_]*\)$|\1|p" tests/allowed-skips-device.txt; }

build=(-tags cuda,netgo,osusergo -trimpath "-ldflags=-s -w")
make --no-print-directory -s cubins >/dev/null
go build -tags cuda,cubins,netgo,osusergo "${build[@]:2}" -o "$programs/khop" ./cmd/khop
go build -C bench "${build[@]}" -o "$programs/gpubench" ./gpu/gpubench

# The tests that need a device, a program a package.
for folder in "${packages[@]}"; do
    names=$(grep -h -o '^func Test[A-Za-z0-9_]*' "$folder"/*_cuda_test.go | sed 's/^func //; /^TestMain$/d' |
        { grep -vxFf <(simulated "$folder") || :; } | paste -sd '|')
    [ -n "$names" ] || continue
    mkdir -p "$programs/$folder"
    module=$folder
    until [ -f "$module/go.mod" ]; do module=$(dirname "$module"); done
    go test -C "$module" -c "${build[@]}" -o "$programs/$folder/test" "./$(realpath --relative-to "$module" "$folder")"
    [ ! -d "$folder/testdata" ] || cp -r "$folder/testdata" "$programs/$folder/"
    printf '%s ^(%s)$\n' "$folder" "$names" >>"$out/tests.txt"
done
# The programs share most of their code, and pack well where the dictionary holds them all.
tar -C "$programs" --sort=name --owner=0 --group=0 -cf - . | xz -T1 --lzma2=preset=1,dict=256MiB >"$out/programs.tar.xz"
rm -rf "$programs"

cp bench/gpu/*.py bench/gpu/{counts,samplers}.json bench/ops/{kinds,draw,given,where}.py "$out/"
mv "$out/run.py" "$out/run"
chmod +x "$out/run"
cp -r integrations/python/src/khop "$out/python/"
find "$out/python" -name __pycache__ -prune -exec rm -rf {} +
if [ -n "${KHOP_PEERS:-}" ]; then
    find "$KHOP_PEERS" -maxdepth 1 \( -name 'torch*.tar.gz' -o -name 'torch*.whl' \) -exec cp -t "$out/peers" {} +
else
    echo "without sources of PyG's sampler: set KHOP_PEERS for comparisons with PyG on machines that do not have it" \
        "(docs/gpu-bundle.md)"
fi
commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
modified=$([ -z "$(git status --porcelain -uno -- '*.go' '*.s' '*.cu' '*.py' 2>/dev/null)" ] && echo false || echo true)
printf '{"commit": "%s", "modified": %s, "go": "%s", "date": "%s"}\n' "$commit" "$modified" "$(go env GOVERSION)" \
    "$(date -u +%F)" >"$out/about.json"

bytes=$(du -sb "$out" | cut -f1)
printf '%s: %d bytes\n' "$out" "$bytes"
[ "$bytes" -le $limit ] || { echo "bundle.sh: $out is larger than $limit bytes" >&2; exit 1; }
