#!/usr/bin/env python3
"""The file in which the PTX of a folder's kernels is committed and embedded: kernels.ptx.zip, with a member x.ptx for
each x.cu.

  pack.py DIR    unpacks all packs of the repository into DIR, as DIR/gather/cuda/rows.ptx, and removes other .ptx files
                 from it; a file that is there already keeps its time

A pack is an ordinary ZIP file (device.LoadPacked reads it, and so do unzip and python3 -m zipfile). The same kernels
give the same bytes: members are in order of their names, without times, and each is compressed alone by bzip2, whose
output does not depend on its version. So git stores little for a change of one kernel.
"""

import io
import os
import sys
import zipfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "kernels.ptx.zip"
SKIPPED = {"testdata", "dist"}  # folders, beside those whose name begins with . or _


class Damaged(Exception):
    """A pack that cannot be read."""


def pack(members):
    """Returns the bytes of the pack of {name: text}."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o100644 << 16
            z.writestr(info, members[name].encode(), zipfile.ZIP_BZIP2, 9)
    return out.getvalue()


def unpack(path):
    """Returns the members of a pack, {name: text}."""
    try:
        with zipfile.ZipFile(path) as z:
            return {name: z.read(name).decode() for name in z.namelist()}
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError, zlib.error) as e:
        raise Damaged(f"{path} cannot be read: {e}") from e


def find(ending):
    """Every file of the repository with this ending, relative to the root, in a fixed order."""
    found = []
    for folder, inner, files in os.walk(ROOT):
        inner[:] = [d for d in inner if d[0] not in "._" and d not in SKIPPED]
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files if f.endswith(ending)]
    return sorted(found)


def kernels():
    """The PTX of all packs of the repository: {"gather/cuda/rows.ptx": text}."""
    return {os.path.join(os.path.dirname(path), name): text for path in find(NAME)
            for name, text in unpack(ROOT / path).items()}


def extract(to):
    """Makes a folder hold the PTX of all packs and no other."""
    wanted = {to / name: text for name, text in kernels().items()}
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for old in set(to.rglob("*.ptx")) - set(wanted):
        old.unlink()


if __name__ == "__main__":
    try:
        extract(Path(sys.argv[1]))
    except Damaged as e:
        sys.exit(str(e))
