"""The shared library in a process of Python: forks, signals, versions."""

import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import khop
from khop import LibraryNotFound
from khop._native import library as _library

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")


def python(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Runs a program in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, env={**os.environ, **environment},
    )


@pytest.fixture
def launcher():
    """The program of the wheel that the library is of."""
    path = os.path.join(os.path.dirname(_library.find()), "..", "bin", "khop")
    if not os.path.exists(path):
        pytest.skip("the library is of no wheel")
    return path


def test_the_program_of_a_wheel_ends_as_the_static_one_does(launcher, program):
    for line in (["version"], ["sample"], ["check", "/nowhere.khop"], ["docs", "cli"], []):
        one, other = (subprocess.run([p, *line], capture_output=True, text=True) for p in (launcher, program))
        assert one.returncode == other.returncode, (line, one, other)
        assert one.stderr == other.stderr
    with subprocess.Popen([launcher, "options", "--json"], stdout=subprocess.PIPE) as process:
        process.stdout.close()  # before it writes
    assert process.returncode == -signal.SIGPIPE


def test_a_crash_of_a_wheels_program_is_told(launcher, dataset):
    with khop.Loader(dataset("sbm"), [3], batch_size=16, binary=launcher, process="server") as loader:
        epoch = iter(loader)
        next(epoch)
        os.kill(loader.server_pid, signal.SIGSEGV)
        with pytest.raises(khop.ServerError, match="^khop serve has crashed: SIGSEGV: .*a bug"):
            for _ in epoch:
                pass


def test_scripts_find_the_package_of_their_own_version(launcher, tmp_path):
    """A launcher where pip puts scripts becomes that of the package beside it; a folder named khop is no package."""
    scripts = tmp_path / "khop" / "bin"
    scripts.mkdir(parents=True)
    shutil.copy(launcher, scripts)
    here = [scripts / "khop", "version"]
    lost = subprocess.run(here, capture_output=True, text=True)
    assert lost.returncode == 1 and "pip install" in lost.stderr
    said = []
    for python, version in (("python3.1", "0.0.1"), ("python3.2", khop.__version__)):
        package = tmp_path / "khop" / "lib" / python / "site-packages"
        (package / "khop" / "bin").mkdir(parents=True)
        (package / f"khop-{version}.dist-info").mkdir()
        fake = package / "khop" / "bin" / "khop"
        fake.write_text(f"#!/bin/sh\necho {version}\n")
        fake.chmod(0o700)
        said.append(subprocess.run(here, capture_output=True, text=True).stdout.strip())
    assert said == ["0.0.1", khop.__version__]


def test_what_is_closed_is_an_error_and_not_a_crash():
    with pytest.raises(Exception, match="handle 77 is closed"):
        _library.load().close(77)


def test_another_version_of_the_header_is_refused(tmp_path):
    source = tmp_path / "other.c"
    source.write_text("int khop_abi(void) { return 99; }\n")
    if subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "other.so", source]).returncode:
        pytest.skip("no C compiler")
    with pytest.raises(LibraryNotFound, match="speaks version 99 of khop.h"):
        _library.Library(str(tmp_path / "other.so"))


def test_a_library_that_is_named_and_not_there_is_named_in_the_error():
    done = python("from khop import _library; _library.load()", KHOP_LIBRARY="/nowhere/libkhop.so")
    says = "khop.errors.LibraryNotFound: $KHOP_LIBRARY names /nowhere/libkhop.so, which is not a file"
    assert done.stderr.splitlines()[-1] == says


def test_a_forked_child_is_refused_and_one_of_a_parent_without_it_is_not():
    done = python("""
import os, khop
from khop._native import library as _library

def in_child(use):
    pid = os.fork()
    if pid == 0:
        try:
            use()
        except khop.ForkError as e:
            os._exit(3 if "spawn" in str(e) else 4)
        except BaseException:
            os._exit(5)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

assert in_child(_library.load) == 0  # it loads its own
library = _library.load()
for _ in range(50):
    assert in_child(_library.load) == 3
    assert in_child(lambda: library.close(1) or library.function("khop_close", _library.Handle)(1)) == 3
assert _library.load() is library
""")
    assert done.returncode == 0, done.stderr


def test_signals_go_to_python_and_faults_to_who_handled_them_before():
    done = python("""
import os, signal
from khop._native import library as _library
seen = []
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
signal.signal(signal.SIGUSR1, lambda *_: seen.append("before"))
_library.load()
signal.signal(signal.SIGUSR2, lambda *_: seen.append("after"))

# No thread of Go's takes a signal of the process: with the main thread's blocked it waits there.
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT])
for s in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
    os.kill(os.getpid(), s)
assert not seen and signal.sigpending() == {signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT}, (seen, signal.sigpending())
try:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT])
    raise AssertionError("no KeyboardInterrupt")
except KeyboardInterrupt:
    pass
while len(seen) < 2:  # the handlers of the others run soon
    pass
assert sorted(seen) == ["after", "before"], seen
r, w = os.pipe(); os.close(r)
try:
    os.write(w, b"x")
    raise AssertionError("no EPIPE")
except BrokenPipeError:
    pass
""")
    assert done.returncode == 0, done.stderr
    for enable in ("faulthandler.enable(); _library.load()", "_library.load(); faulthandler.enable()"):
        done = python(f"import ctypes, faulthandler; from khop import _library; {enable}; ctypes.string_at(0)")
        assert done.returncode == -11 and "Fatal Python error: Segmentation fault" in done.stderr, done.stderr
    done = python("import ctypes; from khop import _library; _library.load(); ctypes.string_at(0)")
    assert done.returncode == -11, (done.returncode, done.stderr)  # as without it


@pytest.mark.parametrize("left", [0, 1, 3, 7, 8, 12])
def test_few_file_descriptors_are_an_error_and_never_the_end_of_the_process(left, dataset):
    """Go's runtime aborts a process in which it cannot make those of its poller."""
    done = python(f"""
import os, resource, numpy, khop
from khop._native import library as _library
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

def leave(n):
    taken = []
    try:
        while True:
            taken.append(os.dup(0))
    except OSError:
        for _ in range(n):
            os.close(taken.pop())
    return taken

taken = leave({left})
try:
    _library.load()
    assert {left} >= 8
except khop.LibraryNotFound as e:
    assert {left} < 8 and "fewer than 8 file descriptors are left of 64" in str(e), e
for fd in taken:
    os.close(fd)
_library.load()  # as soon as there are some
taken = leave({left})
try:
    khop.Loader({dataset("sbm")!r}, [3], process="inside", framework="numpy").close()
except (khop.KhopError, OSError) as e:
    assert "descriptors" in str(e) or "too many open files" in str(e), e
""")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("native", [True, False])
def test_ends_of_edges_are_those_of_the_csc(native, monkeypatch):
    from khop.errors import ProtocolError
    from khop._batch.frameworks import edge_index

    if native:
        _library.load()
    else:
        monkeypatch.setattr(_library, "_loaded", None)
    draw = np.random.default_rng(20261127)
    for of, to in (("int32", "int32"), ("int32", "int64"), ("int64", "int64"), ("int64", "int32")):
        blocks = []
        for n in (0, 1, 50, 3):
            count = draw.integers(0, 4, n)
            indptr = np.concatenate([[0], np.cumsum(count)]).astype(of)
            blocks.append((indptr, draw.integers(0, 1 << 30, int(count.sum())).astype(of)))
        got = edge_index(blocks, np.dtype(to))
        assert got.dtype == to and got[0].tolist() == [s for _, indices in blocks for s in indices.tolist()]
        assert got[1].tolist() == [d for indptr, _ in blocks for d, n in enumerate(np.diff(indptr)) for _ in range(n)]
        for bad in ([0, 2, 1, 3], [0, 1, 2, 2], [0, 1, 2, 4], [0, 5, 5, 3], [0, -1, 2, 3]):
            with pytest.raises(ProtocolError, match="does not divide"):
                edge_index([(np.array(bad, of), np.zeros(3, of))], np.dtype(to))
