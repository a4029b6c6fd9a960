"""What train.py does where torch is missing and only the rest is to be seen to run (run --smoke): batches come as NumPy
arrays, and the model is a mean. Its figures mean nothing.
"""
import itertools

import meter
import neighbors


def batches(args, fanouts, caches):
    import khop

    def served(device, *more, **options):
        serve = ["--device-memory", args.device_memory, *more] if device != "cpu" else []
        return neighbors.for_ever(khop.Loader(args.dataset, fanouts, frontier="new", batch_size=args.batch_size,
                                              shuffle=True, drop_last=False,
                                              binary=args.khop, framework="numpy", device=device, serve_options=serve,
                                              **options))

    if args.way == "staged":
        yield from itertools.cycle([(b.x.copy(), b.y.copy(), sum(b.num_sampled_edges))
                                    for b in itertools.islice(served("cpu"), 8)])
    elif args.way == "select":
        column = meter.column(args.dataset, "nodes/0", "feature")
        for b in served("cpu", node_columns=[]):
            yield column[b.n_id], b.y, sum(b.num_sampled_edges)
    elif args.way == "khop-cpu":
        for b in served("cpu"):
            yield b.x, b.y, sum(b.num_sampled_edges)
    else:
        for b in served("cuda:0", *caches[args.way]):
            yield b.x.numpy(), b.y.numpy(), sum(b.num_sampled_edges)


def train(args, fanouts, caches):
    """The object that train.py prints."""
    nodes = edges = 0
    measured = None
    for i, (x, y, drawn) in enumerate(batches(args, fanouts, caches)):
        loss = float(x.mean()) + float(y.sum())
        if measured:
            nodes, edges = nodes + len(x), edges + drawn
        if i == args.warmup - 1:
            measured = meter.Measurement(meter.Board(False), lambda: None)
        if i == args.warmup + args.batches - 1:
            break
    return {"way": args.way, "device": args.device, "stand_in": True, "row_bytes": x.shape[1] * x.itemsize,
            "loss": loss,
            "nodes_per_batch": nodes / args.batches, "edges_per_batch": edges / args.batches,
            **measured.stop(args.batches)}
