#!/usr/bin/env bash
# Makes the peers' virtual environments, dgl and pyg, under $KHOP_BENCH_DIR (default: .bench in the repository).
# They take 11 GB and about 20 minutes on two cores, most of it to build torch-scatter and torch-sparse; a second call
# does nothing.
# $PYTHON names the interpreter: 3.11, which the pinned versions want. Building needs g++.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${KHOP_BENCH_DIR:-$here/../../.bench}
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ "$version" != 3.11 ]; then
  echo "setup.sh: $python is Python $version, but the peers' pinned versions need 3.11: set PYTHON to one" >&2
  exit 1
fi

source_only='^torch-(scatter|sparse)=='  # their builds import torch, so it has to be there first

environment() {  # name
  local pins=$here/requirements-$1.txt env=$dir/$1
  if cmp -s "$pins" "$env/installed.txt"; then return; fi
  echo "setup.sh: installing $env" >&2
  [ -x "$env/bin/pip" ] || "$python" -m venv "$env"
  grep -vE "$source_only" "$pins" > "$env/wheels.txt"
  "$env/bin/pip" install -q --disable-pip-version-check -r "$env/wheels.txt"
  if grep -qE "$source_only" "$pins"; then
    grep -E "$source_only" "$pins" | FORCE_ONLY_CPU=1 MAX_JOBS="${MAX_JOBS:-$(nproc)}" nice -n 10 \
      xargs "$env/bin/pip" install -q --disable-pip-version-check --no-build-isolation --no-deps
  fi
  cp "$pins" "$env/installed.txt"
}

mkdir -p "$dir"
environment dgl
environment pyg
