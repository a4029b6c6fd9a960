#!/usr/bin/env bash
# Runs the wheel for aarch64 by qemu-user, with Debian's Python for arm64 and PyPI's NumPy: epochs by a server and
# within the process, whose digests must be those that this machine's program prints. "make arm64-check"
#
# Needs qemu-aarch64 (Debian: qemu-user), dpkg-deb and apt-get with the architecture arm64 (as root it is added).
# Usage: tools/arm64-check.sh [WHEEL]    default: dist/khop-*_aarch64.whl (WHEELS=linux/arm64 make wheel)
# Environment: KHOP  the program of this machine (default: built from this tree)
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'arm64-check.sh: %s\n' "$*" >&2; exit 1; }
wheel=${1:-$(compgen -G 'dist/khop-*_aarch64.whl' | head -n 1)} || fail "no wheel for aarch64: WHEELS=linux/arm64 make wheel builds one"
command -v qemu-aarch64 >/dev/null || fail "qemu-aarch64 is not here: apt-get install qemu-user"
machine=$PWD/dist/.arm64
python=$machine/usr/bin/python3.11
packages=(python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libexpat1 zlib1g libssl3 libffi8 libgcc-s1 libstdc++6)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ ! -x "$python" ]; then
    dpkg --print-foreign-architectures | grep -qx arm64 || { dpkg --add-architecture arm64 && apt-get update -qq; }
    (cd "$work" && apt-get download -qq "${packages[@]/%/:arm64}" 2>/dev/null) || fail "apt-get does not get ${packages[*]} for arm64"
    for package in "$work"/*.deb; do
        dpkg-deb -x "$package" "$machine"
    done
fi
site=$work/site
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$site" --only-binary :all: --implementation cp --python-version 3.11 \
    --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 numpy==1.26.4 xxhash==3.5.0 "$wheel"

khop=${KHOP:-}
if [ -z "$khop" ]; then
    khop=$work/khop
    CGO_ENABLED=0 go build -o "$khop" ./cmd/khop
fi
"$khop" generate sbm "$work/data.khop" --nodes 3000 --edges 40000 --features 16 --classes 5 --seed 1 >/dev/null 2>&1
flags=(--fanouts=5,3 --frontier=new --batch-size=256 --shuffle --seed=7 --digest)
"$khop" sample "$work/data.khop" "${flags[@]}" | awk '{print $3}' >"$work/want"

# The program of the wheel, which Python starts, needs qemu as well.
printf '#!/bin/sh\nexec qemu-aarch64 -L %q %q "$@"\n' "$machine" "$site/khop/bin/khop" >"$work/khop-arm64"
chmod +x "$work/khop-arm64"
for process in server inside; do
    KHOP_BIN=$work/khop-arm64 KHOP_LIBRARY= PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1 timeout 600 qemu-aarch64 -L "$machine" "$python" -c '
import platform, sys, khop
path, process = sys.argv[1:]
assert platform.machine() == "aarch64"
with khop.Loader(path, [5, 3], batch_size=256, shuffle=True, seed=7, process=process, framework="numpy") as loader:
    for batch in loader:
        assert batch.x.shape == (batch.num_nodes, 16) and batch.edge_index.max() < batch.num_nodes
        print(batch.digest())
    assert len(loader) == sum(1 for _ in loader)  # the next epoch
' "$work/data.khop" "$process" >"$work/got"
    cmp "$work/want" "$work/got" || fail "process=\"$process\": batches are others than on $(uname -m)"
    echo "aarch64: process=\"$process\": $(wc -l <"$work/got") batches of an epoch have the digests of $(uname -m)"
done
