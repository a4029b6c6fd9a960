"""Draws plots as SVG, by the library that khop draws with."""
import json
import math
import pathlib
import subprocess

REPO = pathlib.Path(__file__).resolve().parents[2]


def svg(path, title, bottom, right, curves, ticks):
    """curves: {name: {x: y}}; ticks: {x: label}, which the x of the curves are among. x may be logarithms."""
    plot = {"title": title, "bottom": bottom, "right": right, "ticks": [{"at": x, "label": label} for x,
                                                                        label in sorted(ticks.items())],
            "curves": [{"name": name, "x": sorted(points), "y": [points[x] for x in sorted(points)]} for name,
                       points in curves.items() if points]}
    path.unlink(missing_ok=True)  # the program replaces no file that it did not write
    subprocess.run(["go", "run", "./cmd/khop/internal/plot/fromjson", path.resolve()], cwd=REPO, input=json.dumps(plot),
                   text=True, check=True)


def logarithms(values):
    """Ticks at the logarithms of some numbers."""
    return {math.log2(v): f"{v:g}" for v in values}
