#!/usr/bin/env bash
# Reports what a change does to what others call: Go's exported names by apidiff, those of the Python package by griffe.
# It reports, and fails only where it cannot compare: before 1.0 a change is allowed, and CHANGELOG.md says what it is.
# Usage: tools/api-report.sh [COMMIT]    compares with that; default: the last release (a tag v*), else says that there
#                                        is none
set -euo pipefail
cd "$(dirname "$0")/.."

base=${1:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null)} || { echo "no release to compare with"; exit 0; }
work=$(mktemp -d)
trap 'git worktree remove --force "$work/base" 2>/dev/null || :; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/base" "$base"
module=$(sed -n 's/^module //p' go.mod)

GOFLAGS=-mod=mod GOBIN=$work go install golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4
export_names() { "$work/apidiff" -m -w "$1" "$module" 2> >(grep -v '^Ignoring internal' >&2); }
(cd "$work/base" && export_names "$work/base.export")
export_names "$work/here.export"
echo "== Go: what is not compatible with $base"
"$work/apidiff" -m -incompatible "$work/base.export" "$work/here.export" 2> >(grep -v '^Ignoring internal' >&2)

if ! dist/.venv-griffe/bin/griffe --version >/dev/null 2>&1; then
    python3 -m venv dist/.venv-griffe
    dist/.venv-griffe/bin/python -m pip install --quiet --disable-pip-version-check griffe==1.7.3
fi
echo "== Python: what is not compatible with $base"
dist/.venv-griffe/bin/griffe check khop --against "$base" --search integrations/python/src || :
