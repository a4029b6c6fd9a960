"""Paths that modules had until version 0.1. Each is the module that took its place, for one version."""

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Optional

MOVED = {
    "_library": "_native.library",
    "blocks": "_batch.blocks",
    "device": "_feed.device",
    "feed": "_feed.feed",
    "frameworks": "_batch.frameworks",
    "info": "_data.info",
    "loader": "_loader.loader",
    "options": "_config.configuration",
    "sampler": "_loader.request_sampler",
    "schema": "_batch.schema",
    "scratch": "_native.scratch",
    "sources": "_peers.graph_source",
    "stage": "_data.stage",
    "unified": "_unified.front",
    "unified_tensor": "_unified.tensor",
    "write": "_data.write",
}


class _Finder:
    """Finds a module of khop by the path that it had. As a loader it creates nothing: it stands the new module in."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Optional[ModuleSpec]:
        package, _, old = name.partition(".")
        if package != "khop" or old not in MOVED:
            return None
        return importlib.util.spec_from_loader(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(f"khop.{MOVED[module.__name__.partition('.')[2]]}")


def keep_old_paths() -> None:
    """Lets modules be imported by the paths that they had. Those that are imported already are there at once, so that
    none of them takes the place of a function of khop that has the same name."""
    for old, new in MOVED.items():
        if module := sys.modules.get(f"khop.{new}"):
            sys.modules[f"khop.{old}"] = module
    sys.meta_path.append(_Finder())
