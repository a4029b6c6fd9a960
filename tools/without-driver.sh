#!/usr/bin/env bash
# Tests that khop-cuda starts without a driver, works on the CPU, and refuses a device: tools/without-driver.sh PROGRAM...
# The program is one of any processor, after what runs it: qemu-aarch64 -L /usr/aarch64-linux-gnu dist/khop-cuda-arm64.
#
# Environment: SCRATCH  folder that keeps sbm.khop and the digests of its batches (default: one that is removed)
set -euo pipefail
scratch=${SCRATCH:-$(mktemp -d)}
[ -n "${SCRATCH:-}" ] || trap 'rm -rf "$scratch"' EXIT
fail() { printf 'without-driver.sh: %s\n' "$*" >&2; exit 1; }
says() { grep -q "$1" "$scratch/said" || fail "it does not say \"$1\": $(cat "$scratch/said")"; }

if readelf -d "${!#}" | grep NEEDED | grep -i cuda; then
    fail "${!#} is linked to the library above: it must start without one"
fi
export KHOP_CUDA_DRIVER=/nonexistent
"$@" doctor >"$scratch/said"
says 'no CUDA device'
"$@" generate sbm "$scratch/sbm.khop" --nodes 2000 >/dev/null
"$@" sample "$scratch/sbm.khop" --digest >"$scratch/digests"
status=0
"$@" sample "$scratch/sbm.khop" --digest --device cuda >"$scratch/said" 2>&1 || status=$?
[ $status = 1 ] || fail "--device cuda exits $status without a device, not 1"
says 'no CUDA device'
echo "${!#} works on the CPU; --device cuda fails. Batches: $(sha256sum <"$scratch/digests" | cut -c 1-16)"
