#!/usr/bin/env bash
# Makes the pictures of docs/results/pages again, by Chromium and pngquant. KHOP_AXE, if set, is axe-core's axe.min.js.
set -euo pipefail
cd "$(dirname "$0")/.."
KHOP_SCREENSHOTS=$PWD/docs/results/pages go test -count=1 -run TestABrowser ./cmd/khop
pngquant --force --ext .png --skip-if-larger 32 docs/results/pages/*.png
