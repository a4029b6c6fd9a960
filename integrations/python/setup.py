"""Puts a khop program into what is built. All else is in pyproject.toml.

tools/wheel.sh sets KHOP_WHEEL_PLATFORM, and has put the program into the package. From the source distribution
(tools/sdist.sh), which has khop's sources in go/, Go builds the program here. Otherwise there is none in the package.
"""

import os
import pathlib
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

SOURCES = pathlib.Path("go")
LIBRARY = pathlib.Path("src/khop/lib/libkhop.so")


class BuildProgram(build_py):
    """Builds the program of the sources that are here."""

    def run(self):
        super().run()
        if not SOURCES.is_dir():
            return
        if shutil.which("go") is None:
            raise SystemExit("khop: the source distribution needs Go 1.25 or later on PATH to build the program; "
                             "wheels have it inside: pip install --only-binary khop khop")
        program = pathlib.Path(self.build_lib, "khop", "bin", "khop").resolve()
        program.parent.mkdir(parents=True, exist_ok=True)
        flags = "-s -w"
        if "dev" not in self.distribution.get_version():
            flags += f" -X github.com/khop-gnn/khop/internal/project.release={self.distribution.get_version()}"
        command = ["go", "build", "-trimpath", "-buildvcs=false", f"-ldflags={flags}", "-o", str(program), "./cmd/khop"]
        subprocess.run(command, cwd=SOURCES, env={**os.environ, "CGO_ENABLED": "0"}, check=True)


class WithProgram(Distribution):
    """What has a program in it goes where pip puts what belongs to a platform."""

    def has_ext_modules(self):
        return "KHOP_WHEEL_PLATFORM" in os.environ or SOURCES.is_dir()


class PlatformWheel(bdist_wheel):
    """The program is static: any Python 3, any C library."""

    def egg2dist(self, egginfo_path, distinfo_path):
        """Adds the bill of materials, where PEP 770 looks for it."""
        super().egg2dist(egginfo_path, distinfo_path)
        if LIBRARY.exists():
            pathlib.Path(distinfo_path, "entry_points.txt").unlink()
        bill = pathlib.Path("khop.cdx.json")
        if bill.exists():
            folder = pathlib.Path(distinfo_path, "sboms")
            folder.mkdir()
            shutil.copyfile(bill, folder / bill.name)

    def write_wheelfile(self, wheelfile_base, *args, **kwargs):
        """Where the package has a launcher, that is the script khop too, in place of one that starts Python."""
        super().write_wheelfile(wheelfile_base, *args, **kwargs)
        if LIBRARY.exists():
            scripts = pathlib.Path(wheelfile_base).with_suffix(".data") / "scripts"
            scripts.mkdir(parents=True)
            shutil.copy("src/khop/bin/khop", scripts)

    def get_tag(self):
        platform = os.environ.get("KHOP_WHEEL_PLATFORM")
        if platform:
            return "py3", "none", platform
        return super().get_tag() if self.root_is_pure else ("py3", "none", super().get_tag()[2])


setup(distclass=WithProgram, cmdclass={"bdist_wheel": PlatformWheel, "build_py": BuildProgram})
