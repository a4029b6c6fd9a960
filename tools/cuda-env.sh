#!/usr/bin/env bash
# Prints the exports with which "go build -tags cuda" works; installs what they name into .venv-cuda first, if it is
# missing.
#
#   eval "$(tools/cuda-env.sh)"        the headers of CUDA 11.8, with which khop is released
#   eval "$(tools/cuda-env.sh 12)"     or 13: only to see that other headers do
#
# Nothing outside of this folder is changed, and no root is needed. KHOP_CUDA_HOME names another folder than .venv-cuda.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
home=${KHOP_CUDA_HOME:-$root/.venv-cuda}
major=${1:-11}
wanted=$root/tools/ptx/cuda$major.txt
[ -f "$wanted" ] || { echo "cuda-env.sh: CUDA $major is not known: 11, 12 or 13" >&2; exit 2; }

target=$home/cuda$major
mkdir -p "$home"
exec 9>"$home/lock" # two runs at once must not install over each other
! command -v flock >/dev/null || flock 9
if ! cmp -s "$wanted" "$target/made-from"; then
    echo "installing $(grep -v '^#' "$wanted" | tr '\n' ' ')into $target" >&2
    [ -x "$home/pip/bin/python" ] || python3 -m venv "$home/pip" >&2
    rm -rf "$target"
    "$home/pip/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$target" -r "$wanted" >&2
    cp "$wanted" "$target/made-from"
fi
case $major in
    13) toolkit=$target/nvidia/cu13 ;;
    *) toolkit=$target/nvidia/cuda_runtime ;;
esac

# gorgonia.org/cu asks the linker for -lcuda. An archive of nothing satisfies it; the functions come from device.
mkdir -p "$home/stub"
[ -s "$home/stub/libcuda.a" ] || printf '!<arch>\n' >"$home/stub/libcuda.a"

printf 'export CGO_ENABLED=1\n'
printf 'export CGO_CFLAGS=%q\n' "-O2 -g '-I$root/device/include/shim' '-I$toolkit/include'"
printf 'export CGO_LDFLAGS=%q\n' "'-L$home/stub'"
