"""One rank of run.py's training. Rank 0 prints a line of JSON: digests of epoch 0 by number of batch, then seconds,
bytes that this host has sent and processor time of each timed epoch."""
import json
import os
import resource
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import khop

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/machines"))
from sage import Sage  # noqa: E402


def sent():
    name = "/sys/class/net/wire/statistics/tx_bytes"
    return int(open(name).read()) if os.path.exists(name) else 0


dataset, epochs, hidden = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo")
began, sent_before = time.perf_counter(), sent()
options = json.loads(os.environ.get("KHOP_LOADER_OPTIONS", "{}"))
loader = khop.Loader(dataset, fanouts=[10, 5], batch_size=512, shuffle=True, workers=1, **options)
digests = {b.number: b.digest() for b in loader if not b.padded}
everyone = [None] * dist.get_world_size()
dist.all_gather_object(everyone, digests)
opened = {"seconds": time.perf_counter() - began, "sent": sent() - sent_before}

info = khop.info(dataset)
torch.manual_seed(0)
model = DistributedDataParallel(Sage(info["feature_dim"], info["classes"], hidden=hidden))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
rows = []
for epoch in range(epochs):
    dist.barrier()
    start, before, used = time.perf_counter(), sent(), resource.getrusage(resource.RUSAGE_SELF)
    for steps, batch in enumerate(loader, 1):
        loss = torch.nn.functional.cross_entropy(model(batch), batch.y.long())
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    now = resource.getrusage(resource.RUSAGE_SELF)
    rows.append({"seconds": time.perf_counter() - start, "sent": sent() - before, "steps": steps,
                 "cpu": now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, "loss": loss.item()})
if dist.get_rank() == 0:
    merged = {number: digest for one in everyone for number, digest in one.items()}
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"digests": [merged[n] for n in sorted(merged)], "epochs": rows, "parameters": parameters,
                      "before": opened}))
loader.close()
dist.barrier()
