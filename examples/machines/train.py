"""DDP on any number of machines, each with a replica of the dataset:

    torchrun --nnodes 2 --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint HOST:29500 train.py DATASET
    srun python train.py DATASET                     # in job.sbatch

A checkpoint has the model and khop's state. Another number of ranks goes on from it, with no seed lost or twice. Of
"khop generate sbm g.khop --nodes 6000 --edges 60000 --features 16 --classes 4" it reaches an accuracy of 0.9.
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import khop
from khop.place import find
from sage import Sage

parser = argparse.ArgumentParser()
parser.add_argument("dataset")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--checkpoint", default="checkpoint.pt")
parser.add_argument("--steps", type=int, default=0, help="stop after so many steps, as if the job's time were over")
args = parser.parse_args()

here = find()  # the launcher's names in the environment: of torchrun, Slurm, MPI
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", rank=here.rank, world_size=here.world_size)
loader = khop.Loader(args.dataset, fanouts=[10, 5], batch_size=512, shuffle=True, framework="torch")
if here.rank == 0:
    print(loader.rank_reason, flush=True)

torch.manual_seed(0)
info = khop.info(args.dataset)
model = DistributedDataParallel(Sage(info["feature_dim"], info["classes"]).to(loader.device))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
if os.path.exists(args.checkpoint):
    saved = torch.load(args.checkpoint, map_location=loader.device)
    model.load_state_dict(saved["model"]), optimizer.load_state_dict(saved["optimizer"])
    loader.load_state_dict(saved["khop"])

done = 0
while loader.epoch < args.epochs and not (args.steps and done >= args.steps):
    for batch in loader:
        batch = batch.to(loader.device)
        loss = torch.nn.functional.cross_entropy(model(batch), batch.y.long())
        optimizer.zero_grad(), loss.backward(), optimizer.step()
        done += 1
        if args.steps and done >= args.steps:
            break
    if dist.get_rank() == 0:
        print(f"{done} steps, the last of epoch {batch.epoch}, loss {loss.item():.3f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "khop": loader.state_dict()},
                   args.checkpoint)
loader.close()
if not args.steps:
    counts = torch.zeros(2, device=loader.device)
    with torch.no_grad(), khop.Loader(args.dataset, fanouts=[10, 5], batch_size=512, seeds="test") as loader:
        for batch in (b.to(loader.device) for b in loader if not b.padded):  # each node once
            right = model.module(batch).argmax(1) == batch.y
            counts += torch.tensor([right.sum(), len(right)], device=counts.device)
    dist.all_reduce(counts)
    if dist.get_rank() == 0:
        print(f"accuracy {counts[0] / counts[1]:.3f} of {int(counts[1])} test nodes", flush=True)
dist.barrier()
dist.destroy_process_group()
