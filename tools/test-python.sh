#!/usr/bin/env bash
# Checks the Python package: types, tests against a real server, and that the wheel alone is enough where there is no
# Go. test.sh calls it; alone: tools/test-python.sh [KHOP | --fetch]
#
# KHOP           the program to test (default: built from this tree)
# --fetch        only installs what the tests need
# Environment: KHOP_TESTDATA  folder of real graphs; tests that need one skip without it
#              PYTHON         the Python to test with (default: Debian's where it has torch or can get it, else python3)
#              KHOP_TEST_FRAMEWORKS=1  also installs JAX and Lightning (130 MB), where the Python is 3.11 and has torch
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'test-python.sh: %s\n' "$*" >&2; exit 1; }

# torch comes from Debian's package, in a minute; without it the tests of tensors skip, and say so.
python=${PYTHON:-}
if [ -z "$python" ]; then
    python=python3
    if ! python3 -c 'import torch' 2>/dev/null; then
        if ! /usr/bin/python3 -c 'import torch' 2>/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            echo "installing python3-torch"
            (apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends python3-torch python3-venv) \
                >"$work/apt.log" 2>&1 || tail -n 3 "$work/apt.log"
        fi
        ! /usr/bin/python3 -c 'import torch, ensurepip' 2>/dev/null || python=/usr/bin/python3
    fi
fi

requirements=integrations/python/tests/requirements.txt
more=
if [ -n "${KHOP_TEST_FRAMEWORKS:-}" ] && "$python" -c 'import sys, torch; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
    more=integrations/python/tests/frameworks.txt
fi
# shellcheck disable=SC2086 # there may be none
want=$( ("$python" --version; "$python" -c 'import sys; print(sys.prefix)'; cat "$requirements" $more) | sha256sum)
if [ "$(cat .venv-python/made-from 2>/dev/null)" != "$want" ]; then
    rm -rf .venv-python
    "$python" -m venv --system-site-packages .venv-python
    .venv-python/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements" numpy
    [ -z "$more" ] || .venv-python/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps -r "$more"
    echo "$want" >.venv-python/made-from
fi
[ "${1:-}" != --fetch ] || exit 0
khop=${1:-}
if [ -z "$khop" ]; then
    khop=$work/khop
    CGO_ENABLED=0 go build -o "$khop" ./cmd/khop
fi

python=$PWD/.venv-python/bin/python
"$python" -c 'import sys, numpy; print("Python", sys.version.split()[0], "NumPy", numpy.__version__, end=" ")'
"$python" -c 'import torch; print("torch", torch.__version__)' 2>/dev/null || echo "no torch"

# The wheel, in an environment that has nothing else, with no Go on PATH.
# Without a commit in it, as that of tools/reproducible.sh, which compares the two.
GOFLAGS="${GOFLAGS:-} -buildvcs=false" PYTHON=$python WHEELS=$(go env GOOS)/$(go env GOARCH) tools/wheel.sh >/dev/null &
wheel=$!
(cd integrations/python && "$python" -m mypy)
wait $wheel || fail "the wheel is not built"
"$python" -m venv "$work/clean"
"$work/clean/bin/python" -m pip install --quiet --disable-pip-version-check dist/khop-*"$(uname -m)"*.whl
(cd "$work" && env -i PATH=/usr/bin:/bin HOME="$work" clean/bin/khop generate sbm small.khop --nodes 2000 --edges 20000 >/dev/null 2>&1 &&
    env -i PATH=/usr/bin:/bin HOME="$work" clean/bin/python -c '
import shutil, khop
assert shutil.which("go") is None, "there is Go on PATH"
with khop.Loader("small.khop", fanouts=[5, 3], batch_size=256) as loader:
    for epoch in range(2):
        print("wheel: epoch", epoch, sum(b.num_nodes for b in loader), "nodes in", len(loader), "batches")
') || fail "the wheel does not work on its own"

export KHOP_LIBRARY=${KHOP_LIBRARY-$(compgen -G "$work/clean/lib/python*/site-packages/khop/lib/libkhop.so")} # tests want it

log=$work/pytest.log
noted=$PWD/dist/skips-python.txt
# In two processes: tests wait for others for a third of their time.
(cd integrations/python && KHOP_BIN=$khop PYTHONPATH=src:../../tests "$python" -m pytest -p skips --note-skips="$noted" -n 2 --dist worksteal) 2>&1 |
    tee "$log"
# Where SciPy and pyarrow are, too: above there is no pyarrow, and khop needs none.
[ ! -x .venv/bin/python ] ||
    KHOP_BIN=$khop PYTHONPATH=integrations/python/src:tests .venv/bin/python -m pytest -p skips -q -rs integrations/python/tests/test_{write,streams}.py 2>&1 |
    tee -a "$log"
if [ -n "${KHOP_TESTDATA:-}" ] && grep '^SKIPPED' "$log" | grep -vFf <(sed -n 's/^pytest //p' tests/allowed-skips.txt); then
    fail "the tests above were skipped, but are not on tests/allowed-skips.txt"
fi
