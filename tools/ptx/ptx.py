#!/usr/bin/env python3
"""Compiles every CUDA source of the repository.

For each x.cu: x.ptx (by NVRTC, for compute capability 7.0), which is committed and embedded, and x_launch.go with a typed
launcher for each kernel. ptxas then assembles the PTX for the architectures below, to see that it does, and prints each kernel's
registers and shared memory; a kernel that spills registers fails the run.

  ptx.py            writes the files
  ptx.py --check    writes nothing and fails if a file is not what the sources give
  ptx.py PATH...    only these sources

The compilers come from the pinned wheels that tools/cuda-env.sh installs; gcc expands macros to find kernels. Needs no GPU.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLKIT = Path(os.environ.get("KHOP_CUDA_HOME", ROOT / ".venv-cuda")) / "cuda11/nvidia"
ENVIRONMENT = "device/include/nvrtc"  # holds cuda_env.h
ARCHITECTURES = [70, 75, 80, 86, 89, 90]
SKIPPED = {"testdata", "dist"}  # folders, beside those whose name begins with . or _

# C types of 8 bytes, and what they are in Go. A pointer is a device.Address.
GO_TYPES = {
    "int64_t": "int64", "long": "int64", "long long": "int64", "long int": "int64", "long long int": "int64",
    "uint64_t": "uint64", "unsigned long": "uint64", "unsigned long long": "uint64", "size_t": "uint64",
    "unsigned long int": "uint64", "unsigned long long int": "uint64", "long unsigned int": "uint64",
    "double": "float64",
}
TAKEN = {"kernels", "stream", "grid", "block", "shared", "cuda", "math"} | set(
    "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return "
    "select struct switch type var uint64 int64 float64 error".split())


class Failure(Exception):
    """What is wrong with a source, for its author."""


def find(ending):
    """Every file of the repository with this ending, relative to the root, in a fixed order."""
    found = []
    for folder, inner, files in os.walk(ROOT):
        inner[:] = [d for d in inner if d[0] not in "._" and d not in SKIPPED]
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files if f.endswith(ending)]
    return sorted(found)


# --- .cu to PTX ---


class NVRTC:
    def __init__(self):
        found = sorted(TOOLKIT.glob("cuda_nvrtc/lib/libnvrtc.so.*"))
        if not found:
            raise Failure(f"{TOOLKIT} has no NVRTC: run tools/cuda-env.sh")
        self.library = ctypes.CDLL(str(found[0]))

    def compile(self, source):
        """Returns the PTX. Paths are relative, so that it is the same wherever the repository lies."""
        text = (ROOT / source).read_bytes()
        first = re.search(rb"^\s*#\s*include.*", text, re.M)
        if not first or first[0].split() != [b"#include", b'"cuda_env.h"']:
            raise Failure(f'{source}: the first include must be: #include "cuda_env.h"')
        options = ["--gpu-architecture=compute_70", "--std=c++17", "--fmad=false",
                   f"-I{ENVIRONMENT}", f"-I{os.path.dirname(source)}", "-I."]
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, source.encode(), 0, None, None)
        code = self.library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options]))
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


# --- PTX to machine code, only to learn how it fares ---


def assemble(ptx, architecture):
    """Returns {kernel: (registers, shared bytes, stack bytes, spilled bytes)}."""
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "kernel.ptx")
        Path(path).write_text(ptx)
        run = subprocess.run([TOOLKIT / "cuda_nvcc/bin/ptxas", "-v", f"-arch=sm_{architecture}", "-o", os.path.join(scratch, "kernel.cubin"), path],
                             capture_output=True, text=True)
    if run.returncode:
        raise Failure(f"ptxas for sm_{architecture} failed:\n{run.stdout}{run.stderr}")
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


# --- signatures to Go ---


def signatures(source):
    """Returns [(kernel, [(C type, name)])], in the order of the source, after macros are expanded."""
    run = subprocess.run(["gcc", "-x", "c++", "-E", "-P", "-D__CUDACC_RTC__", "-D__CUDA_ARCH__=700", f"-I{ENVIRONMENT}",
                          f"-I{os.path.dirname(source)}", "-I.", source], cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        raise Failure(run.stderr)
    return parse(run.stdout, source)


def parse(text, source):
    found = []
    for m in re.finditer(r'extern\s+"C"\s+__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)\s*\{', text):
        parameters = []
        for p in filter(None, (" ".join(p.split()) for p in m[2].split(","))):
            if not (q := re.fullmatch(r"(.+?)\b(\w+)", p)):
                raise Failure(f"{source}: kernel {m[1]}: the parameter {p!r} is not understood")
            parameters.append((q[1].strip(), q[2]))
        found.append((m[1], parameters))
    return found


def entries(ptx):
    """Returns {kernel: [PTX type of each parameter]}."""
    return {m[1]: [" ".join(p.split()) for p in m[2].split(",") if p.strip()]
            for m in re.finditer(r"\.entry\s+(\w+)\s*\(([^)]*)\)", ptx)}


def check_parameters(source, kernels, ptx):
    """Every kernel of the PTX must have been found, with as many parameters, each a cell of 8 bytes."""
    made = entries(ptx)
    if missing := set(made) ^ {name for name, _ in kernels}:
        raise Failure(f'{source}: kernel {", ".join(sorted(missing))}: write it as extern "C" __global__ void name(...) {{')
    for name, parameters in kernels:
        if len(made[name]) != len(parameters):
            raise Failure(f"{source}: kernel {name}: {len(parameters)} parameters were found, the PTX has {len(made[name])}")
        for (ctype, parameter), cell in zip(parameters, made[name]):
            if not re.fullmatch(r"\.param \.[usbf]64 \w+", cell):
                raise Failure(f"{source}: kernel {name}: parameter {parameter} is {ctype}, which is not 8 bytes: make it int64_t, uint64_t, double or a pointer")


def go_type(ctype):
    if "*" in ctype:
        return "device.Address"
    return GO_TYPES.get(re.sub(r"\b(const|volatile)\b", "", ctype).strip(), "uint64")


def camel(name):
    first, *rest = name.strip("_").split("_")
    return first[:1].lower() + first[1:] + "".join(w[:1].upper() + w[1:] for w in rest)


def package(folder):
    for path in sorted((ROOT / folder).glob("*.go")):
        if not path.name.endswith(("_test.go", "_launch.go")) and (m := re.search(r"^package (\w+)", path.read_text(), re.M)):
            return m[1]
    return os.path.basename(folder)


def launchers(source, kernels):
    """Returns the text of x_launch.go."""
    stem = os.path.splitext(os.path.basename(source))[0]
    variable, kind = camel(stem) + "PTX", camel(stem) + "Kernels"
    load = "load" + kind[0].upper() + kind[1:]
    fields = [(name, camel(name) + "Kernel") for name, _ in kernels]
    methods = []
    for (name, parameters), (_, field) in zip(kernels, fields):
        arguments, cells = [], []
        for ctype, parameter in parameters:
            kind_of, argument = go_type(ctype), camel(parameter)
            argument += "Arg" if argument in TAKEN else ""
            arguments.append(f", {argument} {kind_of}")
            cells.append({"uint64": ", {}", "float64": ", math.Float64bits({})"}.get(kind_of, ", uint64({})").format(argument))
        shown = ", ".join(f"{ctype}{'' if ctype.endswith('*') else ' '}{p}" for ctype, p in parameters)
        methods.append(f"""
// {camel(name)} launches {name}({shown}).
func (kernels *{kind}) {camel(name)}(stream *device.Stream, grid, block device.Dim3, shared int{"".join(arguments)}) error {{
	return stream.Launch(kernels.{field}, grid, block, shared{"".join(cells)})
}}
""")
    math = '\t"math"\n' if any("math." in m for m in methods) else ""
    text = f"""// Code generated by tools/ptx from {os.path.basename(source)}. DO NOT EDIT.

package {package(os.path.dirname(source))}

import (
	_ "embed"
{math}
	"github.com/khop-gnn/khop/device"
)

//go:embed {stem}.ptx
var {variable} []byte

// {kind} are the kernels of {os.path.basename(source)}, loaded on one device. They are safe for concurrent use.
type {kind} struct {{
	module *device.Module
{"".join(f"	{field} *device.Kernel{chr(10)}" for _, field in fields)}}}

// {load} loads them. Close them before the device.
func {load}(on *device.Device) (*{kind}, error) {{
	module, err := on.Load({variable})
	if err != nil {{
		return nil, err
	}}
	kernels := &{kind}{{module: module}}
	for name, kernel := range map[string]**device.Kernel{{
{"".join(f'		"{name}": &kernels.{field},{chr(10)}' for name, field in fields)}	}} {{
		if *kernel, err = module.Kernel(name); err != nil {{
			module.Close()
			return nil, err
		}}
	}}
	return kernels, nil
}}

// Close unloads the kernels. None of them may be running.
func (kernels *{kind}) Close() error {{ return kernels.module.Close() }}
{"".join(methods)}"""
    return subprocess.run(["gofmt"], input=text, capture_output=True, text=True, check=True).stdout


# --- all together ---


def build(nvrtc, source):
    """Returns ({path: text}, {kernel: [what assemble says for each architecture]}), or a Failure."""
    try:
        ptx = nvrtc.compile(source)
        kernels = signatures(source)
        check_parameters(source, kernels, ptx)
        stem = os.path.splitext(source)[0]
        files = {stem + ".ptx": ptx, stem + "_launch.go": launchers(source, kernels)}
        columns = [assemble(ptx, a) for a in ARCHITECTURES]
        return files, {kernel: [c[kernel] for c in columns] for kernel, _ in kernels}
    except Failure as e:
        return e


def report(source, rows):
    """Prints registers a thread for each kernel and architecture; returns those that spill."""
    bad = []
    print(source)
    for kernel, row in rows.items():
        shared, stack, spilled = (max(r[i] for r in row) for i in (1, 2, 3))
        print(f"  {kernel:32} {' '.join(f'{r[0]:5}' for r in row)} {shared:8} {stack:6} {spilled:6}")
        bad += [f"{source}: kernel {kernel} spills {r[3]} bytes on sm_{a}" for a, r in zip(ARCHITECTURES, row) if r[3]]
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


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    arguments.add_argument("sources", nargs="*", metavar="PATH")
    options = arguments.parse_args()
    chosen = [os.path.relpath(os.path.abspath(p), ROOT) for p in options.sources] or find(".cu")
    os.chdir(ROOT)
    nvrtc, bad = NVRTC(), []
    print(f"  {'registers a thread':32} {' '.join(f'sm_{a}' for a in ARCHITECTURES)} {'shared B':>8} {'stack':>6} {'spills':>6}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, made in zip(chosen, pool.map(lambda s: build(nvrtc, s), chosen)):
            if isinstance(made, Failure):
                bad.append(str(made))
            else:
                files, rows = made
                bad += report(source, rows) + settle(source, files, options.check)
    bad += [f"{p} has no .cu: remove it" for p in find(".ptx") if not os.path.exists(p[:-4] + ".cu")]
    for line in bad:
        print(line, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as e:
        sys.exit(str(e))
