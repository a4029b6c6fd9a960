#!/usr/bin/env python3
"""Measures the operations that graph neural networks are made of, over kinds, sparsities and sizes: torch, scipy and
khop.

    KHOP_TESTDATA=... .bench/dgl/bin/python bench/ops/kinds.py --out docs/results/ops.md
    python bench/ops/kinds.py --device cuda --json               # torch, and cupy where it is: a phase of the GPU
    bundle

The operations, sparsities, factors of reduction and sizes are those of a published benchmark (Hosseini, Simini and
Vishwanath,
"Operation-Level Performance Benchmarking of Graph Neural Networks for Scientific Applications", 2022); spline
convolutions are left out. Added are quartiles, indices that follow a power law, and the share of the memory's
bandwidth: the bytes that an operation must read and write at least, by what a copy of large arrays reads and writes in
the same time. Contestants take turns in one process, with malloc told to keep what it got. khop computes on the CPU
alone here. Settings that do not begin within --minutes are left out, and the page says how many. --out replaces a
section of a page, draws plots beside it, and writes all figures to ops-kinds.json for ops.md; that and khop need Go.
"""
import argparse
import collections
import ctypes
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import draw
import given
import where

HERE = pathlib.Path(__file__).resolve().parent
WIDTH = 64
SIZES = (0.03, 0.4, 4, 40, 400)  # MB of dense rows
FACTORS = (1, 2, 4, 8)
SPARSITIES = (0, 0.5, 0.9, 0.99, 0.999)
warnings.filterwarnings("ignore")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--largest", type=float, default=400, help="MB of rows")
    parser.add_argument("--no-khop", action="store_true", help="measure the others alone, which needs no Go")
    parser.add_argument("--json", action="store_true",
                        help="print an object: device, torch, copy_gb_per_s, findings, left_out, results")
    parser.add_argument("--out", type=pathlib.Path, help="the page whose section to write")
    return parser.parse_args()


class Bench:
    def __init__(self, args):
        import torch
        self.args, self.torch, self.results, self.left_out = args, torch, [], 0
        self.end = time.monotonic() + 60 * args.minutes
        torch.set_num_threads(args.threads)
        torch.manual_seed(0)
        self.device = args.device
        self.khop = Khop(args.threads) if args.device == "cpu" and not args.no_khop else None
        x = torch.ones(50_000_000, device=self.device)
        y = torch.empty_like(x)
        self.rate = max(8 * x.numel() / self.once(lambda: y.copy_(x)) for _ in range(5))

    def once(self, call):
        start = time.perf_counter()
        call()
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return time.perf_counter() - start

    def add(self, name, setting, moved, ways, check=True):
        """Measures ways to compute the same: {who: call}. moved: bytes at least."""
        if time.monotonic() > self.end:
            self.left_out += 1
            return
        results = {who: call() for who, call in ways.items()}
        if check and len(ways) > 1:
            want, *rest = (self.dense(r) for r in results.values())
            for got in rest:
                self.torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-2)
        del results
        times, began = collections.defaultdict(list), time.monotonic()
        for r in range(4 * self.args.rounds):
            if r >= self.args.rounds and time.monotonic() - began > 0.3 or r >= 3 and time.monotonic() - began > 6:
                break
            for who, call in ways.items():
                times[who].append(self.once(call))
        seconds = {who: statistics.quantiles(t, n=4) if len(t) > 1 else t * 3 for who, t in times.items()}
        self.results.append({"operation": name, **setting, "bytes": moved, "seconds": seconds})
        print(name, setting, {w: f"{1e3 * s[1]:.3f} ms" for w, s in seconds.items()}, file=sys.stderr, flush=True)

    def dense(self, r):
        t = self.torch
        if not isinstance(r, t.Tensor):
            return t.as_tensor(r)
        return r.to_dense() if r.layout != t.strided else r

    def rows(self, n, width=WIDTH):
        return self.torch.randn(n, width, device=self.device)

    def indices(self, n, below, skewed):
        """Of a uniform distribution, or of one whose few first numbers are met most."""
        u = self.torch.rand(n, dtype=self.torch.float64)
        return (u.pow(4) * below if skewed else u * below).long().clamp(max=below - 1).to(self.device)


class Khop:
    """Package sparse through the library of bench/ops/lib."""

    def __init__(self, threads):
        self.folder = tempfile.TemporaryDirectory()
        library = pathlib.Path(self.folder.name) / "libkhop.so"
        subprocess.run(["go", "build", "-buildmode=c-shared", "-o", library, "./ops/lib"], cwd=HERE.parent, check=True)
        self.lib = ctypes.CDLL(str(library))
        self.lib.khop_open(threads)
        self.kept = {}  # what matrices view

    @staticmethod
    def at(tensor):
        return ctypes.c_void_p(tensor.data_ptr() if tensor is not None else None)

    def matrix(self, indptr, indices, cols):
        m = self.lib.khop_matrix(ctypes.c_int64(len(indptr) - 1), ctypes.c_int64(cols), ctypes.c_int64(len(indices)),
                                 self.at(indptr), 1,
                                 self.at(indices), int(indices.element_size() == 8))
        self.kept[m] = indptr, indices
        return m

    def scatter(self, rows, targets):
        return self.lib.khop_scatter(ctypes.c_int64(rows), ctypes.c_int64(len(targets)), self.at(targets))

    def drop(self, matrix):
        self.lib.khop_drop(matrix)
        self.kept.pop(matrix, None)

    def product(self, matrix, reduce, values, x, y):
        self.must(self.lib.khop_spmm(matrix, reduce, self.at(values), self.at(x), self.at(y),
                                     ctypes.c_int64(x.shape[1])))
        return y

    def extreme(self, matrix, least, x, y, arg):
        self.must(self.lib.khop_extreme(matrix, least, self.at(x), self.at(y), self.at(arg),
                                        ctypes.c_int64(x.shape[1])))
        return y

    def matmul(self, x, w, y):
        self.must(self.lib.khop_matmul(self.at(y), self.at(x), self.at(w),
                                       *map(ctypes.c_int64, (*x.shape, w.shape[1]))))
        return y

    @staticmethod
    def must(rc):
        if rc:
            raise RuntimeError("khop failed")


def dense_products(b, n, mb):
    t, x = b.torch, b.rows(n)
    w, c, y = b.rows(WIDTH), b.rows(n), b.torch.empty_like(x)
    moved = 8 * x.numel()
    ways = {"torch": lambda: t.matmul(x, w)}
    if b.khop:
        ways["khop"] = lambda: b.khop.matmul(x, w, y)
    b.add("matmul", {"MB": mb}, moved, ways)
    b.add("addmm", {"MB": mb}, 12 * x.numel(), {"torch": lambda: t.addmm(c, x, w)})
    zeros = x * (t.rand_like(x) >= 0.99)
    b.add("matmul", {"MB": mb, "sparsity": 0.99}, moved, {"torch": lambda: t.matmul(zeros, w)})


def gathers(b, n, mb, skewed):
    t, x, kind = b.torch, b.rows(n), {"MB": mb, "indices": "power law" if skewed else "uniform"}
    at = b.indices(n, n, skewed)
    wide, y = at.view(-1, 1).expand(-1, WIDTH), t.empty_like(x)
    moved = 4 * WIDTH * (int(at.unique().numel()) + n) + 8 * n
    ways = {"torch": lambda: x.index_select(0, at), "torch.gather": lambda: x.gather(0, wide)}
    if b.khop:
        m = b.khop.matrix(t.arange(n + 1), at, n)
        ways["khop"] = lambda: b.khop.product(m, 0, None, x, y)
    b.add("index_select", kind, moved, ways)
    if not skewed:
        b.add("sort", kind, 24 * n, {"torch": lambda: t.sort(at)[0]})
    if b.khop:
        b.khop.drop(m)


def scatters(b, n, mb, factor, skewed):
    """Rows of x are reduced to a factor-th of as many."""
    t, x, rows = b.torch, b.rows(n), max(n // factor, 1)
    to = b.indices(n, rows, skewed)
    wide, y = to.view(-1, 1).expand(-1, WIDTH), b.rows(rows)
    kind = {"MB": mb, "factor": factor, "indices": "power law" if skewed else "uniform"}
    moved, arg = 4 * WIDTH * (n + rows) + 8 * n, t.empty(rows, WIDTH, dtype=t.int32, device=b.device)
    m = b.khop.scatter(rows, to) if b.khop else None

    def reduced(how):
        return lambda: t.zeros(rows, WIDTH, device=b.device).scatter_reduce_(0, wide, x, how, include_self=False)
    ways = {"torch.index_add": lambda: t.zeros(rows, WIDTH, device=b.device).index_add_(0, to, x),
            "torch.scatter": reduced("sum")}
    if m is not None:
        ways["khop"] = lambda: b.khop.product(m, 0, None, x, y)
    b.add("scatter sum", kind, moved, ways)
    if factor == 4 and not skewed:
        for how, name, call in (("mean", "mean", lambda: b.khop.product(m, 1, None, x, y)),
                                ("amax", "max", lambda: b.khop.extreme(m, 0, x, y, arg)),
                                ("amin", "min", lambda: b.khop.extreme(m, 1, x, y, arg)), ("prod", "mul", None)):
            ways = {"torch.scatter": reduced(how)}
            if m is not None and call:
                ways["khop"] = call
            b.add(f"scatter {name}", kind, moved, ways)
    # gathered rows that are reduced: in two steps, or in one
    source = b.indices(n, n, skewed)
    order = t.sort(to, stable=True)
    indptr = t.searchsorted(order[0].contiguous(), t.arange(rows + 1, device=b.device))
    ways = {"torch": lambda: t.zeros(rows, WIDTH, device=b.device).index_add_(0, to, x.index_select(0, source))}
    if b.khop:
        s = source[order[1]].int()
        fused = b.khop.matrix(indptr, s, n)
        ways["khop"] = lambda: b.khop.product(fused, 0, None, x, y)
    b.add("index_select, sum", kind, 4 * WIDTH * (int(source.unique().numel()) + rows) + 12 * n, ways)
    if b.khop:
        b.khop.drop(m)
        b.khop.drop(fused)


def sparse_products(b, n, sparsity, skewed):
    """Of an n x n matrix with that share of zeros."""
    t, x, y = b.torch, b.rows(n), b.rows(n)
    count = int(n * n * (1 - sparsity))
    if skewed:
        at = t.stack([b.indices(count, n, False), b.indices(count, n, True)])
    else:
        at = (t.rand(n, n, device=b.device) >= sparsity).nonzero().T.contiguous()
    coo = t.sparse_coo_tensor(at, t.rand(at.shape[1], device=b.device), (n, n)).coalesce()
    csr, edges = coo.to_sparse_csr(), coo._nnz()
    values, kind = csr.values(), {"n": n, "sparsity": sparsity, "indices": "power law" if skewed else "uniform"}
    ways = {"torch CSR": lambda: t.sparse.mm(csr, x), "torch COO": lambda: t.sparse.mm(coo, x)}
    scipy = None
    if b.device == "cpu":
        import scipy.sparse
        scipy = scipy.sparse.csr_matrix((values.numpy(), csr.col_indices().int().numpy(),
                                         csr.crow_indices().int().numpy()), shape=(n, n))
        ways["scipy"] = lambda: scipy @ x.numpy()
    else:
        ways |= cupy_product(csr, x)
    if b.khop:
        indptr, indices = csr.crow_indices(), csr.col_indices().int()
        m = b.khop.matrix(indptr, indices, n)
        ways["khop"] = lambda: b.khop.product(m, 0, values, x, y)
    if sparsity == 0:
        dense = coo.to_dense()
        ways["torch dense"] = lambda: t.matmul(dense, x)
    b.add("spmm", kind, 8 * WIDTH * n + 8 * edges, ways)
    if b.khop:
        b.khop.drop(m)
    if skewed:
        return
    turned = coo.indices().flip(0)
    ways = {"torch": lambda: t.sparse_coo_tensor(turned, values, (n, n)).coalesce().to_sparse_csr()}
    if scipy is not None:
        ways["scipy"] = lambda: scipy.T.tocsr()
    if b.khop:
        def transposed():
            made = b.khop.matrix(indptr, indices, n)
            b.khop.must(b.khop.lib.khop_transpose(made))
            b.khop.drop(made)
        ways["khop"] = transposed
    b.add("transpose", kind, 24 * edges, ways, check=False)
    twice = t.cat([coo.indices(), coo.indices()], 1)
    b.add("coalesce", kind, 40 * edges, {"torch": lambda: t.sparse_coo_tensor(twice, t.cat([values, values]),
                                                                              (n, n)).coalesce()})
    if sparsity >= 0.9:
        ways = {"torch": lambda: t.sparse.mm(coo, coo)}
        if scipy is not None:
            ways["scipy"] = lambda: scipy @ scipy
        b.add("spspmm", kind, 24 * edges, ways, check=False)


def cupy_product(csr, x):
    try:
        import cupy
        import cupyx.scipy.sparse
    except ImportError:
        return {}
    parts = (cupy.from_dlpack(p.contiguous()) for p in (csr.values(), csr.col_indices().int(),
                                                        csr.crow_indices().int()))
    a, dense = cupyx.scipy.sparse.csr_matrix(tuple(parts), shape=tuple(csr.shape)), cupy.from_dlpack(x)
    return {"cupy": lambda: torch_of(a @ dense)}


def torch_of(array):
    import torch
    return torch.from_dlpack(array)


def measure(b):
    for part in ((mb for mb in SIZES if mb < 100), None, (mb for mb in SIZES if mb >= 100)):
        if part is None:
            for n, sparsity, skewed in ((n, s, k) for n in (500, 2000) for s in SPARSITIES for k in (False, True)):
                if not skewed or sparsity >= 0.9:
                    sparse_products(b, n, sparsity, skewed)
            continue
        for mb in part:
            if mb <= b.args.largest:
                rows_of(b, mb)


def rows_of(b, mb):
    n = max(int(mb * 1e6 / 4 / WIDTH), 1)
    dense_products(b, n, mb)
    for skewed in (False, True):
        gathers(b, n, mb, skewed)
        for factor in FACTORS:
            if mb < 100 or factor in (1, 8) and not skewed:
                scatters(b, n, mb, factor, skewed)


def median(r, who):
    return r["seconds"][who][1]


def mean(values):
    return statistics.geometric_mean(values) if values else float("nan")


def share(b, r, who=""):
    """Of a copy's bandwidth, by the best of those whose names begin so."""
    return r["bytes"] / min(s[1] for w, s in r["seconds"].items() if w.startswith(who)) / b.rate


def moving(b):
    """Gathers and scatters."""
    return [r for r in b.results if r["operation"].startswith(("index_select", "scatter"))]


def holds(verdict):
    return "holds" if verdict else "does not hold"


def findings(b):
    """What the published benchmark found, and whether it holds here."""
    if not any("MB" in r for r in moving(b)):
        return
    most = max(r["MB"] for r in moving(b))
    large = [r for r in moving(b) if r["MB"] == most]
    torchs, best = mean([share(b, r, "torch") for r in large]), mean([share(b, r) for r in large])
    yield (f"**Memory is used badly** {holds(torchs < 0.5)} for torch: with rows of {most} MB, gathers and scatters "
           f"use {100 * torchs:.0f} % of a copy's "
           f"bandwidth, {100 * best:.0f} % by the best contestant (geometric means; half of it is taken for the "
           f"limit).")
    selects = [median(r, "torch") / median(r, "torch.gather") for r in moving(b) if "torch.gather" in r["seconds"]]
    adds = [median(r, "torch.index_add") / median(r, "torch.scatter") for r in moving(b)
            if "torch.index_add" in r["seconds"]]
    yield (f"**Native operations match those of graph libraries** {holds(mean(selects + adds) < 1.1)} within torch: "
           f"`index_select` takes {mean(selects):.2f} "
           f"of the time of `gather`, `index_add` {mean(adds):.2f} of that of `scatter_reduce`, in the geometric mean "
           f"over all settings.")
    own = [min(s[1] for w, s in r["seconds"].items() if w.startswith("torch")) / median(r, "khop") for r in moving(b)
           if "khop" in r["seconds"]]
    if own:
        near = sum(v < 1.1 for v in own)
        yield (f"Beside khop's kernels it {holds(near > len(own) / 2)}: torch's best takes {mean(own):.2f} times as "
               f"long as khop ({min(own):.2f} to {max(own):.2f}), "
               f"at most 1.1 in {near} of {len(own)} settings.")
    products = [r for r in b.results if r["operation"] == "matmul"]
    full = {r["MB"]: median(r, "torch") for r in products if "sparsity" not in r}
    zeros = mean([median(r, "torch") / full[r["MB"]] for r in products if "sparsity" in r])
    yield (f"**Operations make no use of sparsity** {holds(zeros > 0.9)}: torch's dense product of an operand that is "
           f"zero in 99 of 100 elements takes "
           f"{zeros:.2f} of the time of a full one's.")
    spmm = by_sparsity(b)
    least = {}
    for who in ("torch CSR", "scipy", "cupy", "khop"):
        faster = [s for s, r in spmm.items() if 0 in spmm and who in r["seconds"]
                  and median(r, who) < median(spmm[0], "torch dense")]
        if faster:
            least[who] = f"{100 * min(faster):g} %"
    if least:
        yield (f"Sparse products are faster than torch's dense one (2,000 x 2,000, {WIDTH} columns) from these shares "
               "of zeros on: " + ", ".join(f"{who} {share}" for who, share in least.items()) + ".")


def by_sparsity(b):
    return {r["sparsity"]: r for r in b.results if r["operation"] == "spmm" and r["n"] == 2000
            and r["indices"] == "uniform"}


def draw_plots(b):
    """Beside the page: the bandwidth by size, and the time by sparsity, where there are two and more. Yields the
    names."""
    memory, sparsity = (b.args.out.with_name(f"{b.args.out.stem}-kinds-{what}.svg") for what in ("memory", "sparsity"))
    curves = collections.defaultdict(dict)
    sizes = sorted({r["MB"] for r in moving(b)})
    for mb in sizes:
        for kind in ("index_select", "scatter sum"):
            of = [r for r in moving(b) if r["operation"] == kind and r["MB"] == mb and r["indices"] == "uniform"]
            for who in ("torch", "khop"):
                shares = [share(b, r, who) for r in of if any(w.startswith(who) for w in r["seconds"])]
                if shares:
                    curves[f"{kind}, {who}"][math.log2(mb)] = mean(shares)
    if len(sizes) > 1:
        draw.svg(memory, "gathers and scatters: bandwidth, of a copy's", "MB of rows", "share", curves,
                 draw.logarithms(sizes))
        yield memory.name
    curves = collections.defaultdict(dict)
    for at, (_, r) in enumerate(sorted(by_sparsity(b).items())):
        for who in r["seconds"]:
            curves[who][at] = math.log10(1e3 * median(r, who))
    if "torch dense" in curves:  # whatever the share of zeros
        curves["torch dense"] = dict.fromkeys(range(len(by_sparsity(b))), curves["torch dense"][0])
    if len(by_sparsity(b)) > 1:
        draw.svg(sparsity, f"2,000 x 2,000 by {WIDTH} columns: time by share of zeros", "share of zeros", "ms, log10",
                 curves,
                 {at: f"{s:g}" for at, s in enumerate(sorted(by_sparsity(b)))})
        yield sparsity.name


def ratios(b, keys, peers, chosen):
    """A table: how many times as long as khop the best of some peers takes, by operation and one of the keys."""
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    for r in filter(chosen, b.results):
        for peer in peers:
            theirs = [s[1] for w, s in r["seconds"].items() if w.startswith(peer) and w != "torch dense"]
            if theirs and "khop" in r["seconds"]:
                name = f"{r['operation']}, {peer}" if len(peers) > 1 else r["operation"]
                rows[name][r[keys]].append(min(theirs) / median(r, "khop"))
    columns = sorted({k for of in rows.values() for k in of})
    yield f"| {keys} | " + " | ".join(f"{c:g}" for c in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, of in rows.items():
        yield f"| {name} | " + " | ".join(f"{mean(of[c]):.2f}" if c in of else "" for c in columns) + " |"


def text(b):
    import section  # which the GPU bundle has not
    a, left = b.args, f" {b.left_out} settings were left out, for want of time." if b.left_out else ""
    lines = [section.wrapped(f"""`bench/ops/kinds.py` {where.here()}: device {a.device}, {a.threads} thread(s), torch
        {b.torch.__version__}, rows of {WIDTH} float32, at least {min(a.rounds, 3)} rounds in turns. A copy moves
        {b.rate / 1e9:.1f} GB/s.{left} What a published benchmark found on a GPU (Hosseini, Simini and Vishwanath,
        2022), and what holds here:"""), ""]
    lines += [section.wrapped(f"- {f}") for f in findings(b)]
    if b.khop:
        lines += ["", "How many times as long as khop torch's best takes, by MB of rows (geometric means of settings):",
                  "",
                  *ratios(b, "MB", ("torch",), lambda r: "MB" in r), "",
                  "The same of sparse matrices, 2,000 x 2,000 by 64 columns, by share of zeros:", "",
                  *ratios(b, "sparsity", ("torch", "scipy"), lambda r: r.get("n") == 2000)]
    lines += ["", f"[{a.out.stem}-kinds.json]({a.out.stem}-kinds.json) has all settings.", ""]
    return "\n".join(lines + [f"![{name}]({name})" for name in draw_plots(b)]) + "\n"


def record(b):
    return {"device": b.args.device, "torch": b.torch.__version__, "copy_gb_per_s": b.rate / 1e9,
            "findings": list(findings(b)), "left_out": b.left_out, "results": b.results}


def main():
    args = parse()
    if args.device == "cpu" and any(os.environ.get(k) != v for k, v in given.TUNED.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | given.TUNED)
    b = Bench(args)
    measure(b)
    found = record(b)
    if args.json:
        return print(json.dumps(found, indent=1))
    if args.out:
        sys.path.insert(0, str(HERE.parent))
        import section
        section.put(args.out, "## Operations by kind", text(b))
        results = ",\n".join(json.dumps(r) for r in found.pop("results"))
        args.out.with_name(f"{args.out.stem}-kinds.json").write_text(
            json.dumps(found, indent=1).removesuffix("\n}") + f',\n "results": [\n{results}\n]}}\n')
    print("\n".join(findings(b)))


main()
