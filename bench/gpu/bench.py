"""What the phases run programs with, and the time that they have."""
import functools
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class OutOfTime(Exception):
    """The phase's time, or that of the whole run, is over; the step is tried again by the next run."""


class Failed(Exception):
    """A step that did not work, and why. partial is what it had measured before."""

    def __init__(self, why, partial=None):
        super().__init__(why)
        self.partial = partial or {}


class Bench:
    """Programs, folders, sizes, and the time that is left."""

    def __init__(self, dir, smoke):
        self.dir, self.smoke = dir, smoke
        self.threads = min(16, os.cpu_count())
        self.uuid = ""  # of the board
        self.todo = None  # the steps that are wanted, (phase, name); None: all
        # by the clock: when the step has failed, and when it has to leave off to be tried again
        self.end = self.over = 0

    def begin(self, seconds, over):
        """Begins a step. It has failed after this number of seconds, and stops, undone, when the clock says over."""
        self.end, self.over = time.monotonic() + seconds, over

    def call(self, command, env=None, cwd=None, allowed=(0,)):
        """Runs a program to its end, or to that of the step's time. Returns (status, stdout, stderr)."""
        command = [str(c) for c in command]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", cwd=cwd,
                                   env={**os.environ, **(env or {})}, start_new_session=True, preexec_fn=_expendable)
        try:
            out, errors = process.communicate(timeout=max(min(self.end, self.over) - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            out, _ = _kill(process)
            if self.over < self.end:
                raise OutOfTime from None
            raise Failed(f"takes too long and was ended: {' '.join(command)}", _parsed(out)) from None
        except BaseException:
            _kill(process)
            raise
        if process.returncode not in allowed:
            raise Failed(f"{_last(errors)}\nstatus {process.returncode}: {' '.join(command)}\n{errors[-2000:]}",
                         _parsed(out))
        return process.returncode, out, errors

    def json(self, command, **options):
        return json.loads(self.call(command, **options)[1])

    def dataset(self, kind="products", *options):
        """A dataset, generated where it is missing."""
        if self.smoke and kind == "products":
            options = ("--nodes", "3000", "--features", "20", *options)
        path = self.dir / ("-".join([kind, *(o.strip("-") for o in map(str, options))]) + ".khop")
        if not (path / "dataset.json").exists():  # what is written last
            shutil.rmtree(path, ignore_errors=True)
            self.call([self.khop, "generate", kind, path, *options])
        return path

    @property
    def tests(self):
        """The tests that need a device, (package, expression)."""
        return [line.split() for line in (HERE / "tests.txt").read_text().splitlines()]

    @functools.cached_property
    def programs(self):
        """The folder into which the bundle's programs are unpacked, a folder a bundle."""
        archive = HERE / "programs.tar.xz"
        folder = self.dir / f"programs-{hashlib.sha256(archive.read_bytes()).hexdigest()[:16]}"
        if not folder.exists():
            partial = self.dir / "programs.partial"
            shutil.rmtree(partial, ignore_errors=True)
            with tarfile.open(archive) as tar:
                tar.extractall(partial, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(partial)
            partial.rename(folder)
        return folder

    @property
    def khop(self):
        return self.programs / "khop"

    @property
    def gpubench(self):
        return self.programs / "gpubench"

    def python(self, script, *options, allowed=(0,)):
        """Runs one of the bundle's scripts with the interpreter that runs this one."""
        return self.call([sys.executable, HERE / script, *options], env=self._environment(), allowed=allowed)

    def python_json(self, script, *options):
        """What a script prints. Status 3: it cannot run here, and its last line on standard error says why."""
        status, out, errors = self.python(script, *options, allowed=(0, 3))
        return {"skipped": _last(errors)} if status == 3 else _parsed(out)

    def peer(self, script, *options):
        """The same of a script that needs PyG's NeighborLoader."""
        return {"skipped": self.no_sampler} if self.no_sampler else self.python_json(script, *options)

    def _environment(self):
        return {"PYTHONPATH": os.pathsep.join(map(str, [HERE / "python", self.dir / "site", HERE])),
                "PYTHONDONTWRITEBYTECODE": "1", "KHOP_GPU_UUID": self.uuid}

    def both(self, first, second):
        """Runs two khop commands at once, and returns what each prints."""
        out = self.dir / "first.out"
        text = f"{_quoted(first)} >{_quoted([out])} & {_quoted(second)}; status=$?; wait $! || exit; exit $status"
        printed = self.call(["sh", "-c", text])[1]
        return out.read_text(), printed

    @functools.cached_property
    def _found(self):
        """What torch's packages are found by one start of Python. One that breaks the program is missing, and those
        after it."""
        code = """if True:
            import importlib, json
            found = {}
            for name in "torch", "torch_geometric", "torch_sparse", "pyg_lib":
                try:
                    module = importlib.import_module(name)
                    found[name] = True
                    if name == "torch":
                        found["cuda"] = module.cuda.is_available()
                except Exception:
                    pass
                print(json.dumps(found), flush=True)"""
        return _parsed(self.call([sys.executable, "-c", code], env=self._environment(),
                                 allowed=range(-64, 256))[1]) or {}

    @functools.cached_property
    def no_torch(self):
        """Why torch cannot be used; empty if it can."""
        works = self._found.get("torch" if self.smoke else "cuda")
        return "" if works else "torch is not installed for this Python, or finds no CUDA device"

    @functools.cached_property
    def no_sampler(self):
        """Why PyG's NeighborLoader cannot be used; empty if it can. What it samples with is built where it is
        missing."""
        sampler = lambda: self._found.get("pyg_lib") or self._found.get("torch_sparse")
        if not self._found.get("torch_geometric"):
            return "torch and torch_geometric are not both installed for this Python"
        if sampler():
            return ""
        if not list((HERE / "peers").iterdir()):
            return ("PyG has no sampler here: neither pyg-lib nor torch-sparse is installed, and the bundle was made "
                    "without KHOP_PEERS")
        if self.smoke:
            return "PyG's sampler is not built to see that all runs"
        config = self.dir / "build.cfg"
        config.write_text(f"[build_ext]\nparallel = {self.threads}\n")
        _, out, errors = self.call(  # both at once, and each on many cores: it still takes minutes
            ["sh", "-c", 'for peer in torch-scatter torch-sparse; do "$@" $peer & done; wait', "sh", sys.executable,
             "-m", "pip", "install", "--no-index",
             "--find-links", HERE / "peers", "--no-deps", "--no-build-isolation", "--upgrade", "--target",
             self.dir / "site"],
            env={"FORCE_ONLY_CPU": "1", "MAX_JOBS": str(self.threads), "CFLAGS": "-g0 -DNDEBUG",
                 "DIST_EXTRA_CONFIG": str(config)})
        del self._found
        if sampler():
            return ""
        return f"torch-sparse, which PyG samples with, cannot be built here: {(errors or out)[-1000:]}"


def _last(errors):
    return (errors.strip().splitlines() or ["it does not say why"])[-1]


def _parsed(text):
    """The object that a program has printed, or the last line that is one; None where there is none."""
    for part in (text, *reversed(text.splitlines())):
        try:
            value = json.loads(part)
        except ValueError:
            continue
        return value if isinstance(value, dict) else None
    return None


def _quoted(command):
    return shlex.join(map(str, command))


def _kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()


def _expendable():
    """For a program: if memory runs out, it goes and not the run."""
    try:
        pathlib.Path("/proc/self/oom_score_adj").write_text("800")
    except OSError:
        pass
