#!/usr/bin/env bash
# Checks what lies in dist/ as pip would get it: wheels by auditwheel and twine, what is in them, and that they install
# and load batches in clean environments of each Python from 3.9 to 3.13 that is here. Says which are not here, and
# checks the syntax for those alone.
# Usage: tools/pip-check.sh [--torch] [--jax] [WHEEL..]
#
# --torch, --jax  also install "khop[torch]", "khop[jax]" there (large downloads)
# WHEEL           default: all of dist/, and the source distribution
# Environment: PYTHONS  interpreters to try (default: python3.9 to python3.13 on PATH, and those that pyenv and uv have)
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'pip-check.sh: %s\n' "$*" >&2; exit 1; }
is() { [ "$("$2" -c 'import ensurepip, sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$1" ]; }
extras=()
wheels=()
for argument in "$@"; do
    case $argument in
        --torch | --jax) extras+=("${argument#--}") ;;
        *) wheels+=("$argument") ;;
    esac
done
[ ${#wheels[@]} -gt 0 ] || wheels=(dist/khop-*.whl)
[ -e "${wheels[0]}" ] || fail "no wheel: make wheel builds one"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tools=dist/.venv-pip/bin/python
if ! "$tools" -c 'import auditwheel, twine' 2>/dev/null; then
    python3 -m venv dist/.venv-pip
    "$tools" -m pip install --quiet --disable-pip-version-check auditwheel==6.4.2 twine==6.2.0
fi
"$tools" -m twine check --strict "${wheels[@]}" $(ls dist/khop-*.tar.gz 2>/dev/null) || fail "twine refuses the metadata"
for wheel in "${wheels[@]}"; do
    "$tools" tools/pip_check.py "$wheel" || fail "$wheel: see above"
done

mine=$(ls "${wheels[@]}" | grep "$(uname -m)" | head -n 1) || fail "no wheel for this machine"
for version in 3.9 3.10 3.11 3.12 3.13; do
    python=
    for candidate in ${PYTHONS:-} $(command -v "python$version") "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python \
        $(uv python find --offline "$version" 2>/dev/null); do
        ! is "$version" "$candidate" || python=$candidate
    done
    if [ -z "$python" ]; then
        "$tools" tools/pip_check.py --syntax $version
        continue
    fi
    rm -rf "$work/env"
    "$python" -m venv "$work/env"
    wanted=$mine
    [ ${#extras[@]} = 0 ] || wanted="khop[$(IFS=,; echo "${extras[*]}")] @ file://$PWD/$mine"
    "$work/env/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$wanted" ||
        fail "Python $version: pip does not install $wanted"
    (cd "$work" && rm -rf small.khop && env -i PATH=/usr/bin:/bin HOME="$work" env/bin/khop generate sbm small.khop --nodes 2000 \
        --edges 20000 >/dev/null 2>&1 && env -i PATH=/usr/bin:/bin HOME="$work" env/bin/python -W error::SyntaxWarning -c '
import sys, khop
found = []
for name in ("torch", "jax"):
    try:
        __import__(name)
        found.append(name)
    except ImportError:
        pass
for framework in ["numpy", *found]:
    with khop.Loader("small.khop", [5, 3], batch_size=256, framework=framework) as loader:
        assert sum(len(b.x) for b in loader) > 2000
print("Python", sys.version.split()[0], "installs and loads batches with numpy", *found)') || fail "Python $version: the wheel does not work"
done
