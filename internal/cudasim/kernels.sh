#!/usr/bin/env bash
# Writes the C++ files that make kernels part of the simulator.
#   kernels.sh register <file.cu> <includes...>   includes the .cu file and registers its kernels
#   kernels.sh dynamic <files.cu...>              the storage of dynamic shared memory, under all its names
set -euo pipefail

case $1 in
register)
    file=$2
    shift 2
    echo "#include \"$file\""
    # From the preprocessor, so that kernels which macros make are found as well.
    g++ -std=c++17 -x c++ -E -P "$@" "$file" | tr '\n' ' ' |
        { grep -oE 'extern "C" +__attribute__\(\(noinline, used\)\) +void +[A-Za-z_0-9]+' || true; } |
        awk '{print "CUDASIM_KERNEL(" $NF ")"}'
    ;;
dynamic)
    shift
    # Every "extern __shared__ T name[];" is the same storage, whatever its name and type: aliases, in assembler.
    echo 'extern "C" { alignas(128) thread_local char cudasim_dynamic_shared[160 << 10]; }'
    cat /dev/null "$@" | { grep -oE 'extern __shared__ [^;]*;' || true; } | sed -E 's/.*[ *]([A-Za-z_0-9]+)\[\];/\1/' | sort -u |
        while read -r name; do
            printf 'asm(".hidden %s\\n.globl %s\\n.type %s,@tls_object\\n.set %s,cudasim_dynamic_shared\\n");\n' "$name" "$name" "$name" "$name"
        done
    ;;
esac
