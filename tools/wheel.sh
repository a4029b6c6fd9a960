#!/usr/bin/env bash
# Builds wheels of integrations/python into dist/, each with the khop program of its platform inside.
#
# Environment: PYTHON  one that has pip (default: python3); without setuptools 77 or later in it, pip downloads that
#              WHEELS  platforms (default: this machine's): "linux/amd64 linux/arm64"
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p dist
umask 022 # a wheel records the modes of its files

isolation=()
if "$python" -c 'import setuptools, sys; sys.exit(int(setuptools.__version__.split(".")[0]) < 77)' 2>/dev/null; then
    isolation=(--no-build-isolation) # nothing to download
fi
for target in ${WHEELS:-linux/$(go env GOARCH)}; do
    case $target in
        linux/amd64) machine=x86_64 ;;
        linux/arm64) machine=aarch64 ;;
        *) echo "wheel.sh: no wheels for $target" >&2; exit 2 ;;
    esac
    echo "wheel for $target: khop, bill of materials, package" >&2
    rm -rf "$work/python"
    mkdir -p "$work/python"
    cp -r LICENSE cmd/khop/NOTICES.txt integrations/python/{pyproject.toml,setup.py,README.md,src} "$work/python"
    rm -rf "$work"/python/src/*.egg-info "$work/python/src/khop/bin"
    CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build -trimpath -ldflags='-s -w' -o "$work/python/src/khop/bin/khop" ./cmd/khop
    chmod -R u=rwX,go=rX "$work/python"
    (cd tools/bom && go run . sbom ../.. "$work/python/src/khop/bin/khop") >"$work/python/khop.cdx.json"
    # Static: it asks nothing of the system's C library, whichever that is.
    KHOP_WHEEL_PLATFORM=manylinux2014_$machine.manylinux_2_17_$machine.musllinux_1_1_$machine SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800} \
        "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps "${isolation[@]}" --wheel-dir "$work/out" "$work/python"
done
mv "$work"/out/*.whl dist/
ls -l dist/*.whl
