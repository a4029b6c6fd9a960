"""Looks into a wheel: its tag by auditwheel, and what must be in it. With --syntax VERSION: whether that Python reads
the package."""
import ast
import pathlib
import re
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def syntax(version):
    feature = tuple(map(int, version.split(".")))
    files = sorted((ROOT / "integrations/python/src").rglob("*.py"))
    for file in files:
        ast.parse(file.read_text(encoding="utf-8"), str(file), feature_version=feature)
    print(f"Python {version} is not here: {len(files)} files have its syntax, and nothing was run")


def contents(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        info = next(n for n in names if n.endswith(".dist-info/METADATA")).rpartition("/")[0]
        needed = ["khop/py.typed", "khop/bin/khop", f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICES.txt",
                  f"{info}/sboms/khop.cdx.json", f"{info}/RECORD"]
        library = "khop/lib/libkhop.so" in names
        needed.append(info.replace(".dist-info", ".data/scripts/khop") if library else f"{info}/entry_points.txt")
        metadata = file.read(f"{info}/METADATA").decode()
    missing = [n for n in needed if n not in names]
    missing += [f"METADATA: {field}" for field in ("Requires-Python: >=3.9", "License-Expression: Apache-2.0",
                                                   "Provides-Extra: torch",
                                                   "Project-URL: ", "Typing :: Typed") if field not in metadata]
    if missing:
        sys.exit(f"{wheel}: without {', '.join(missing)}")
    return library


def tag(wheel, library):
    """The tag that auditwheel finds must be as old as the one in the name."""
    named = min(int(m) for m in re.findall(r"manylinux_2_(\d+)_", pathlib.Path(wheel).name) or [17])
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    said = " ".join(shown.stdout.split())
    found = re.search(r'platform tag: "([^"]*)"', said)
    if not library and "no ELF" in said:
        return f"static, any C library; named manylinux_2_{named}"
    if not found:
        sys.exit(f"{wheel}: auditwheel: {said}")
    glibc = re.match(r"manylinux_2_(\d+)_", found[1])
    if not glibc or int(glibc[1]) > named:
        sys.exit(f"{wheel}: its name says manylinux_2_{named}, auditwheel {found[1]}")
    return f"auditwheel: {found[1]}"


if sys.argv[1] == "--syntax":
    syntax(sys.argv[2])
else:
    library = contents(sys.argv[1])
    size = pathlib.Path(sys.argv[1]).stat().st_size / 1e6
    print(f"{sys.argv[1]}: {size:.1f} MB, {tag(sys.argv[1], library)}, {'with' if library else 'without'} the shared "
          f"library")
