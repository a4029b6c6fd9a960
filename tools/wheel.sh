#!/usr/bin/env bash
# Builds wheels of integrations/python into dist/, each with khop inside: as a shared library, of which the program is a
# launcher, where there is a C compiler for it (tools/libkhop.sh). Without one the wheel has the static program, and
# loads batches by a server only.
#
# Environment: PYTHON  one that has pip (default: python3); without setuptools 77 or later in it, pip downloads that
#              WHEELS  platforms (default: this machine's): "linux/amd64 linux/arm64"
#              KHOP_RELEASE, GO_LDFLAGS  the version, and what says it to Go's linker (tools/release)
#              LIBRARY "no" leaves the shared library out; "required" fails where it cannot be built
set -euo pipefail
cd "$(dirname "$0")/.."

# say prints what begins, and when, for who waits.
say() { echo "wheel, $((SECONDS / 60)):$(printf %02d $((SECONDS % 60))): $1" >&2; }

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
    say "$target: sources"
    rm -rf "$work/python"
    mkdir -p "$work/python"
    cp -r LICENSE cmd/khop/NOTICES.txt integrations/python/{pyproject.toml,setup.py,README.md,src} "$work/python"
    rm -rf "$work"/python/src/*.egg-info "$work"/python/src/khop/{bin,lib}
    find "$work/python" -name __pycache__ -prune -exec rm -rf {} +
    [ -z "${KHOP_RELEASE:-}" ] || sed -i "s/^__version__ = .*/__version__ = \"$KHOP_RELEASE\"/" "$work/python/src/khop/__init__.py"
    tools/pages-inside.sh "$work/python/src/khop/docs"
    package=$work/python/src/khop
    mkdir "$package/bin"
    program=
    if [ "${LIBRARY:-}" != no ]; then
        say "$target: khop, as a shared library (a minute or two where nothing is cached)"
        status=0
        oldest=$(tools/libkhop.sh "$package/lib/libkhop.so" "$target" "$package/bin/khop") || status=$?
        if [ $status = 0 ]; then
            program=$package/lib/libkhop.so
            cp cmd/libkhop/khop.h "$package/lib"
            [ "${oldest#2.}" -le 17 ] && platform=manylinux2014_$machine.manylinux_2_17_$machine || platform=manylinux_${oldest/./_}_$machine
        elif [ $status = 3 ] && [ "${LIBRARY:-}" != required ]; then
            echo "wheel.sh: the wheel for $target has no shared library" >&2
        else
            exit $status
        fi
    fi
    if [ -z "$program" ]; then # static: it asks nothing of the system's C library, whichever that is
        say "$target: the program khop (a minute or two where nothing is cached)"
        program=$package/bin/khop
        CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build -trimpath -ldflags="${GO_LDFLAGS:--s -w}" -o "$program" ./cmd/khop
        platform=manylinux2014_$machine.manylinux_2_17_$machine.musllinux_1_1_$machine
    fi
    rm -f dist/khop-*"_$machine.whl" # of another name: the C library is in it
    chmod -R u=rwX,go=rX "$work/python"
    say "$target: the bill of materials"
    (cd tools/bom && go run . sbom ../.. "$program") >"$work/python/khop.cdx.json"
    say "$target: the package${isolation[0]:+, by the setuptools that is here}"
    KHOP_WHEEL_PLATFORM=$platform SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800} \
        "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps "${isolation[@]}" --wheel-dir "$work/out" "$work/python"
done
if "$python" -c 'import deflate' 2>/dev/null; then
    say "compressing again, smaller"
    "$python" tools/rezip.py "$work"/out/*.whl
fi
mv "$work"/out/*.whl dist/
ls -l dist/*.whl
