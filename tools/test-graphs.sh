#!/usr/bin/env bash
# Runs the tests that ./test.sh, run just before without KHOP_TESTDATA, has left out: those of real graphs. With
# KHOP_TESTDATA set ./test.sh runs them itself.
#
# Environment: KHOP_TESTDATA   folder of real graphs
#              KHOP_PYG_TESTS  folder "test" of PyTorch Geometric's sources; its tests skip without it
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf 'test-graphs.sh: %s\n' "$*" >&2; exit 1; }
[ -n "${KHOP_TESTDATA:-}" ] || fail "KHOP_TESTDATA must name the folder of real graphs"
started=$SECONDS
export KHOP=$PWD/dist/khop KHOP_BIN=$PWD/dist/khop GOFLAGS="-trimpath -vet=off" CGO_ENABLED=0
for made in dist/khop dist/skips-tests.txt dist/skips-python.txt; do
    [ -f "$made" ] || fail "$made is not there: run ./test.sh first"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$PWD

printf '\n== Go tests of real graphs\n' # those of the files that ask for the folder
while IFS= read -r folder; do
    files=$(grep -lE 'KHOP_TESTDATA' "$folder"/*_test.go)
    names=$(xargs grep -hoE '^func (Test|Fuzz|Example)[A-Za-z0-9_]*' <<<"$files" | sed 's/^func //; /^TestMain$/d' | paste -sd '|')
    echo "$folder $names"
    (cd "$folder" && go test -count 1 -timeout 20m -run "^($names)\$" -json .) |
        tools/report.py --allowed tests/allowed-skips.txt --totals "$work/totals"
done < <(grep -rl --include='*_test.go' KHOP_TESTDATA . | grep -v '^\./\.' | xargs -n 1 dirname | sort -u)

printf '\n== Python tests of real graphs (after %d s)\n' $((SECONDS - started))
log=$work/pytest.log
status=0
PYTHONPATH=tests .venv/bin/python -m pytest -p skips --noted="$PWD/dist/skips-tests.txt" -q -rs tests 2>&1 | tee "$log" || status=$?
[ $status = 0 ] || fail "the Python tests fail"
.venv-python/bin/python -m zipfile -e dist/khop-*"$(uname -m)"*.whl "$work/wheel" # for the shared library in it
(
    cd integrations/python
    export KHOP_LIBRARY=$work/wheel/khop/lib/libkhop.so
    PYTHONPATH=src:../../tests "$root/.venv-python/bin/python" -m pytest -p skips --noted="$root/dist/skips-python.txt" -n 2 --dist worksteal &&
        PYTHONPATH=src:../../tests "$root/.venv/bin/python" -m pytest -p skips -q -rs -k real tests/test_streams.py
) 2>&1 | tee -a "$log" || status=$?
[ $status = 0 ] || fail "the tests of the Python package fail"
allowed=$(sed -n 's/^pytest //p' tests/allowed-skips.txt)
if grep '^SKIPPED' "$log" | grep -vFf <(printf '%s\n' "$allowed"); then
    fail "the Python tests above were skipped, but are not on tests/allowed-skips.txt"
fi
python=$(grep -Eo '[0-9]+ passed' "$log" | awk '{n += $1} END {print n + 0}')
awk -v python="$python" -v s=$((SECONDS - started)) \
    '{p += $1; k += $3} END {printf "\nOf real graphs passed: %d Go tests, %d skipped, %d Python tests, in %d s.\n", p, k, python, s}' "$work/totals"
