#!/usr/bin/env python3
"""Assembles the committed PTX that programs load, for devices that are likely, into device/cubins, which git ignores.

A program that is built with "-tags cuda,cubins" has them, and its kernels load without the driver's assembler:
device/cubins.go finds them by the first 16 digits of the SHA-256 of the PTX. Files that exist are kept: "make
ptx-check" leaves them there, too. Prints the sizes.
"""
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from pack import Damaged, kernels
from ptx import CUBINS, ROOT, Failure, assemble, cubin_of


def main():
    wanted = {}
    for source, ptx in kernels().items():
        wanted |= {out: (source, ptx, a) for a in CUBINS if (out := cubin_of(source, ptx, a))}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda out: out.exists() or assemble(*wanted[out]), wanted))
    for out, (source, _, a) in wanted.items():
        print(f"  {source:28} sm_{a} {out.stat().st_size:8}")
    for old in set((ROOT / "device/cubins").iterdir()) - set(wanted):
        old.unlink()
    print(f"{sum(out.stat().st_size for out in wanted)} bytes in device/cubins")


if __name__ == "__main__":
    try:
        main()
    except (Damaged, Failure) as e:
        sys.exit(str(e))
