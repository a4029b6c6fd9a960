#!/usr/bin/env bash
# Builds the program and the wheel twice, in folders, time zones and file modes that differ, and fails if a byte
# differs. With --empty-caches the second build also compiles everything anew, Go's library included, which takes
# minutes. With --built the first is what lies in dist: dist/khop by the line below, and the wheel of tools/wheel.sh, of
# this tree.
#
# Environment: PYTHON  one that has pip (default: python3)
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
build() { # FOLDER: a copy of what git knows
    mkdir -p "$1"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp -P --parents -t "$1"
    (cd "$1" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o dist/khop ./cmd/khop &&
        WHEELS=$(go env GOOS)/$(go env GOARCH) tools/wheel.sh >/dev/null)
}
first=$PWD
caches=()
case ${1:-} in
    --built) ;;
    --empty-caches) caches=("GOCACHE=$work/cache") ;;&
    *) first=$work/one && build "$first" ;;
esac
(umask 077 && export TZ=Asia/Kathmandu LC_ALL=C "${caches[@]}" && build "$work/a folder with another name")

cd "$work/a folder with another name/dist"
for file in khop *.whl; do
    cmp "$first/dist/$file" "$file" || { echo "reproducible.sh: two builds of $file differ" >&2; exit 1; }
    sha256sum "$file"
done
