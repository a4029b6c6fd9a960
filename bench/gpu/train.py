"""Trains GraphSAGE on a khop dataset with batches that come one of several ways, and prints what a batch costs: after
each way a line, the object of the objects of all ways so far.

    train.py WAY... --dataset D --khop PROGRAM [--device cuda|cpu] ...

WAY  staged     the same batches over and over, on the device already: what the model alone takes
     khop-cuda  khop serve makes batches on the device, where the graph and all rows lie
     khop-capped  the same, where the graph and some of the rows lie on the device, the others are read over the bus
     khop-copies  the graph lies on the device; threads of the CPU and a copy engine bring the rows
     khop-bus   the same, where nothing lies on the device: graph and rows are read over the bus
     khop-cpu   khop serve makes batches on the CPU; they come through shared memory and are copied to the device
     select     khop serve samples on the CPU; torch copies the rows: index_select into pinned memory, while the batch
     before trains pyg-N      PyG's NeighborLoader with N workers

All train the same three layers on the same kind of batch (only nodes new at a hop are expanded), so that only loading
differs, one way after the other. A layer computes the nodes alone that the next needs, as a trainer who cares for time
would have it: else the model hides any loading. A way that cannot run here is "skipped". Status 3: none can run here,
and the last line on standard error says why. --device cpu only shows that it runs.
"""
import argparse
import contextlib
import itertools
import json
import os
import sys

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("ways", nargs="+", metavar="way")
parser.add_argument("--dataset", required=True)
parser.add_argument("--khop", required=True)
parser.add_argument("--device", default="cuda")
parser.add_argument("--fanouts", default="15,10,5")
parser.add_argument("--batch-size", type=int, default=1024)
parser.add_argument("--batches", type=int, default=100)
parser.add_argument("--warmup", type=int, default=10, help="batches before, 1 or more")
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--threads", type=int, default=16)
parser.add_argument("--device-memory", default="8GiB", help="the most that khop may take on the device")
parser.add_argument("--stand-in", action="store_true", help="do without torch, to see that the rest runs")
args = parser.parse_args()
fanouts = [int(k) for k in args.fanouts.split(",")]
os.environ["OMP_NUM_THREADS"] = str(args.threads)


class Cannot(Exception):
    """Why a way cannot run here."""


def cannot(why):
    print(why, file=sys.stderr)
    sys.exit(3)


def each(train):
    """Trains each way, and prints what was found so far after each."""
    found = {}
    for args.way in args.ways:
        try:
            found[args.way] = train()
        except Cannot as why:
            found[args.way] = {"skipped": str(why)}
        print(json.dumps(found), flush=True)


# What of the dataset lies on the device. Of 700 MB the bundle's graph takes three quarters; the hot rows have the rest.
CACHES = {"khop-cuda": (), "khop-capped": ("--device-cache", "700MB"), "khop-bus": ("--device-cache", "0"),
          "khop-copies": ("--device-cache", "700MB", "--carry", "copies")}

try:
    if args.stand_in:
        import standin

        each(lambda: standin.train(args, fanouts, CACHES))
        sys.exit()
    import numpy as np
    import torch
except ImportError as error:
    cannot(error)
import meter
import neighbors

cuda = args.device != "cpu"
if cuda and not torch.cuda.is_available():
    cannot("torch finds no CUDA device")
torch.set_num_threads(args.threads)
synchronize = torch.cuda.synchronize if cuda else lambda: None


class SAGE(torch.nn.Module):
    """GraphSAGE with means: a layer is W1 x + W2 mean(x of the sources). Hamilton et al., NeurIPS 2017.

    nodes and edges are how many each hop added, the seeds first: nodes and edges stand hop by hop, so a layer's are the
    first so many.
    """

    def __init__(self, widths):
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.own = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in pairs)
        self.sources = torch.nn.ModuleList(torch.nn.Linear(a, b, bias=False) for a, b in pairs)

    def forward(self, x, edge_index, nodes, edges):
        for i, (own, sources) in enumerate(zip(self.own, self.sources)):
            hops = len(self.own) - i
            n = sum(nodes[:hops])
            source, destination = edge_index[:, :sum(edges[:hops])]
            degree = x.new_zeros(n).index_add_(0, destination, x.new_ones(len(destination)))
            mean = x.new_zeros(n, x.shape[1]).index_add_(0, destination, x[source]) / degree.clamp(min=1)[:, None]
            x = own(x[:n]) + sources(mean)
            if i < len(self.own) - 1:
                x = x.relu()
        return x


def khop_loader(**options):
    import khop

    return khop.Loader(args.dataset, fanouts, frontier="new", batch_size=args.batch_size, shuffle=True,
                       drop_last=False, binary=args.khop,
                       framework="torch", **options)


def fed(device, *more):
    """Batches of khop serve, with more options of it, as (x, edge_index, y, nodes a hop, edges a hop)."""
    from khop.errors import DeviceError

    if device != "cpu" and not cuda:
        raise Cannot("batches on a device need torch with CUDA")
    options = ["--device-memory", args.device_memory, *more] if device != "cpu" else []
    try:
        for b in neighbors.for_ever(khop_loader(device=device, serve_options=options)):
            if device == "cpu":
                b = b.to(args.device, non_blocking=True)
            yield b.x, b.edge_index, b.y, b.num_sampled_nodes, b.num_sampled_edges
    except DeviceError as error:
        raise Cannot(error) from error


def staged():
    kept = [(*(t.clone() for t in batch[:3]), *batch[3:]) for batch in itertools.islice(fed("cpu"), 8)]
    yield from itertools.cycle(kept)


def select():
    """The CPU-centric way: two pinned buffers, so that rows are copied together while the device trains on those
    before."""
    x = torch.from_numpy(np.array(meter.column(args.dataset, "nodes/0", "feature")))
    buffers, sent = [torch.empty((0, x.shape[1]))] * 2, [None, None]
    for i, b in enumerate(neighbors.for_ever(khop_loader(device="cpu", node_columns=[]))):
        half, n = i % 2, len(b.n_id)
        if len(buffers[half]) < n:
            buffers[half] = torch.empty((n + n // 4, x.shape[1]), dtype=x.dtype, pin_memory=cuda)
        if sent[half] is not None:
            sent[half].synchronize()
        rows = torch.index_select(x, 0, b.n_id, out=buffers[half][:n]).to(args.device, non_blocking=True)
        if cuda:
            sent[half] = torch.cuda.Event()
            sent[half].record()
        else:
            rows = rows.clone()
        b = b.to(args.device, non_blocking=True)
        yield rows, b.edge_index, b.y, b.num_sampled_nodes, b.num_sampled_edges


def pyg(workers):
    try:
        loader = neighbors.loader(args.dataset, fanouts, args.batch_size, workers, pin_memory=cuda)
        for b in neighbors.for_ever(loader):
            n = b.batch_size
            b = b.to(args.device, non_blocking=True)
            yield b.x, b.edge_index, b.y[:n], b.num_sampled_nodes, b.num_sampled_edges
    except ImportError as error:
        raise Cannot(error) from error


def batches():
    if args.way == "staged":
        return staged()
    if args.way == "khop-cpu":
        return fed("cpu")
    if args.way in CACHES:
        return fed("cuda:0", *CACHES[args.way])
    if args.way == "select":
        return select()
    if args.way.startswith("pyg-"):
        return pyg(int(args.way[4:]))
    parser.error(f"{args.way}: no such way")


def train():
    """The object of one way, args.way."""
    torch.manual_seed(0)
    model, board, measured = None, meter.Board(cuda), None
    nodes = edges = 0
    with contextlib.closing(batches()) as coming:  # its programs end before those of the next way start
        for i, (x, edge_index, y, new_nodes, new_edges) in enumerate(coming):
            if model is None:
                classes = int(meter.column(args.dataset, "nodes/0", "label").max()) + 1
                model = SAGE([x.shape[1]] + [args.hidden] * (len(fanouts) - 1) + [classes]).to(args.device)
                optimizer = torch.optim.Adam(model.parameters())
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x, edge_index, new_nodes, new_edges)[:len(y)], y.long())
            loss.backward()
            optimizer.step()
            if measured:
                nodes, edges = nodes + len(x), edges + edge_index.shape[1]
            if i == args.warmup - 1:
                measured = meter.Measurement(board, synchronize)
            if i == args.warmup + args.batches - 1:
                break
        result = measured.stop(args.batches)
    return {"way": args.way, "device": args.device, "row_bytes": x.shape[1] * x.element_size(),
            "torch": torch.__version__, "loss": loss.item(),
            "nodes_per_batch": nodes / args.batches, "edges_per_batch": edges / args.batches, **result}


each(train)
