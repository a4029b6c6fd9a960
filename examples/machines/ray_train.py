"""Ray Train: python ray_train.py DATASET [WORKERS]. Ray places the workers, restarts what fails and keeps checkpoints;
each worker reads the replica of its machine, and a restart goes on where the checkpoint was made."""
import os
import sys
import tempfile

import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_model

import khop
from sage import Sage


def train(config):
    loader = khop.Loader(config["dataset"], fanouts=[10, 5], batch_size=512, shuffle=True)  # the rank is Ray's
    print(loader.rank_reason, flush=True)
    info = khop.info(config["dataset"])
    model = prepare_model(Sage(info["feature_dim"], info["classes"]))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "state.pt"), map_location=loader.device)
        model.load_state_dict(saved["model"]), optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["khop"])
    while loader.epoch < config["epochs"]:
        for batch in loader:
            batch = batch.to(loader.device)
            loss = torch.nn.functional.cross_entropy(model(batch), batch.y.long())
            optimizer.zero_grad(), loss.backward(), optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            made = None
            if loader.rank == 0:  # the states of all ranks are equal here
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "khop": loader.state_dict()}, os.path.join(folder, "state.pt"))
                made = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"loss": loss.item(), "epoch": batch.epoch}, checkpoint=made)
    loader.close()


if __name__ == "__main__":
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    trainer = TorchTrainer(
        train, train_loop_config={"dataset": os.path.abspath(sys.argv[1]), "epochs": 2},
        scaling_config=ray.train.ScalingConfig(
            num_workers=workers, use_gpu=torch.cuda.is_available(), trainer_resources={"CPU": 0}),
        run_config=ray.train.RunConfig(failure_config=ray.train.FailureConfig(max_failures=3)))
    print(trainer.fit().metrics)
