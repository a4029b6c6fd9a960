#!/usr/bin/env bash
# Installs a release from its files, as a stranger does, into clean folders and environments, and loads a first batch in
# each. release-check.sh calls it: tools/release-install.sh VERSION DIST
#
# Environment: PYTHONS     interpreters to try (default: python3.9 to python3.14 on PATH, of pyenv and of uv)
#              FRAMEWORKS  "torch jax": also installs these from PyPI, for each interpreter: a download of 150 MB for JAX,
#                          of up to 3 GB for torch with what it needs for CUDA, which are gone before the next
#              DEBIAN      "trixie forky": also makes file systems of these releases of Debian, with their Python and
#                          torch, and installs there (root; a download of 250 MB each)
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'release-install.sh: %s\n' "$*" >&2; exit 1; }
version=$1
dist=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
machine=$(uname -m)
processor=$(go env GOARCH)
clean() { env -i PATH=/usr/bin:/bin HOME="$work" "$@"; } # nothing of ours in the environment
first='--nodes 2000 --edges 20000 --features 8 --classes 3'
(cd "$dist" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS"

# Sizes, and the start of the program.
tar xf "$dist/khop_${version}_linux_$processor.tar.gz" -C "$work"
program=$work/khop_${version}_linux_$processor/bin/khop
[ "$(clean "$program" --version | head -n 1 | cut -d ' ' -f 2)" = "$version" ] || fail "the program is of another version"
python3 - "$program" "$dist"/khop-"$version"-*.whl <<'P' || fail "see above"
import os, subprocess, sys, time
program, *wheels = sys.argv[1:]
times = []
for _ in range(21):
    start = time.perf_counter()
    subprocess.run([program, "--version"], stdout=subprocess.DEVNULL, check=True)
    times.append((time.perf_counter() - start) * 1e3)
sizes = {program: 25, **{w: 8 for w in wheels}}
print(f"khop --version: {sorted(times)[10]:.1f} ms (median of 21)")
for path, most in sizes.items():
    size = os.path.getsize(path) / 1e6
    print(f"{os.path.basename(path)}: {size:.1f} MB, at most {most} wanted{'' if size <= most else ': TOO LARGE'}")
P
page=$work/khop_${version}_linux_$processor/share/man/man1/khop-sample.1
if command -v man >/dev/null; then
    man -l "$page" >"$work/man" 2>/dev/null || fail "man does not show $page"
fi
grep -q fanouts "$page" || fail "$page does not speak of fan-outs"
clean "$program" docs cli | grep '^## khop sample' >/dev/null || fail "khop docs cli shows no page"

# The shared library, as pkg-config finds it.
tar xf "$dist/libkhop_${version}_linux_$processor.tar.gz" -C "$work"
library=$work/libkhop_${version}_linux_$processor
printf '#include <khop.h>\n#include <stdio.h>\nint main(void) { puts(khop_version()); return 0; }\n' >"$work/x.c"
flags="-I$library/include -L$library/lib -lkhop"
! command -v pkg-config >/dev/null || flags=$(PKG_CONFIG_PATH=$library/lib/pkgconfig pkg-config --cflags --libs khop)
gcc -o "$work/x" "$work/x.c" $flags
[ "$(LD_LIBRARY_PATH=$library/lib "$work/x")" = "$version" ] || fail "the shared library is of another version"
echo "libkhop.so links by pkg-config and says $version"

# The package of Debian and the image, unpacked into folders of their own, and run there.
mkdir "$work/deb" "$work/image" "$work/oci"
dpkg-deb -x "$dist/khop_${version}_$processor.deb" "$work/deb"
tar xf "$dist/khop_${version}_oci.tar" -C "$work/oci"
python3 - "$work/oci" "$processor" "$work/image" <<'P'
import json, os, sys, tarfile
layout, processor, to = sys.argv[1:]
blob = lambda d: os.path.join(layout, "blobs", *d["digest"].split(":"))
index = json.load(open(os.path.join(layout, "index.json")))
manifest = json.load(open(blob(next(m for m in index["manifests"] if m["platform"]["architecture"] == processor))))
config = json.load(open(blob(manifest["config"])))["config"]
assert config["User"] == "65532:65532" and config["Entrypoint"] == ["/usr/bin/khop"], config
for layer in manifest["layers"]:
    tarfile.open(blob(layer)).extractall(to)
P
for place in deb image; do
    mkdir -p "$work/$place/data" && chmod 777 "$work/$place/data" "$work/$place" && chmod 755 "$work"
    run=(env -i "$work/$place/usr/bin/khop")
    at=$work/$place/data
    if [ "$(id -u)" = 0 ]; then # within its file system, as the user of the image
        run=(chroot --userspec=65532:65532 "$work/$place" /usr/bin/khop)
        at=/data
    fi
    "${run[@]}" generate sbm "$at/g.khop" $first >/dev/null 2>&1 || fail "$place: khop generate"
    "${run[@]}" sample "$at/g.khop" --fanouts 5,3 --batches 1 --digest 2>/dev/null | grep '^0 ' >/dev/null || fail "$place: no batch"
    echo "$place: a first batch, in its own file system"
done

# A program in Go of the module as a proxy serves it: a folder with the zip, and no line "replace".
module=$(sed -n 's/^module //p' go.mod)
proxy=$work/proxy/$module/@v
mkdir -p "$proxy" "$work/program"
git clone --quiet . "$work/clone"
go run -C tools/release . zip "$work/clone" "v$version" "$proxy"
cat >"$work/program/main.go" <<G
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"$module/formats"
	"$module/loader"
	"$module/sampling"
)

func main() {
	ds, err := formats.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	ld, err := loader.New(ds, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{5, 3}}})
	if err != nil {
		log.Fatal(err)
	}
	for b, err := range ld.Epoch(context.Background(), 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("Go module: a first batch,", b.X())
		break
	}
}
G
# An empty cache of modules, to which others come from the one that is here, as far as they are.
(cd "$work/program" && export GOFLAGS=-modcacherw GOPROXY="file://$work/proxy,file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" &&
    export GONOSUMDB="$module" GOMODCACHE="$work/modules" CGO_ENABLED=0 && go mod init example.org/program 2>/dev/null &&
    go get "$module@v$version" 2>/dev/null && go mod tidy 2>/dev/null && ! grep -q replace go.mod && go build -o program . &&
    "$program" generate sbm g.khop $first >/dev/null 2>&1 && ./program g.khop) || fail "a program in Go of the module zip"

# What pip installs for a framework: the least version that khop takes with the oldest Pythons, today's with the newest.
pinned() { # PYTHON FRAMEWORK
    case "$1 $2" in
        "3.9 numpy" | "3.10 numpy") echo numpy==1.22.4 ;;
        "3.11 numpy") echo numpy==1.26.4 ;;
        "3.9 torch") echo torch==1.13.1 numpy==1.22.4 ;;
        "3.10 torch") echo torch==2.0.1 numpy==1.26.4 ;;
        "3.11 torch") echo torch==2.2.2 numpy==1.26.4 ;;
        *" torch") echo torch==2.15.0 numpy==2.3.5 ;;
        "3.9 jax") echo jax==0.4.30 jaxlib==0.4.30 ;;
        "3.10 jax") echo jax==0.6.2 jaxlib==0.6.2 ;;
        "3.11 jax") echo jax==0.10.2 jaxlib==0.10.2 ;;
        *" jax") echo jax==0.12.0 jaxlib==0.12.0 ;;
        *) echo numpy==2.3.5 ;;
    esac
}

# Wheels and the source distribution, with each Python.
cat >"$work/first.py" <<'P'
import subprocess, sys, time
framework, version, path, *processes = sys.argv[1:]
spent = []
for _ in range(7):
    code = "import time; t = time.perf_counter(); import khop; print(time.perf_counter() - t)"
    spent.append(float(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout) * 1e3)
start = time.perf_counter()
module = __import__(framework)
import khop
assert khop.__version__ == version, khop.__version__
kind = getattr(module, {"numpy": "ndarray", "torch": "Tensor", "jax": "Array"}[framework])
took = [f"import {framework} {time.perf_counter() - start:.2f} s"]
for process in processes or ("server", "inside"):
    start = time.perf_counter()
    with khop.Loader(path, [5, 3], batch_size=256, framework=framework, process=process) as loader:
        x = next(iter(loader)).x
        assert len(x) > 256 and isinstance(x, kind), type(x)
        took.append(f"a first batch, {'by a server' if process == 'server' else 'inside'}, {time.perf_counter() - start:.2f} s")
print(f"Python {sys.version.split()[0]}, {framework} {module.__version__}: {'; '.join(took)}; import khop "
      f"{sorted(spent)[3]:.0f} ms", flush=True)
P
wheel=$(compgen -G "$dist/khop-$version-*$machine.whl")
try() { # PYTHON FRAMEWORK FROM [PROCESS]: installs in a new environment, and loads a batch there
    rm -rf "$work/env" "$work/g.khop" && "$1" -m venv "$work/env"
    # shellcheck disable=SC2046 # several words
    TMPDIR=$work "$work/env/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --prefer-binary \
        "$3" $(pinned "$v" "$2") || fail "Python $v: pip, $2"
    clean "$work/env/bin/khop" generate sbm "$work/g.khop" $first >/dev/null 2>&1 && clean "$work/env/bin/khop" docs | grep migrating >/dev/null &&
        clean "$work/env/bin/python" "$work/first.py" "$2" "$version" "$work/g.khop" ${4:-} || fail "Python $v: no batch with $2 and $3"
}
source=$dist/khop-$version.tar.gz # once: Go builds its program, which has no shared library beside it
for v in 3.9 3.10 3.11 3.12 3.13 3.14; do
    python=
    for candidate in ${PYTHONS:-} $(command -v "python$v") "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$v".*/bin/python; do
        [ "$("$candidate" -c 'import ensurepip, sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" != "$v" ] || python=$candidate
    done
    [ -n "$python" ] || { echo "Python $v is not here: nothing was run"; continue; }
    for framework in numpy ${FRAMEWORKS:-}; do
        try "$python" "$framework" "$wheel"
    done
    if [ -n "$source" ]; then
        try "$python" numpy "$source" server
        echo "that is of the source distribution"
        source=
    fi
done
rm -rf "$work/env"

# The same within file systems of Debian, with its Python and torch.
for suite in ${DEBIAN:-}; do
    root=$work/debian
    rm -rf "$root"
    tools/debian-root.sh "$suite" "$root" python3-torch python3-venv
    mkdir "$root/work" && cp "$wheel" "$work/first.py" "$root/work"
    v=$(basename "$(readlink -f "$root/usr/bin/python3")")
    jax=
    [[ " ${FRAMEWORKS:-} " != *" jax "* ]] || jax=jax
    # shellcheck disable=SC2046 # several words
    [ -z "$jax" ] || python3 -m pip download --quiet --disable-pip-version-check --only-binary :all: \
        --python-version "${v#python}" --dest "$root/work" $(pinned "${v#python}" jax) || fail "Debian $suite: pip, JAX"
    # shellcheck disable=SC2016 # its mounts end with it
    unshare --mount bash -euc 'mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"
        run() { env -i PATH=/usr/bin:/usr/sbin HOME=/work LD_LIBRARY_PATH="/usr/lib/$4/blas:/usr/lib/$4/lapack" chroot "$1" "${@:6}"; }
        run "$@" python3 -m venv --system-site-packages /work/env
        run "$@" /work/env/bin/pip install --quiet --no-index --find-links /work khop $5
        run "$@" /work/env/bin/khop generate sbm /work/g.khop $3 >/dev/null 2>&1
        for framework in numpy torch $5; do run "$@" /work/env/bin/python /work/first.py $framework "$2" /work/g.khop; done' \
        - "$root" "$version" "$first" "$machine-linux-gnu" "$jax" || fail "no batch within Debian $suite"
done
