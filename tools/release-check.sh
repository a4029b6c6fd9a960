#!/usr/bin/env bash
# Builds a release twice, from clones of the last commit in other folders, time zones and modes of files, the second with
# empty caches of Go's, and fails if a byte differs. Then signs it, verifies the signature, sees that a changed byte is
# refused, looks at sizes, and installs from the files: wheels with each Python that is here, the source distribution,
# the Debian package and the image into folders, and a Go program of the module zip, from a proxy of files.
# Usage: tools/release-check.sh VERSION [DIST]    with DIST it takes the release in that folder, and builds none
#
# Environment: PYTHON  has what tools/release/requirements.txt lists (default: made in the clones)
#              ONE=1   builds once
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'release-check.sh: %s\n' "$*" >&2; exit 1; }
version=$1
root=$PWD
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
key=$work/khop.key
go build -C tools/release -o "$work/release" .
"$work/release" keys "$key"

build() { # FOLDER
    git clone --quiet . "$1"
    make -s -C "$1" release VERSION="$version" PYTHON="${PYTHON:-}"
}
dist=${2:-}
if [ -z "$dist" ]; then
    build "$work/one"
    dist=$work/one/dist/release
    if [ -z "${ONE:-}" ]; then
        (umask 077 && export TZ=Asia/Kathmandu GOCACHE=$work/cache GOMODCACHE=$work/modules && build "$work/a folder with another name")
        diff -r "$dist" "$work/a folder with another name/dist/release" || fail "two builds differ"
        echo "two builds of $(ls "$dist" | wc -l) files are byte-equal"
    fi
fi
cp -r "$dist" "$work/signed"
"$work/release" sign "$key" "$work/signed"
"$work/release" verify "$key.pub" "$work/signed"
file=$work/signed/khop_${version}_linux_amd64.tar.gz
printf x | dd of="$file" bs=1 seek=4321 conv=notrunc status=none
! "$work/release" verify "$key.pub" "$work/signed" 2>/dev/null || fail "a changed byte is not refused"
echo "the signature holds, and a changed byte is refused"
tools/release-install.sh "$version" "$dist"
