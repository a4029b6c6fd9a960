#!/usr/bin/env python3
"""Builds pyg-lib's samplers for the CPU from source, and installs them beside the torch of this interpreter.

    python pyg_lib_build.py PYG_LIB PARALLEL_HASHMAP

PYG_LIB is a checkout of pyg-team/pyg-lib at COMMIT, PARALLEL_HASHMAP one of greg7mdp/parallel-hashmap. The package
index has no wheels of pyg-lib, and its own build wants METIS, CUTLASS and CMake. What PyG's loaders call needs none of
them: sampling, random walks, subgraphs and the sort of indices. It takes four minutes on one core.
"""
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

COMMIT = "764e3a49"  # 0.9.0
CONFIG = "#pragma once\n#define WITH_MKL_BLAS() 0\n#define NO_METIS() 1\n"
PARTS = ("library.cpp", "sampler/**/*.cpp", "random/**/*.cpp", "utils/*.cpp", "classes/**/*.cpp", "ops/index_sort.cpp",
         "ops/cpu/index_sort_kernel.cpp")


def main(checkout, phmap):
    from torch.utils import cpp_extension
    commit = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    if not commit.stdout.startswith(COMMIT):
        sys.exit(f"{checkout} is at {commit.stdout.strip()}: check out {COMMIT}")
    package = pathlib.Path(checkout, "pyg_lib")
    sources = sorted(str(f) for part in PARTS for f in (package / "csrc").glob(part) if "cuda" not in f.parts)
    with tempfile.TemporaryDirectory() as build:
        build = pathlib.Path(build)
        (build / "pyg_lib/csrc").mkdir(parents=True)
        (build / "pyg_lib/csrc/config.h").write_text(CONFIG)
        library = cpp_extension.load(
            "libpyg", sources, extra_include_paths=[str(build), checkout, phmap], build_directory=str(build),
            extra_cflags=["-O3", "-fopenmp", "-std=c++17", "-DAT_PARALLEL_OPENMP=1"], is_python_module=False,
            verbose=True)
        target = pathlib.Path(sysconfig.get_paths()["purelib"], "pyg_lib")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(package, target, ignore=shutil.ignore_patterns("csrc"))
        shutil.copy(library or build / "libpyg.so", target / "libpyg.so")
    (target / "COMMIT").write_text(COMMIT + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
