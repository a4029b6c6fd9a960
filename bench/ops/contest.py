"""The contestants of bench/ops: one process measures khop, C, scipy and torch with malloc tuned; another, which reads
commands from stdin, measures torch as it is installed. Runs in an environment with torch 2.2 (bench/peers/setup.sh)."""
import ctypes
import json
import os
import statistics
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")
PAUSE = 0.004  # threads of OpenMP spin for so long after a call, and would disturb the next contestant


def address(array):
    return ctypes.c_void_p(array.ctypes.data if array is not None else None)


class Graph:
    """A sparse matrix in compressed rows, with values."""

    def __init__(self, name, indptr, indices, cols):
        self.name, self.cols = name, cols
        self.indptr, self.indices = np.ascontiguousarray(indptr, np.int32), np.ascontiguousarray(indices, np.int32)
        self.rows, self.edges = len(indptr) - 1, len(indices)
        self.values = np.random.default_rng(1).standard_normal(self.edges).astype(np.float32)
        self.wide = self.indptr.astype(np.int64)

    @staticmethod
    def load(spec):
        name, path = spec["name"], spec["path"]
        if path.endswith(".npz"):
            with np.load(path) as z:
                return Graph(name, z["indptr"], z["indices"], len(z["indptr"]) - 1)
        return Graph(name, np.fromfile(path + ".indptr", np.int32), np.fromfile(path + ".indices", np.int32),
                     spec["cols"])

    def distinct(self):
        return int(np.count_nonzero(np.bincount(self.indices, minlength=1)))


def huge(shape):
    """An array on huge pages where the system gives them, touched."""
    import mmap
    size = int(np.prod(shape)) * 4
    memory = mmap.mmap(-1, max(size, 1) + (2 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % (2 << 20)
    array = np.frombuffer(memory, np.float32, size // 4, start).reshape(shape)
    array[:] = 0
    return array


class Torch:
    """torch.sparse.mm of a CSR matrix with int32 indices, which MKL computes; its output is new at each call."""

    def __init__(self, threads):
        import torch
        self.torch = torch
        torch.set_num_threads(threads)

    def prepare(self, graph, x):
        t = self.torch
        self.a = t.sparse_csr_tensor(t.from_numpy(graph.indptr), t.from_numpy(graph.indices),
                                     t.from_numpy(graph.values),
                                     size=(graph.rows, graph.cols))
        self.x = t.from_numpy(x)
        return lambda: self.torch.sparse.mm(self.a, self.x)


class Scipy:
    """scipy's CSR product: one thread, a new output."""

    def prepare(self, graph, x):
        import scipy.sparse
        a = scipy.sparse.csr_matrix((graph.values, graph.indices, graph.indptr), shape=(graph.rows, graph.cols))
        return lambda: a @ x


class Plain:
    """plain.c, with a reused output."""

    def __init__(self, folder, threads):
        self.lib, self.threads = ctypes.CDLL(f"{folder}/libplain.so"), threads

    def prepare(self, graph, x, y):
        args = (ctypes.c_int64(graph.rows), ctypes.c_int64(x.shape[1]), address(graph.wide), address(graph.indices),
                address(graph.values), address(x), address(y), ctypes.c_int(self.threads))
        return lambda: self.lib.plain_spmm(*args) and None or y


    def rows(self, graph, x, ahead):
        """Reads the rows alone, one an edge, prefetched this number of edges ahead."""
        args = (ctypes.c_int64(graph.edges), ctypes.c_int64(x.shape[1]), address(graph.indices), address(x),
                ctypes.c_int64(ahead),
                ctypes.c_int(self.threads))
        return lambda: self.lib.plain_rows(*args)


class ISpLib:
    """The kernel of iSpLib's library (libmyfusedmm_shared.so), as its extension for torch calls it: 64-bit indices, and
    a result that is zero before. How many threads it takes was decided when it was built."""

    MESSAGE = 0x11102  # copy the right operand, multiply with the value, add

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)

    def prepare(self, graph, x, y):
        graph.wide_indices = graph.indices.astype(np.int64)
        n, k, one = ctypes.c_int64, x.shape[1], np.zeros(1, np.float32)
        args = (ctypes.c_int32(self.MESSAGE), n(graph.rows), n(graph.cols), n(k), ctypes.c_float(1), n(graph.edges),
                n(graph.rows), n(graph.cols), address(graph.values), address(graph.wide_indices), address(graph.wide),
                ctypes.c_void_p(graph.wide.ctypes.data + 8), address(one), n(k), address(x), n(k), ctypes.c_float(0),
                address(y), n(k), ctypes.c_void_p(None))

        def call():
            y[:] = 0
            if self.lib.fusedMM_csr(*args):
                raise RuntimeError("fusedMM_csr failed")
            return y
        return call


class Khop:
    """Package sparse, with a reused output."""

    def __init__(self, folder, threads):
        self.lib = ctypes.CDLL(f"{folder}/libkhop.so")
        self.lib.khop_open(threads)
        self.matrices = {}

    def prepare(self, graph, x, y):
        if graph.name not in self.matrices:
            self.matrices[graph.name] = self.lib.khop_matrix(
                ctypes.c_int64(graph.rows), ctypes.c_int64(graph.cols), ctypes.c_int64(graph.edges),
                address(graph.indptr), 0,
                address(graph.indices), 0)
        args = (ctypes.c_int(self.matrices[graph.name]), ctypes.c_int(0), address(graph.values), address(x), address(y),
                ctypes.c_int64(x.shape[1]))

        def call():
            if self.lib.khop_spmm(*args):
                raise RuntimeError("khop_spmm failed")
            return y
        return call


def dense(graph, width):
    x = huge((graph.cols, width))
    rng = np.random.default_rng(width)
    for row in range(0, graph.cols, 1 << 14):
        x[row:row + (1 << 14)] = rng.standard_normal(x[row:row + (1 << 14)].shape, np.float32)
    return x


def once(call):
    """Seconds of a call, and its result. An untimed call before leaves caches as the contestant itself does, whoever
    was before."""
    call()
    time.sleep(PAUSE)
    start = time.perf_counter()
    y = call()
    return time.perf_counter() - start, y


def serve(threads):
    """Measures torch as it is installed, for the process that writes commands: a graph and a width, then "run" for each
    measurement."""
    torch, graphs, call = Torch(threads), {}, None
    for line in sys.stdin:
        command = json.loads(line)
        if "graph" in command:
            call = None
            name = command["graph"]["name"]
            graph = graphs.setdefault(name, None) or Graph.load(command["graph"])
            graphs[name] = graph
            call = torch.prepare(graph, dense(graph, command["width"]))
            call()
            answer = "ready"
        else:
            answer = once(call)[0]
        print(json.dumps(answer), flush=True)


class Other:
    """The process that serves."""

    def __init__(self, threads):
        import subprocess
        env = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
        self.process = subprocess.Popen([sys.executable, __file__, "serve", str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def quartiles(times):
    low, median, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    return [low, median, high]


def reading(lib, threads):
    """Bytes a second that this number of threads read in order from memory: the fastest of some passes."""
    x = huge((160 << 20,))
    x[:] = 1
    lib.plain_read.restype = ctypes.c_float
    best = min(once(lambda: lib.plain_read(ctypes.c_int64(x.size), address(x), ctypes.c_int(threads)))[0]
               for _ in range(5))
    return x.nbytes / best


def measure(settings, threads, out):
    import gc
    folder, only = settings["folder"], settings["only"]
    torch, khop, plain = Torch(threads), Khop(folder, threads), Plain(folder, threads)
    other = Other(threads) if "torch as installed" in only else None
    rate = reading(plain.lib, threads)
    for spec in settings["graphs"]:
        graph = Graph.load(spec)
        distinct = graph.distinct()
        for width in settings["widths"]:
            x, y, z = dense(graph, width), huge((graph.rows, width)), None
            calls = {"khop": khop.prepare(graph, x, y)}
            if "C" in only:
                calls["C"] = plain.prepare(graph, x, y)
            if "iSpLib" in only and settings.get("isplib"):
                calls["iSpLib"] = ISpLib(settings["isplib"]).prepare(graph, x, y)
            if "torch tuned" in only:
                calls["torch tuned"] = torch.prepare(graph, x)
            if "scipy" in only and threads == 1:
                calls["scipy"] = Scipy().prepare(graph, x)
            if other:
                other.ask({"graph": spec, "width": width})
                calls["torch as installed"] = lambda: other.ask("run")
            calls |= {ahead: plain.rows(graph, x, ahead) for ahead in (8, 16, 32)}
            times = {name: [] for name in calls}
            want = calls["khop"]().copy()
            for name, call in calls.items():
                if name in ("C", "iSpLib", "torch tuned", "scipy"):
                    np.testing.assert_allclose(np.asarray(call()), want, rtol=1e-3, atol=1e-3,
                                               err_msg=f"{name} {graph.name} {width}")
            del want
            for _ in range(settings["rounds"]):
                for name, call in calls.items():
                    if name == "torch as installed":
                        time.sleep(PAUSE)
                        times[name].append(call())
                    else:
                        times[name].append(once(call)[0])
            record = {"graph": graph.name, "width": width, "threads": threads, "rows": graph.rows, "cols": graph.cols,
                      "edges": graph.edges, "distinct": distinct, "read_bytes_s": rate,
                      "rows_seconds": min(statistics.median(times.pop(ahead)) for ahead in (8, 16, 32)),
                      "seconds": {n: quartiles(t) for n, t in times.items()}}
            out.append(record)
            best = {n: quartiles(t)[1] * 1e3 for n, t in times.items()}
            print(f"{graph.name:10} K={width:<4} t={threads} " + "  ".join(
                f"{n} {v:.2f}" + (f" ({v / best['khop']:.2f}x)" if n != "khop" else "") for n, v in best.items()),
                file=sys.stderr, flush=True)
            del x, y, calls
            torch.a = torch.x = None
            gc.collect()
    if other:
        other.close()


def main():
    if sys.argv[1] == "serve":
        return serve(int(sys.argv[2]))
    settings, out = json.load(sys.stdin), []
    measure(settings, settings["threads"], out)
    json.dump(out, sys.stdout)


main()
