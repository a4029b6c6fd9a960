#!/usr/bin/env bash
# Builds khop as a shared library, for cmd/libkhop/khop.h: tools/libkhop.sh FILE [linux/amd64|linux/arm64 [PROGRAM]]
# PROGRAM is what calls the library's khop_main, of a wheel (integrations/python/launcher.c).
# Prints the oldest C library of GNU that it works with, such as 2.17. Exits with 3 where there is no C compiler for the
# platform.
#
# It is linked against glibc, so the compiler decides how old a system it works on: Zig's (pip install ziglang) knows
# all versions and all processors, and gcc that of the machine that it runs on.
#
# Environment: PYTHON  one that may have ziglang (default: python3)
#              TAGS    more build tags: with cuda, and the exports of tools/cuda-env.sh, it gathers on GPUs too
#              CC      the compiler to take (default: Zig's, else gcc, aarch64-linux-gnu-gcc or x86_64-linux-gnu-gcc)
set -euo pipefail
cd "$(dirname "$0")/.."

file=$1
target=${2:-linux/$(go env GOARCH)}
case $target in
    linux/amd64) machine=x86_64 ;;
    linux/arm64) machine=aarch64 ;;
    *) echo "libkhop.sh: no library for $target" >&2; exit 2 ;;
esac
python=${PYTHON:-python3}
compiler=${CC:-}
if [ -z "$compiler" ]; then
    if "$python" -c 'import ziglang' 2>/dev/null; then
        compiler="'$python' -m ziglang cc -target $machine-linux-gnu.2.17"
    elif [ "$machine" = "$(uname -m)" ] && command -v gcc >/dev/null; then
        compiler=gcc
    elif command -v "$machine-linux-gnu-gcc" >/dev/null; then
        compiler=$machine-linux-gnu-gcc
    else
        echo "libkhop.sh: no C compiler for $target: pip install ziglang has one for all platforms" >&2
        exit 3
    fi
fi
# Go's own resolver and user database: the library asks no more of the system's C library than threads and memory.
CGO_ENABLED=1 CC=$compiler CGO_CFLAGS=${CGO_CFLAGS:--O2} CGO_LDFLAGS=${CGO_LDFLAGS:--O2} GOOS=${target%/*} GOARCH=${target#*/} go build ${GO_MODFILE:+"-modfile=$GO_MODFILE"} \
    -buildmode=c-shared -tags "libkhop,netgo,osusergo${TAGS:+,$TAGS}" -trimpath -ldflags="${GO_LDFLAGS:--s -w}" -o "$file" ./cmd/khop
if [ -n "${3:-}" ]; then
    version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' integrations/python/src/khop/__init__.py)
    flags=(-O2 -s -DVERSION="\"${KHOP_RELEASE:-$version}\"" -o "$3" integrations/python/launcher.c -ldl)
    eval "$compiler "'"${flags[@]}"' # a compiler has arguments, and quotes where its path has spaces
fi
rm -f "${file%.so}.h" # what cgo writes there; khop.h is the header
grep -ao 'GLIBC_2\.[0-9]*' "$file" | sed 's/GLIBC_//' | sort -uV | tail -n 1
