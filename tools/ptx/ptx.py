#!/usr/bin/env python3
"""Compiles every CUDA source of the repository.

For each x.cu: PTX (by NVRTC, for compute capability 7.0), and x_launch.go with a typed launcher for each kernel and the
struct that it takes, in Go; structs of a header y.cuh go to y_launch.go (mirror.py). The PTX of all kernels of a folder
is committed and embedded as one file, kernels.ptx.zip (pack.py). NVRTC confirms the offsets of all fields, and so does
the Go compiler.

ptxas then assembles the PTX for the architectures below, to see that it can, and prints each kernel's registers and
shared memory; a kernel that spills registers fails the run. With --check it assembles only for the architectures whose
cubins programs take along: the PTX was assembled for all when it was written. A run that passed is not repeated until
one of its files changes: tools/ptx/checked.txt, which is committed, has the digest of all that it has read.

  ptx.py            writes the files
  ptx.py --check    fails if a file is not what the sources give; --anew compiles them whatever was checked
  ptx.py PATH...    only the folders of these sources

The compilers come from the pinned wheels that tools/cuda-env.sh installs; gcc expands macros to find kernels. Needs no
GPU.
"""

import argparse
import ctypes
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pack
from mirror import Failure, Source, go_files
from pack import ROOT, find

TOOLKIT = Path(os.environ.get("KHOP_CUDA_HOME", ROOT / ".venv-cuda")) / "cuda11/nvidia"
ENVIRONMENT = "device/include/nvrtc"  # holds cuda_env.h
ARCHITECTURES = [70, 75, 80, 86, 89, 90]
# of them, those that programs take along: A100 and what runs its code, H100 and H200; others take the PTX
CUBINS = [80, 90]
CHECKED = ROOT / "tools/ptx/checked.txt"  # has the digest of all that a run has read or written, when it passed


# --- .cu to PTX ---


class NVRTC:
    def __init__(self):
        found = sorted(TOOLKIT.glob("cuda_nvrtc/lib/libnvrtc.so.*"))
        if not found:
            raise Failure(f"{TOOLKIT} has no NVRTC: run tools/cuda-env.sh")
        self.library = ctypes.CDLL(str(found[0]))

    def compile(self, source, asserts=""):
        """Returns the PTX. Paths are relative, so that it is the same wherever the repository lies."""
        text = (ROOT / source).read_bytes() + b"\n" + asserts.encode()
        first = re.search(rb"^\s*#\s*include.*", text, re.M)
        if not first or first[0].split() != [b"#include", b'"cuda_env.h"']:
            raise Failure(f'{source}: the first include must be: #include "cuda_env.h"')
        options = ["--gpu-architecture=compute_70", "--std=c++17", "--fmad=false",
                   f"-I{ENVIRONMENT}", f"-I{os.path.dirname(source)}", "-I."]
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, source.encode(), 0, None, None)
        code = self.library.nvrtcCompileProgram(program, len(options),
                                                (ctypes.c_char_p * len(options))(*[o.encode() for o in options]))
        log = self._text("nvrtcGetProgramLog", program).strip()
        if code:
            raise Failure(f"{source}: NVRTC failed ({code})\n{log}")
        if log:
            print(log, file=sys.stderr)
        ptx = self._text("nvrtcGetPTX", program)
        self._call("nvrtcDestroyProgram", ctypes.byref(program))
        return ptx

    def _text(self, function, program):
        size = ctypes.c_size_t()
        self._call(function + "Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(function, program, buffer)
        return buffer.value.decode()

    def _call(self, function, *arguments):
        code = getattr(self.library, function)(*arguments)
        if code:
            raise Failure(f"{function} answered {code}")


# --- PTX to machine code: to learn how it fares, and for programs that take it along (cubins.py) ---


def cubin_of(source, ptx, architecture):
    """Where the machine code of a program's kernels is kept; None where no program takes it along."""
    if architecture not in CUBINS or source.startswith(("bench/", "examples/", "internal/")):
        return None
    return ROOT / "device/cubins" / f"{hashlib.sha256(ptx.encode()).hexdigest()[:16]}.sm_{architecture}.cubin"


def assemble(source, ptx, architecture):
    """Returns {kernel: (registers, shared bytes, stack bytes, spilled bytes)}."""
    with tempfile.TemporaryDirectory() as scratch:
        path, out = os.path.join(scratch, "kernel.ptx"), os.path.join(scratch, "kernel.cubin")
        Path(path).write_text(ptx)
        run = subprocess.run([TOOLKIT / "cuda_nvcc/bin/ptxas", "-v", f"-arch=sm_{architecture}", "-o", out, path],
                             capture_output=True, text=True)
        if run.returncode:
            raise Failure(f"{source}: ptxas for sm_{architecture} failed:\n{run.stdout}{run.stderr}")
        if kept := cubin_of(source, ptx, architecture):
            kept.parent.mkdir(exist_ok=True)
            shutil.copyfile(out, kept.with_suffix(".part"))
            kept.with_suffix(".part").rename(kept)
    return usage(run.stderr + run.stdout)


def usage(log):
    """Reads what "ptxas -v" says of each kernel."""
    result, kernel, stack, spills = {}, None, 0, 0
    for line in log.splitlines():
        if m := re.search(r"Compiling entry function '(\w+)'", line):
            kernel, stack, spills = m[1], 0, 0
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, spills = int(m[1]), int(m[2]) + int(m[3])
        elif (m := re.search(r"Used (\d+) registers", line)) and kernel:
            shared = re.search(r"(\d+) bytes smem", line)
            result[kernel] = (int(m[1]), int(shared[1]) if shared else 0, stack, spills)
            kernel = None
    return result


# --- all together ---


def build(nvrtc, source, architectures):
    """Returns (Source, PTX, {kernel: [what assemble says for each architecture]}), or a Failure."""
    try:
        read = Source(source, ENVIRONMENT, ROOT)
        ptx = nvrtc.compile(source, read.asserts())
        read.check(ptx)
        columns = [assemble(source, ptx, a) for a in architectures]
        return read, ptx, {kernel: [c[kernel] for c in columns] for kernel in read.kernels}
    except Failure as e:
        return e


def report(source, rows, architectures):
    """Prints registers a thread for each kernel and architecture; returns those that spill."""
    bad = []
    print(source)
    for kernel, row in rows.items():
        shared, stack, spilled = (max(r[i] for r in row) for i in (1, 2, 3))
        print(f"  {kernel:32} {' '.join(f'{r[0]:5}' for r in row)} {shared:8} {stack:6} {spilled:6}")
        bad += [f"{source}: kernel {kernel} spills {r[3]} bytes on sm_{a}" for a, r in zip(architectures, row) if r[3]]
    return bad


def settle(source, files, check):
    """Writes the files that changed, or returns those that differ."""
    bad = []
    for path, text in files.items():
        old = Path(path).read_text() if os.path.exists(path) else None
        if old == text:
            continue
        if check:
            bad.append(f"{path} is not what {source} gives: run make ptx and commit it")
        else:
            Path(path).write_text(text)
            print(f"  wrote {path}")
    return bad


def settle_pack(folder, made, check):
    """Writes the pack of a folder's kernels, {x.ptx: text}, if it changed, or says how it differs."""
    path = os.path.join(folder, pack.NAME)
    new, old = pack.pack(made), Path(path).read_bytes() if os.path.exists(path) else None
    if old == new:
        return []
    if not check:
        Path(path).write_bytes(new)
        print(f"  wrote {path} ({len(new)} bytes)")
        return []
    try:
        have = pack.unpack(path) if old else {}
    except pack.Damaged as e:
        return [f"{e}: run make ptx and commit it"]
    differ = [name for name in sorted(set(have) | set(made)) if have.get(name) != made.get(name)]
    return [f"{path}: {name} is not what {folder}/{name[:-4]}.cu gives: run make ptx and commit it"
            for name in differ] or [f"{path} is not what tools/ptx/pack.py writes: run make ptx and commit it"]


def digest_of_all():
    """Says which files a check reads: sources, what they give, the compilers' versions, and these programs."""
    digest = hashlib.sha256()
    read = find((".cu", ".cuh", "cuda_env.h", ".ptx", pack.NAME, "_launch.go"))
    for path in [*read, "tools/ptx/ptx.py", "tools/ptx/mirror.py", "tools/ptx/pack.py", "tools/ptx/cuda11.txt"]:
        digest.update(f"{path} {hashlib.sha256((ROOT / path).read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    arguments.add_argument("--anew", action="store_true", help="compile also what was checked as it is")
    arguments.add_argument("sources", nargs="*", metavar="PATH")
    options = arguments.parse_args()
    if options.check and not options.sources and not options.anew and CHECKED.exists() and \
            CHECKED.read_text() == digest_of_all() + "\n":
        print("  all is as it was when it was checked")
        return 0
    asked = {os.path.dirname(os.path.relpath(os.path.abspath(p), ROOT)) for p in options.sources}
    chosen = [p for p in find(".cu") if not asked or os.path.dirname(p) in asked]  # whole folders: headers are shared
    os.chdir(ROOT)
    nvrtc, bad, folders, failed = NVRTC(), [], {}, set()
    architectures = CUBINS if options.check else ARCHITECTURES
    print(f"  {'registers a thread':32} {' '.join(f'sm_{a}' for a in architectures)} {'shared B':>8} {'stack':>6} "
          f"{'spills':>6}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, made in zip(chosen, pool.map(lambda s: build(nvrtc, s, architectures), chosen)):
            if isinstance(made, Failure):
                bad.append(str(made))
                failed.add(os.path.dirname(source))
            else:
                read, ptx, rows = made
                folders.setdefault(os.path.dirname(source), []).append((read, ptx))
                bad += report(source, rows, architectures)
    for folder, sources in folders.items() if not bad or options.check else []:
        if folder in failed:
            continue
        packed = {os.path.basename(read.path)[:-3] + ".ptx": ptx for read, ptx in sources}
        bad += settle_pack(folder, packed, options.check)
        files = go_files(folder, [read for read, _ in sources])
        bad += settle(folder, files, options.check)
        bad += [f"{p} has no source: remove it" for p in glob.glob(folder + "/*_launch.go") if p not in files]
    bad += [f"{p} has no .cu: remove it" for p in find(pack.NAME) if not glob.glob(os.path.dirname(p) + "/*.cu")]
    bad += [f"{p} is not in a pack: remove it" for p in find(".ptx")]
    for line in bad:
        print(line, file=sys.stderr)
    if not options.sources and not bad:
        CHECKED.write_text(digest_of_all() + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as e:
        sys.exit(str(e))
