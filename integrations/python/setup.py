"""Tags a wheel that carries a khop program for its platform: KHOP_WHEEL_PLATFORM, which tools/wheel.sh sets. All else is in pyproject.toml."""

import os
import pathlib
import shutil

from setuptools import setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    """The program is static: any Python 3, any C library."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = "KHOP_WHEEL_PLATFORM" not in os.environ

    def egg2dist(self, egginfo_path, distinfo_path):
        """Adds the bill of materials, where PEP 770 looks for it."""
        super().egg2dist(egginfo_path, distinfo_path)
        bill = pathlib.Path("khop.cdx.json")
        if bill.exists():
            folder = pathlib.Path(distinfo_path, "sboms")
            folder.mkdir()
            shutil.copyfile(bill, folder / bill.name)

    def get_tag(self):
        platform = os.environ.get("KHOP_WHEEL_PLATFORM")
        return ("py3", "none", platform) if platform else super().get_tag()


setup(cmdclass={"bdist_wheel": PlatformWheel})
