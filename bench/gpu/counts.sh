#!/usr/bin/env bash
# Counts, on the simulated device, what each sampler asks for to make a real batch, for docs/results/gpu.md:
# writes samplers.json. Generates products and a graph as MAG (650 MB), and converts cnr-2000; takes half an hour of a
# quiet processor, and 3 GB of memory.
#
# Usage: KHOP_TESTDATA=FOLDER bench/gpu/counts.sh [FOLDER of the graphs]
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:-dist/counts}")
mkdir -p "$folder"
go build -o dist/khop ./cmd/khop
[ -e "$folder/products.khop" ] || dist/khop generate products "$folder/products.khop" --features -1 --classes -1
[ -e "$folder/mag-like.khop" ] || dist/khop generate typed "$folder/mag-like.khop" --nodes 1940000 --edges 21000000 \
    --features -1 --classes -1
[ -e "$folder/cnr-2000.khop" ] ||
    dist/khop convert "${KHOP_TESTDATA:?is the folder of real graphs}/cnr-2000-webgraph/cnr-2000.graph" \
        "$folder/cnr-2000.khop"
make --no-print-directory -s cudasim
exports=$(tools/cuda-env.sh)
eval "$exports"
export KHOP_CUDA_DRIVER=$PWD/dist/libcudasim.so
go test -C bench -tags cuda -count 1 -timeout 3h ./gpu -run '^TestCountsOfSamplers$' -v -args -rewrite \
    -counts.graphs "$folder" -counts.commit "$(git log -1 --format=%h -- sampling internal/rng)"
python3 bench/gpu/model.py --write docs/results/gpu.md
