"""What a page of results says of where it was measured."""
import os
import pathlib
import platform
import subprocess


def commit():
    """The commit that the repository is at."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=pathlib.Path(__file__).parent,
                          stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip()


def processor():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def machine():
    return f"{processor()}, {os.cpu_count()} cores"


def here():
    """Commit and machine, for a sentence."""
    return f"at commit {commit()}, on {machine()}"
